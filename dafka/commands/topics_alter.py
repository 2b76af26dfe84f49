"""`dafka topics alter`: more partitions, other configs."""

from collections.abc import Sequence
from typing import Final

import click

from dafka.commands.asking import TOPIC_RESOURCE, alterations, api_keys, connect, count, report
from dafka.commands.client_security import Bootstrap
from dafka.commands.decorators import bootstrap_option, json_option, log_options
from dafka.commands.exits import CommandFailed
from dafka.commands.parsing import MAX_PARTITIONS
from dafka.commands.tables import print_json

REQUEST_TIMEOUT_MS: Final = 8_000
"""What the server may take to add partitions: less than this client waits, so that it answers."""

HELP: Final = """Give topics more partitions, or other configs. Both take effect at once.

A topic can only get more partitions, never fewer. Records with a key may go to another one from then on.

\b
dafka topics alter orders --partitions 8
dafka topics alter orders --set retention.ms=3600000 --delete max.message.bytes
"""


@click.command(short_help="Add partitions, change configs.", help=HELP)
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option(
    "--partitions",
    type=click.IntRange(1, MAX_PARTITIONS),
    metavar="N",
    help="Number of partitions that each topic shall have.",
)
@click.option(
    "--set", "sets", multiple=True, metavar="KEY=VALUE", help="Set a config; several times for several."
)
@click.option(
    "--delete",
    "deletes",
    multiple=True,
    metavar="KEY",
    help="Back to the default; several times for several.",
)
@click.option("--dry-run", is_flag=True, help="Let the server check it, and change nothing.")
@bootstrap_option
@json_option
@log_options
def alter(
    names: Sequence[str],
    partitions: int | None,
    sets: Sequence[str],
    deletes: Sequence[str],
    dry_run: bool,
    bootstrap: Bootstrap,
    as_json: bool,
) -> None:
    """Alter topics: configs first, since those are checked more."""
    changes = alterations(sets, deletes)
    if partitions is None and not changes:
        raise CommandFailed("nothing to change. Give --partitions, --set or --delete.")
    keys = api_keys()
    with connect(bootstrap) as client:
        if changes:
            answer = client.ask(
                keys.INCREMENTAL_ALTER_CONFIGS,
                1,
                resources=[(TOPIC_RESOURCE, name, changes) for name in names],
                validate_only=dry_run,
            )
            report("cannot change the configs of", answer.responses)
        if partitions is not None:
            answer = client.ask(
                keys.CREATE_PARTITIONS,
                3,
                topics=[(name, partitions, None) for name in names],
                timeout_ms=REQUEST_TIMEOUT_MS,
                validate_only=dry_run,
            )
            report("cannot add partitions to", answer.results)
    if as_json:
        changed = {name: value for name, _, value in changes}
        print_json(
            [
                {"topic": name, "partitions": partitions, "configs": changed, "dry_run": dry_run}
                for name in names
            ]
        )
        return
    done = "would change" if dry_run else "changed"
    what = [f"{name}={'(default)' if value is None else value}" for name, _, value in changes]
    what += [count(partitions, "partition")] if partitions is not None else []
    for name in names:
        click.echo(f"{done} {name}: {', '.join(what)}")
