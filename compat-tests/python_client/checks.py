"""Helpers of the scenarios: fresh topics, all of a partition, and comparisons that say what differs."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing

from python_client.adapter import SECONDS, Adapter, Consumer, Producer, Record

POLL_SECONDS = 0.2
BRIEF_CHARACTERS = 300


def fresh_topic(adapter: Adapter, name: str, partitions: int = 1, **configs: str) -> str:
    """Made with the client's own admin, and there once this returns."""
    topic = f"{name}-{uuid.uuid4().hex[:12]}"
    with closing(adapter.admin()) as admin:
        admin.create(topic, partitions, {key.replace("_", "."): value for key, value in configs.items()})
        until(lambda: topic in admin.topics(), f"{topic} to be listed")
    return topic


def send_all(producer: Producer, topic: str, records: Iterable[Record]) -> list[int]:
    """The offsets, once all are acknowledged."""
    waiting = [producer.send(topic, record) for record in records]
    producer.flush()
    return [offset() for offset in waiting]


def read(consumer: Consumer, count: int) -> list[Record]:
    """So many records from where it is."""
    found: list[Record] = []
    deadline = time.monotonic() + SECONDS
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records came in {SECONDS:g} s"
        found += consumer.poll(POLL_SECONDS)
    return found


def read_partition(adapter: Adapter, topic: str, count: int, partition: int = 0) -> list[Record]:
    """So many from a partition's beginning, with a new consumer; there must not be more."""
    with closing(adapter.consumer()) as consumer:
        consumer.assign(topic, [partition])
        consumer.seek_to_beginning(topic, partition)
        found = read(consumer, count)
        start, end = consumer.bounds(topic, partition)
        equal((end - start, len(found)), (count, count), "records in the partition")
        return found


def same_records(found: Sequence[Record], sent: Sequence[Record], first_offset: int = 0) -> None:
    """In this order, with everything that was sent, at offsets without gaps."""
    for n, (one, wanted) in enumerate(zip(found, sent, strict=False)):
        equal(one.offset, first_offset + n, f"the offset of record {n}")
        for part in ("key", "value", "headers", "partition"):
            equal(getattr(one, part), getattr(wanted, part), f"{part} of record {n}")
        if wanted.timestamp is not None:
            equal(one.timestamp, wanted.timestamp, f"timestamp of record {n}")
    equal(len(found), len(sent), "number of records")


def same_but_for_repeats(found: Sequence[Record], sent: Sequence[Record]) -> None:
    """In this order, at offsets without gaps; what was sent again may be there again."""
    equal([one.offset for one in found], list(range(len(found))), "offsets")
    firsts = list(dict.fromkeys((one.key, one.value) for one in found))
    equal(firsts, [(one.key, one.value) for one in sent], "records in order of their first coming")


def equal(found: object, wanted: object, what: str) -> None:
    """Raises AssertionError that shows both, shortened."""
    assert found == wanted, f"{what}: {repr(found)[:BRIEF_CHARACTERS]}, not {repr(wanted)[:BRIEF_CHARACTERS]}"


def until(true: Callable[[], bool], what: str) -> None:
    """Look again and again."""
    deadline = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < deadline, f"waited {SECONDS:g} s for {what}"
        time.sleep(0.05)
