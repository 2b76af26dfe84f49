"""DeleteRecords 0-2: the log start moves, and what may not be deleted."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import DeleteRecordsRequest
from kafka.protocol.consumer import ListOffsetsRequest

from tests.differential.batches import Record, batch
from tests.differential.case import case
from tests.differential.requests import fetch, fetch_partition
from tests.differential.side import Side

EARLIEST, LATEST = -2, -1
END = -1


def request(version: int, *topics: tuple[str, dict[int, int]], ms: int = 10_000) -> Any:
    one = DeleteRecordsRequest.DeleteRecordsTopic
    return DeleteRecordsRequest(
        version=version,
        topics=[
            one(
                name=name,
                partitions=[
                    one.DeleteRecordsPartition(partition_index=index, offset=offset)
                    for index, offset in partitions.items()
                ],
            )
            for name, partitions in topics
        ],
        timeout_ms=ms,
    )


def three_batches(side: Side, name: str, partition: int = 0) -> None:
    """Offsets 0-1, 2-3, 4-5."""
    for _ in range(3):
        side.put(name, batch([Record(b"x"), Record(b"y")]), partition=partition)


def look(side: Side, name: str, label: str, start: int) -> None:
    of = ListOffsetsRequest.ListOffsetsTopic
    for timestamp in (EARLIEST, LATEST):
        partition = of.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        ask = ListOffsetsRequest(
            version=7, replica_id=-1, isolation_level=0, topics=[of(name=name, partitions=[partition])]
        )
        side.ask(ask, f"{label}, offset {timestamp}")
    for offset in {max(0, start - 1), start}:
        side.ask(fetch(side, 12, {name: [fetch_partition(0, offset)]}), f"{label}, fetch {offset}")


@case(DeleteRecordsRequest)
def good(side: Side, version: int) -> None:
    """Also in the middle of a batch, and to the end; never back."""
    name = side.own_topic("t")
    three_batches(side, name)
    for label, offset, start in [("a batch", 2, 2), ("half a batch", 3, 3), ("back", 1, 3), ("same", 3, 3),
                                 ("all", END, 6), ("again", END, 6)]:  # fmt: skip
        side.ask(request(version, (name, {0: offset})), label)
        look(side, name, label, start)
    side.put(name, batch([Record(b"z")]))
    look(side, name, "afterwards", 6)


@case(DeleteRecordsRequest)
def refused(side: Side, version: int) -> None:
    name = side.own_topic("t", partitions=2)
    three_batches(side, name)
    for offset in (7, 2**62, -2, -(2**63)):
        side.ask(request(version, (name, {0: offset})), f"offset {offset}")
    side.ask(
        request(version, (name, {0: 2, 1: 5, 2: 0, -1: 0}), (side.name("nowhere"), {0: 0})), "beside good"
    )
    side.ask(request(version, (name, {1: 0})), "an empty one")
    side.ask(request(version, (name, {1: END})), "all of an empty one")
    side.ask(request(version, (name, {})), "no partitions")
    side.ask(request(version), "nothing")
    side.ask(request(version, ("a/b", {0: 0}), ("", {0: 0})), "bad names")
    look(side, name, "at the end", 2)


@case(DeleteRecordsRequest)
def compacted(side: Side, version: int) -> None:
    """Only where cleanup.policy has delete."""
    for policy in ("compact", "compact,delete"):
        name = side.own_topic(policy.replace(",", "-"), cleanup_policy=policy)
        side.put(name, batch([Record(b"x", b"k"), Record(b"y", b"l")]))
        side.ask(request(version, (name, {0: 1})), policy)


@case(DeleteRecordsRequest, [2])
def no_time(side: Side, version: int) -> None:
    """There is nothing to wait for."""
    name = side.own_topic("t")
    three_batches(side, name)
    side.ask(request(version, (name, {0: 2}), ms=0), "none")
    side.ask(request(version, (name, {0: 3}), ms=-1), "negative")
