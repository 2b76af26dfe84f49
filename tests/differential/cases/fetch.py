"""Fetch 4-18: by name and by id, limits, offsets out of range, epochs, sessions."""

from __future__ import annotations

from kafka.protocol.consumer import FetchRequest

from tests.differential.batches import Record, batch, batch_of
from tests.differential.case import case
from tests.differential.requests import FETCH_BY_ID, fetch, fetch_partition
from tests.differential.side import Side

WITH_SESSIONS = range(7, 19)
WITH_EPOCHS = range(9, 19)
FOR_EVER = 2**31 - 1


def three_batches(side: Side, suffix: str = "t") -> str:
    """Offsets 0-1, 2-4 and 5, made once; about 100 bytes each."""
    topic = side.topic(suffix, partitions=2)
    side.once(topic, batch_of(b"a", b"b"), batch_of(b"c", b"d", b"e", codec="gzip"), batch_of(b"f"))
    return topic


@case(FetchRequest)
def offsets(side: Side, version: int) -> None:
    """Whole batches from the one that holds the offset on; outside the log is error 1, never a reset."""
    topic = three_batches(side)
    for offset in [0, 1, 2, 4, 5, 6, 7, 1000, -1, -2, 2**62]:
        side.ask(fetch(side, version, {topic: [fetch_partition(0, offset)]}), f"offset {offset}")


@case(FetchRequest)
def partition_limit(side: Side, version: int) -> None:
    """partition_max_bytes: as many batches as fit, and always the first one."""
    topic = three_batches(side)
    for limit in [-1, 0, 1, 75, 100, 170, 171, 172, 200, 300]:
        wanted = [fetch_partition(0, 0, partition_max_bytes=limit)]
        side.ask(fetch(side, version, {topic: wanted}), f"limit {limit}")


@case(FetchRequest)
def request_limit(side: Side, version: int) -> None:
    """max_bytes: the first non-empty partition gives at least one batch, later ones only what is left."""
    topic = side.topic("t", partitions=3)
    for partition in (1, 2):
        side.once(topic, batch_of(b"x" * 100), batch_of(b"y" * 100), partition=partition)
    for limit in [-1, 0, 1, 200, 400, 700, 1000]:
        wanted = [fetch_partition(n, 0) for n in (0, 1, 2)]
        side.ask(fetch(side, version, {topic: wanted}, max_bytes=limit), f"limit {limit}")


@case(FetchRequest)
def nothing(side: Side, version: int) -> None:
    topic = side.topic("empty")
    side.ask(fetch(side, version, {}), "no topics")
    side.ask(fetch(side, version, {topic: []}), "no partitions")
    side.ask(fetch(side, version, {topic: [fetch_partition(0, 0)]}), "empty log")
    side.ask(fetch(side, version, {topic: [fetch_partition(0, 1)]}), "past an empty log")


@case(FetchRequest)
def unknown(side: Side, version: int) -> None:
    """Each partition has its own error; known ones are served beside it."""
    topic = three_batches(side)
    nowhere = side.name("nowhere")
    side.ask(fetch(side, version, {nowhere: [fetch_partition(0, 0)]}), "topic")
    side.ask(fetch(side, version, {topic: [fetch_partition(n, 0) for n in (2, -1, 0)]}), "partitions")
    side.ask(
        fetch(side, version, {nowhere: [fetch_partition(0, 0)], topic: [fetch_partition(0, 0)]}), "beside one"
    )


@case(FetchRequest)
def isolation(side: Side, version: int) -> None:
    """read_committed: the last stable offset is the high watermark, the aborted list empty and not null."""
    topic = three_batches(side)
    for level in [0, 1, 2, -1]:
        side.ask(
            fetch(side, version, {topic: [fetch_partition(0, 0)]}, isolation_level=level), f"level {level}"
        )


@case(FetchRequest)
def several(side: Side, version: int) -> None:
    a, b = three_batches(side, "a"), three_batches(side, "b")
    side.ask(
        fetch(side, version, {b: [fetch_partition(0, 2), fetch_partition(1, 0)], a: [fetch_partition(0, 5)]})
    )


@case(FetchRequest, [4, 11, 12, 13, 18])
def min_bytes(side: Side, version: int) -> None:
    """Data that is there is not held back for longer than max_wait."""
    topic = three_batches(side)
    for label, most, least in [
        ("now", 0, FOR_EVER),
        ("soon", 50, FOR_EVER),
        ("at once", FOR_EVER, 1),
        ("any", 50, 0),
    ]:
        wanted = {topic: [fetch_partition(0, 0)]}
        side.ask(fetch(side, version, wanted, max_wait_ms=most, min_bytes=least), label)


@case(FetchRequest, [4, 12, 13, 18])
def errors_do_not_wait(side: Side, version: int) -> None:
    """An error is an answer: nobody waits for bytes then."""
    topic = three_batches(side)
    for label, partition in {
        "past the end": fetch_partition(0, 100),
        "unknown": fetch_partition(9, 0),
    }.items():
        side.ask(fetch(side, version, {topic: [partition]}, max_wait_ms=FOR_EVER, min_bytes=FOR_EVER), label)


@case(FetchRequest, WITH_EPOCHS)
def leader_epoch(side: Side, version: int) -> None:
    topic = three_batches(side)
    for epoch in [-1, 0, 1, 1000, -2]:
        partition = fetch_partition(0, 0, current_leader_epoch=epoch)
        side.ask(fetch(side, version, {topic: [partition]}), f"epoch {epoch}")


@case(FetchRequest, range(12, 19))
def last_fetched_epoch(side: Side, version: int) -> None:
    """Where the client's log parted from ours, if it did."""
    topic = three_batches(side)
    for epoch, offset in [(0, 0), (0, 6), (1, 6), (-1, 3), (5, 2)]:
        partition = fetch_partition(0, offset, last_fetched_epoch=epoch)
        side.ask(fetch(side, version, {topic: [partition]}), f"epoch {epoch} at {offset}")


@case(FetchRequest, WITH_SESSIONS)
def sessions(side: Side, version: int) -> None:
    """Sessions that are not there; `fetch_sessions` has those that are."""
    topic = three_batches(side)
    wanted = {topic: [fetch_partition(0, 0)]}
    side.ask(fetch(side, version, wanted, session_id=0, session_epoch=0), "a new one")
    side.ask(fetch(side, version, wanted, session_id=12345, session_epoch=1), "unknown")
    side.ask(fetch(side, version, wanted, session_id=12345, session_epoch=0), "unknown, from the start")
    side.ask(fetch(side, version, wanted, session_id=12345, session_epoch=-1), "unknown, closing")
    side.ask(fetch(side, version, wanted, session_id=0, session_epoch=5), "none, later epoch")


@case(FetchRequest, WITH_SESSIONS)
def forgotten(side: Side, version: int) -> None:
    """Without a session there is nothing to forget."""
    topic = three_batches(side)
    which = {"topic_id": side.id_of(topic)} if version >= FETCH_BY_ID else {"topic": topic}
    gone = FetchRequest.ForgottenTopic(partitions=[0, 1], **which)
    side.ask(fetch(side, version, {topic: [fetch_partition(0, 0)]}, forgotten_topics_data=[gone]))


@case(FetchRequest)
def twice_in_one_request(side: Side, version: int) -> None:
    """A partition has one place in the answer, and what is said of it last counts."""
    topic, other = three_batches(side), three_batches(side, "other")
    for label, asks in {
        "records": [(0, 0), (1, 0), (0, 5)],
        "an error last": [(0, 0), (0, 100)],
        "an error first": [(0, 100), (0, 2)],
        "unknown": [(9, 0), (9, 0)],
    }.items():
        side.ask(fetch(side, version, {topic: [fetch_partition(*ask) for ask in asks]}), label)
    entries = [
        entry
        for name, asks in [(topic, [(0, 5)]), (topic, [(1, 0), (0, 2)]), (other, [(0, 0)]), (other, [(0, 2)])]
        for entry in fetch(side, version, {name: [fetch_partition(*ask) for ask in asks]}).topics
    ]
    side.ask(fetch(side, version, {}, topics=entries), "topics twice")
    side.ask(fetch(side, version, {}, topics=entries[::2] + entries[1::2]), "topics in turns")


@case(FetchRequest, range(4, 15))
def as_a_replica(side: Side, version: int) -> None:
    """Who asks as a replica of a partition must be one."""
    topic = three_batches(side)
    for replica in [-2, 4711]:
        wanted = {topic: [fetch_partition(0, 0)]}
        side.ask(fetch(side, version, wanted, replica_id=replica), f"replica {replica}")


@case(FetchRequest)
def zstd(side: Side, version: int) -> None:
    """Clients before version 10 do not know zstd."""
    topic = side.topic("t")
    side.once(topic, batch([Record(b"x" * 100)], codec="zstd"))
    side.ask(fetch(side, version, {topic: [fetch_partition(0, 0)]}))


@case(FetchRequest, [4, 12, 13])
def many_batches(side: Side, version: int) -> None:
    """Walking the log in small steps meets every record once."""
    topic = side.topic("t")
    side.once(topic, *(batch([Record(b"%d" % n * 50)] * (1 + n % 3)) for n in range(12)))
    for offset in range(0, 24, 5):
        wanted = [fetch_partition(0, offset, partition_max_bytes=700)]
        side.ask(fetch(side, version, {topic: wanted}), f"from {offset}")
