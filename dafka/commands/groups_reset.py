"""`dafka groups reset`: set what a group has committed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from dafka.commands.asking import partitions_of, report
from dafka.commands.client_security import Bootstrap
from dafka.commands.decorators import bootstrap_option, json_option, log_options
from dafka.commands.exits import CommandFailed
from dafka.commands.groups_session import Session
from dafka.commands.tables import print_json, print_table

if TYPE_CHECKING:
    from dafka.commands.cluster import Cluster

RESET_HELP: Final = """Set what a group has committed while its consumers are stopped. A new group is made.

\b
dafka groups reset payments --topic orders --to-earliest
dafka groups reset payments --topic orders --partition 2 --to-offset 1000
dafka groups reset payments --to-time 2026-11-20T08:00:00+00:00 --dry-run
"""


@click.command(short_help="Set what a group has committed.", help=RESET_HELP)
@click.argument("name", metavar="NAME")
@click.option(
    "--topic", "topics", multiple=True, metavar="NAME",
    help="Only this topic; several times for several.  [default: all that the group has offsets of]",
)  # fmt: skip
@click.option(
    "--partition", "partitions", type=click.IntRange(0), multiple=True, metavar="N",
    help="Only this partition; several times for several.  [default: all]",
)  # fmt: skip
@click.option("--to-earliest", is_flag=True, help="Where the log begins.")
@click.option("--to-latest", is_flag=True, help="Where the log ends.")
@click.option("--to-offset", type=click.IntRange(0), metavar="OFFSET", help="This offset.")
@click.option(
    "--to-time", metavar="TIME", help="The first record of this time or later, as 2026-11-20T08:00:00+00:00."
)
@click.option("--shift", type=int, metavar="N", help="N records on from where it is; back with -N.")
@click.option("--dry-run", is_flag=True, help="Only show what would be.")
@bootstrap_option
@json_option
@log_options
def reset(
    name: str,
    topics: Sequence[str],
    partitions: Sequence[int],
    *,
    to_earliest: bool,
    to_latest: bool,
    to_offset: int | None,
    to_time: str | None,
    shift: int | None,
    dry_run: bool,
    bootstrap: Bootstrap,
    as_json: bool,
) -> None:
    """Reset a group."""
    given = [to_earliest, to_latest, to_offset is not None, to_time is not None, shift is not None]
    if sum(given) != 1:
        raise CommandFailed(
            "where to? Give one of --to-earliest, --to-latest, --to-offset, --to-time, --shift."
        )
    timestamp = _milliseconds(to_time) if to_time is not None else None
    with Session(bootstrap) as session:
        before = session.groups.committed(name)
        wanted = _wanted(session, topics or sorted({topic for topic, _ in before}), partitions)
        after: dict[tuple[str, int], int] = {}
        for topic, indexes in wanted:
            log = _Log(session.cluster, topic, indexes)
            for index in indexes:
                place = topic.name, index
                if shift is not None:
                    if place not in before:
                        raise CommandFailed(f"{topic.name}-{index}: the group has no offset there to shift.")
                    after[place] = log.within(index, before[place] + shift)
                elif to_offset is not None:
                    after[place] = log.within(index, to_offset)
                elif timestamp is not None:
                    after[place] = log.at(index, timestamp)
                else:
                    after[place] = log.first[index] if to_earliest else log.end[index]
        if not after:
            raise CommandFailed(f"group {name} has no offsets. Give --topic.")
        if not dry_run:
            session.groups.commit(name, after)
    rows = [(topic, index, before.get((topic, index)), after[topic, index]) for topic, index in sorted(after)]
    if as_json:
        print_json([dict(zip(("topic", "partition", "before", "after"), row, strict=True)) for row in rows])
        return
    title = "would be" if dry_run else "after"
    table = [(topic, index, "-" if old is None else old, new) for topic, index, old, new in rows]
    print_table(("topic", "partition", "before", title), table)


class _Log:
    """Where some partitions of a topic begin and end."""

    def __init__(self, cluster: Cluster, topic: Any, indexes: Sequence[int]) -> None:
        self._cluster = cluster
        self._topic = topic
        self._at: dict[int, int] | None = None
        self.first = cluster.offsets(topic, cluster.EARLIEST)
        self.end = cluster.offsets(topic, cluster.LATEST)
        self._indexes = indexes

    def within(self, index: int, offset: int) -> int:
        """The offset, if it lies in the log; else the end of the log that is nearer."""
        return min(max(offset, self.first[index]), self.end[index])

    def at(self, index: int, timestamp: int) -> int:
        """The first record's of that time or later; the end if there is none."""
        if self._at is None:
            self._at = self._cluster.offsets(self._topic, timestamp)
        return self._at[index] if self._at[index] >= 0 else self.end[index]


def _wanted(session: Session, names: Sequence[str], partitions: Sequence[int]) -> list[tuple[Any, list[int]]]:
    if not names:
        return []
    metadata = session.cluster.metadata(list(dict.fromkeys(names)))
    report("cannot reset", metadata.topics)
    return [(topic, partitions_of(topic, partitions)) for topic in metadata.topics]


def _milliseconds(text: str) -> int:
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise CommandFailed(f"--to-time {text}: write it as 2026-11-20T08:00:00+00:00") from None
    if moment.tzinfo is None:
        moment = moment.astimezone()
    return int(moment.timestamp() * 1000)
