"""`dafka mesh`: what a running gateway sees of its mesh."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from dafka.commands.decorators import gateway_data_option, json_option
from dafka.commands.tables import print_json, print_table, size, there

RATE_SECONDS: Final = 1.0
"""Between two looks at what came meanwhile."""


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


@mesh.command(
    short_help="Show native subjects, their addresses and lag.",
    help="Show the topics that have native records: of which subject, from how many addresses, how many came "
    "since the gateway started and in the last second, and how many that stores have told of are still to "
    "come; and the topics whose values native programs can read. Of several gateways each tells of the "
    "partitions that it leads.",
)
@click.option(
    "--addresses",
    is_flag=True,
    help="Also each address, and the sequence with which it goes on in the topic.",
)
@gateway_data_option
@json_option
def subjects(addresses: bool, data: Path, as_json: bool) -> None:
    """Show the subjects."""
    from dafka.operators.socket import ask  # loads trio

    before = {entry["topic"]: entry for entry in ask(data, "mesh.subjects")["native"]}
    if before:
        time.sleep(RATE_SECONDS)
    seen: dict[str, list[dict[str, Any]]] = ask(data, "mesh.subjects", addresses=addresses)
    native, published = seen["native"], seen["published"]
    for entry in native:
        entry["per_second"] = _rate(before.get(entry["topic"]), entry)
    if as_json:
        print_json(seen)
        return
    if not native and not published:
        click.echo(
            "no topic has a subject: 'dafka topics create NAME --native SUBJECT' makes one that takes it up, "
            "and --publish one whose values native programs read"
        )
    if native:
        _show(native)
    if published:
        if native:
            click.echo()
        columns = ("topic", "subject", "partitions", "offsets")
        titles = ("published topic", *columns[1:])
        print_table(titles, [[entry[column] for column in columns] for entry in published])


def _rate(before: Mapping[str, Any] | None, entry: Mapping[str, Any]) -> int:
    """Records a second; none of a topic that has just got its subject."""
    came = 0 if before is None else max(0, entry["records"] - before["records"])
    return round(came / RATE_SECONDS)


def _show(seen: Sequence[Mapping[str, Any]]) -> None:
    columns = (
        "topic",
        "subject",
        "addresses",
        "records",
        "per_second",
        "lag",
        "lost",
        "refused",
        "rewritten",
    )
    titles = (*columns[:4], "a second", *columns[5:])
    print_table(titles, [[entry[column] for column in columns] for entry in seen])
    named = [
        (entry["topic"], one["address"], one["partition"], "?" if one["next"] is None else one["next"])
        for entry in seen
        for one in entry.get("named", ())
    ]
    if named:
        click.echo()
        print_table(("topic", "address", "partition", "next"), named)
        more = sum(entry["addresses"] for entry in seen) - len(named)
        if more > 0:
            click.echo(f"and {more} more addresses")
