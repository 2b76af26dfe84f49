"""`dafka transactions`: show transactional ids, and abort what hangs, of a gateway or of any Kafka."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from dafka.commands.client_security import Bootstrap
from dafka.commands.decorators import bootstrap_option, json_option, log_options
from dafka.commands.tables import plain, print_json, print_table

if TYPE_CHECKING:
    from dafka.commands.transactions_cluster import Described, Transactions

STATES: Final = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")
"""What `--state` may be."""

HELP: Final = (
    "Show transactional ids and what they have open, and abort what hangs; of any Kafka (--bootstrap)."
)

LIST_HELP: Final = """List transactional ids, with their states.

\b
dafka transactions list
dafka transactions list --state Ongoing --state PrepareCommit --json
"""

DESCRIBE_HELP: Final = """Show what transactional ids have open, since when, and in which partitions.

\b
dafka transactions describe payments-1
dafka transactions describe payments-1 --json
"""

ABORT_HELP: Final = """Abort one open transaction in one partition, by a marker, past its coordinator.

For one that hangs: that nobody ends, and readers of read_committed wait for. What a coordinator has open it
aborts by itself after its timeout. Were it aborted here, the rest of it could still be committed: so this is
refused without --force.

\b
dafka transactions abort orders --partition 0 --start-offset 1234
"""


@click.group(short_help="Show transactional ids, abort what hangs.", help=HELP)
def transactions() -> None:
    """The group."""


@contextmanager
def _connected(bootstrap: Bootstrap) -> Iterator[Transactions]:
    from dafka.commands.groups_session import Session
    from dafka.commands.transactions_cluster import Transactions

    with Session(bootstrap) as session:
        yield Transactions(session.client, session.cluster)


@transactions.command(name="list", short_help="List transactional ids.", help=LIST_HELP)
@click.option(
    "--state",
    "states",
    metavar="STATE",
    multiple=True,
    help=f"Only in this state, of {', '.join(STATES)}; repeatable.",
)
@bootstrap_option
@json_option
@log_options
def list_transactions(states: Sequence[str], bootstrap: Bootstrap, as_json: bool) -> None:
    """List them."""
    with _connected(bootstrap) as asked:
        found = asked.list(states)
    if as_json:
        print_json([one._asdict() for one in found])
        return
    titles = ("transactional id", "coordinator", "producer id", "state")
    print_table(titles, [(plain(one.transactional_id), *one[1:]) for one in found])


@transactions.command(short_help="Show what transactional ids have open.", help=DESCRIBE_HELP)
@click.argument("names", metavar="ID...", nargs=-1, required=True)
@bootstrap_option
@json_option
@log_options
def describe(names: Sequence[str], bootstrap: Bootstrap, as_json: bool) -> None:
    """Describe them."""
    with _connected(bootstrap) as asked:
        found = [asked.describe(name) for name in dict.fromkeys(names)]
    if as_json:
        print_json([_as_json(one) for one in found])
        return
    now_ms = time.time_ns() // 1_000_000
    for number, one in enumerate(found):
        if number:
            click.echo()
        click.echo(
            f"transactional id {plain(one.transactional_id)}: {one.state}, producer {one.producer_id} epoch "
            f"{one.producer_epoch}, coordinator {one.coordinator}, timeout {one.timeout_ms} ms"
        )
        if one.partitions:
            click.echo(f"  open for {max(0, now_ms - one.start_ms) / 1000:.0f} s")
            print_table(("  topic", "partition"), [(f"  {topic}", index) for topic, index in one.partitions])


def _as_json(one: Described) -> dict[str, Any]:
    partitions = [{"topic": topic, "partition": index} for topic, index in one.partitions]
    return {**one._asdict(), "partitions": partitions}


@transactions.command(short_help="Abort one that hangs.", help=ABORT_HELP)
@click.argument("topic")
@click.option("--partition", metavar="N", type=click.IntRange(0), required=True, help="Of this partition.")
@click.option(
    "--start-offset",
    metavar="OFFSET",
    type=click.IntRange(0),
    required=True,
    help="Its first offset there, as 'dafka store accept-loss' and the gateway's log name it.",
)
@click.option("--force", is_flag=True, help="Also if a coordinator has it, or cannot say so.")
@bootstrap_option
@log_options
def abort(topic: str, partition: int, start_offset: int, force: bool, bootstrap: Bootstrap) -> None:
    """Abort it."""
    with _connected(bootstrap) as asked:
        producer_id = asked.abort(topic, partition, start_offset, force=force)
    click.echo(f"{topic}-{partition}: the transaction of producer {producer_id} is aborted")
