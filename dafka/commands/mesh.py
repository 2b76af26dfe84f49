"""`dafka mesh`: what a running gateway sees of its mesh."""

from pathlib import Path
from typing import Any

import click

from dafka.commands.decorators import gateway_data_option, json_option
from dafka.commands.tables import print_json, print_table, size, there


@click.group(short_help="Look at the mesh.", help="The mesh as a running gateway sees it.")
def mesh() -> None:
    """The group."""


@mesh.command(
    short_help="Show stores, links and partitions.",
    help="Show the stores, the links to other nodes, and the partitions that do not serve, with the reason.",
)
@gateway_data_option
@json_option
def status(data: Path, as_json: bool) -> None:
    """Show the status."""
    from dafka.operators.socket import ask  # loads trio

    seen: dict[str, Any] = ask(data, "mesh.status")
    if as_json:
        print_json(seen)
        return
    click.echo(f"cluster {seen['cluster']}: {seen['ready']} of {seen['partitions']} partitions serve")
    click.echo()
    print_table(
        ("store", "name", "state", "there", "free", "silent for", "to catch up"),
        [
            (
                entry["id"] or "-",
                entry["name"] or "-",
                entry["state"],
                there(entry),
                size(entry["free_bytes"]),
                "?" if entry["silent_seconds"] is None else f"{entry['silent_seconds']} s",
                f"{entry['unconfirmed_segments']} segments" if entry["unconfirmed_segments"] else "-",
            )
            for entry in seen["stores"]
        ],
    )
    click.echo()
    peers = [(peer["node"], peer["endpoint"], peer["state"]) for peer in seen["peers"]]
    print_table(("node", "endpoint", "link"), peers)
    if seen["troubled"]:
        click.echo()
        troubled = [(one["partition"], one["state"], one["reason"]) for one in seen["troubled"]]
        print_table(("partition", "state", "reason"), troubled)
