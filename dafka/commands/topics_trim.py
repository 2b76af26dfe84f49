"""`dafka topics trim`: delete the oldest records of topics."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

import click

from dafka.commands.asking import api_keys, connect, error_name, partitions_of, report
from dafka.commands.client_security import Bootstrap
from dafka.commands.decorators import bootstrap_option, json_option, log_options
from dafka.commands.exits import CommandFailed
from dafka.commands.tables import print_json, print_table

REQUEST_TIMEOUT_MS: Final = 8_000
"""What the server may take: less than this client waits, so that it answers."""

NAMED_PARTITIONS: Final = 5
"""Partitions that one message names."""

EVERYTHING: Final = -1  # in DeleteRecords: the high watermark

HELP: Final = """Delete the oldest records of topics: those below an offset, or all. There is no way back.

The topics stay, and new records go on with the offsets that follow.

\b
dafka topics trim orders --partition 2 --before 1000
dafka topics trim orders --all
"""

_REASONS: Final = {
    "OFFSET_OUT_OF_RANGE": "the log ends before that offset. 'dafka topics describe' shows where.",
    "POLICY_VIOLATION": "its cleanup.policy has no delete. 'dafka configs alter topic' changes that.",
    "INVALID_TOPIC_EXCEPTION": "it is an internal topic, whose records are not yours to delete.",
    "UNKNOWN_TOPIC_OR_PARTITION": "it is not there. 'dafka topics describe' shows its partitions.",
    "NOT_LEADER_OR_FOLLOWER": "it is not served at the moment. Try again.",
}


@click.command(short_help="Delete the oldest records.", help=HELP)
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option(
    "--partition", "partitions", type=click.IntRange(0), multiple=True, metavar="N",
    help="Only this partition; several times for several.  [default: all]",
)  # fmt: skip
@click.option(
    "--before", type=click.IntRange(0), metavar="OFFSET", help="Delete what lies below this offset."
)
@click.option("--all", "everything", is_flag=True, help="Delete all records.")
@bootstrap_option
@json_option
@log_options
def trim(
    names: Sequence[str],
    partitions: Sequence[int],
    before: int | None,
    everything: bool,
    bootstrap: Bootstrap,
    as_json: bool,
) -> None:
    """Trim topics."""
    if everything is (before is not None):
        raise CommandFailed("which records? Give either --before OFFSET or --all.")
    offset = EVERYTHING if before is None else before
    from dafka.commands.cluster import Cluster

    results: list[tuple[str, int, int, str | None]] = []
    with connect(bootstrap) as client, Cluster(client) as cluster:
        metadata = cluster.metadata(list(dict.fromkeys(names)))
        report("cannot trim", metadata.topics)
        for node_id, topics in _by_leader(metadata.topics, partitions, offset).items():
            answer = cluster.leader(node_id).ask(
                api_keys().DELETE_RECORDS, 2, topics=list(topics.items()), timeout_ms=REQUEST_TIMEOUT_MS
            )
            results += [
                (
                    topic.name,
                    one.partition_index,
                    one.low_watermark,
                    error_name(one.error_code) if one.error_code else None,
                )
                for topic in answer.topics
                for one in topic.partitions
            ]
    results.sort()
    _show(results, as_json=as_json)
    refused: dict[str, list[str]] = defaultdict(list)
    for topic, index, _, error in results:
        if error:
            refused[error].append(f"{topic}-{index}")
    if refused:
        raise CommandFailed(" ".join(_refusal(error, places) for error, places in refused.items()))


def _refusal(error: str, places: Sequence[str]) -> str:
    others = len(places) - NAMED_PARTITIONS
    names = ", ".join(places[:NAMED_PARTITIONS]) + (f" and {others} others" if others > 0 else "")
    return f"cannot trim {names}: {error}, {_REASONS.get(error, 'see the log of the gateway.')}"


def _by_leader(
    topics: Sequence[Any], partitions: Sequence[int], offset: int
) -> dict[int, dict[str, list[tuple[int, int]]]]:
    """Leader -> topic -> (partition, offset). Raises CommandFailed."""
    wanted: dict[int, dict[str, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))
    for topic in topics:
        leaders = {one.partition_index: one.leader_id for one in topic.partitions}
        for index in partitions_of(topic, partitions):
            wanted[leaders[index]][topic.name].append((index, offset))
    return wanted


def _show(results: Sequence[tuple[str, int, int, str | None]], *, as_json: bool) -> None:
    if as_json:
        print_json(
            [
                {
                    "topic": topic,
                    "partition": index,
                    "log_start": None if error else start,
                    "error": error,
                }
                for topic, index, start, error in results
            ]
        )
        return
    done = [(topic, index, start) for topic, index, start, error in results if not error]
    if done:
        print_table(("topic", "partition", "begins at"), done)
