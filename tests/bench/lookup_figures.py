"""Metadata and ListOffsets: how many of them a server answers a second."""

import time
from collections.abc import Iterator
from typing import Any

from tests.bench import clients
from tests.bench.measurement import Context, Measure, Measurement
from tests.bench.wire import messages
from tests.bench.wire.connection import Connection
from tests.bench.wire.load import Lane, measure
from wireproto.kafka.api_keys import ApiKey

# A small topic as a consumer or a Spark query asks for it, and everything that there is, as a tool does.
PARTITIONS = 10
TOPICS = 100
CONNECTIONS = 8
IN_FLIGHT = 4
# Partitions that are asked for before.
WARM_UP = 800_000
SECONDS = 3.0
# A new topic of Apache Kafka serves a moment after it was made.
LEADERS_SECONDS = 60.0


def metadata(context: Context) -> Iterator[Measurement]:
    topics = _topics(context)
    for asked in (topics[:1], topics):
        request = messages.metadata(asked)
        answer = _answer(context, ApiKey.METADATA, messages.METADATA_VERSION, request)
        assert [len(topic["partitions"]) for topic in answer.values["topics"]] == [PARTITIONS] * len(asked)
        rate = _rate(context, request, answer.framed, len(asked) * PARTITIONS)
        yield Measurement(
            f"Metadata of {len(asked) * PARTITIONS:,} partitions", "requests/s", rate, True, 0.8
        )


def list_offsets(context: Context) -> Iterator[Measurement]:
    topics = _topics(context)
    for asked in (topics[:1], topics):
        request = messages.list_offsets(dict.fromkeys(asked, PARTITIONS), messages.LATEST)
        answer = _answer(context, ApiKey.LIST_OFFSETS, messages.LIST_OFFSETS_VERSION, request)
        offsets = [found for topic in answer.values["topics"] for found in topic["partitions"]]
        assert len(offsets) == len(asked) * PARTITIONS
        assert all(found["error_code"] == 0 and found["offset"] == 0 for found in offsets)
        rate = _rate(context, request, answer.framed, len(asked) * PARTITIONS)
        name = f"ListOffsets of {len(offsets):,} partitions"
        yield Measurement(name, "requests/s", rate, True, 0.8)


class _Answer:
    def __init__(self, key: ApiKey, version: int, framed: bytes) -> None:
        self.framed = framed
        self.values: dict[str, Any] = messages.decoded(key, version, framed)


def _answer(context: Context, key: ApiKey, version: int, request: bytes) -> _Answer:
    connection = Connection(context.bootstrap)
    try:
        return _Answer(key, version, connection.ask(request))
    finally:
        connection.close()


def _topics(context: Context) -> list[str]:
    """The topics that are asked for; made for the first figure of a server's life."""
    names = [f"looked-up-{number:03d}" for number in range(TOPICS)]
    clients.create_topics(context.bootstrap, names, PARTITIONS)
    request = messages.list_offsets(dict.fromkeys(names, PARTITIONS), messages.LATEST)
    deadline = time.monotonic() + LEADERS_SECONDS
    while True:
        found = _answer(context, ApiKey.LIST_OFFSETS, messages.LIST_OFFSETS_VERSION, request).values
        if not any(each["error_code"] for topic in found["topics"] for each in topic["partitions"]):
            return names
        if time.monotonic() > deadline:
            raise AssertionError(f"not all partitions have a leader after {LEADERS_SECONDS:.0f} s")
        time.sleep(0.1)


def _rate(context: Context, request: bytes, answer: bytes, partitions: int) -> float:
    lanes = [Lane(Connection(context.bootstrap).socket, [request], answer) for _ in range(CONNECTIONS)]
    try:
        return measure(
            lanes,
            in_flight=IN_FLIGHT,
            warm_up=context.scaled(WARM_UP // partitions),
            seconds=context.seconds(SECONDS),
        ).per_second
    finally:
        for lane in lanes:
            lane.socket.close()


FIGURES: dict[str, Measure] = {"metadata": metadata, "list-offsets": list_offsets}
