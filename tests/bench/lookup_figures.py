"""Small requests: how many of them a server answers a second, and what each costs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.bench import clients
from tests.bench.measurement import Context, Figure, Measurement
from tests.bench.wire import messages
from tests.bench.wire.connection import Connection
from tests.bench.wire.groups import await_coordinator
from tests.bench.wire.heartbeats import formed
from tests.bench.wire.leaders import await_leaders
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
MEMBERS = 3


def metadata(context: Context) -> Iterator[Measurement]:
    topics = _topics(context)
    for asked in (topics[:1], topics):
        request = messages.metadata(asked)
        answer = _answer(context, ApiKey.METADATA, messages.METADATA_VERSION, request)
        assert [len(topic["partitions"]) for topic in answer.values["topics"]] == [PARTITIONS] * len(asked)
        partitions = len(asked) * PARTITIONS
        yield _rate(context, f"Metadata of {partitions:,} partitions", request, answer.framed, partitions)


def list_offsets(context: Context) -> Iterator[Measurement]:
    topics = _topics(context)
    for asked in (topics[:1], topics):
        request = messages.list_offsets(dict.fromkeys(asked, range(PARTITIONS)), messages.LATEST)
        answer = _answer(context, ApiKey.LIST_OFFSETS, messages.LIST_OFFSETS_VERSION, request)
        offsets = [found for topic in answer.values["topics"] for found in topic["partitions"]]
        assert len(offsets) == len(asked) * PARTITIONS
        assert all(found["error_code"] == 0 and found["offset"] == 0 for found in offsets)
        name = f"ListOffsets of {len(offsets):,} partitions"
        yield _rate(context, name, request, answer.framed, len(offsets))


def of_groups(context: Context) -> Iterator[Measurement]:
    """What a group asks when nothing happens: where its coordinator is, its offsets, heartbeats."""
    clients.create_topic(context.bootstrap, "asked-by-groups", MEMBERS)
    await_coordinator(context.bootstrap, "asked")
    (group,) = formed(context.bootstrap, "asked-by-groups", 1, MEMBERS, prefix="asked")
    (first, *_) = group.members
    committed = dict.fromkeys(range(MEMBERS), 7)
    first.connection.ask(first.commit("asked-by-groups", committed))
    for name, request in (
        ("FindCoordinator", messages.find_coordinator(group.group_id)),
        ("OffsetFetch of 3 partitions", messages.offset_fetch(group.group_id, "asked-by-groups", MEMBERS)),
        ("Heartbeat", first.heartbeat()),
    ):
        yield _rate(context, name, request, first.connection.ask(request), 1)
    for member in group.members:
        member.connection.close()


def others(context: Context) -> Iterator[Measurement]:
    """What every connection begins with, and what a consumer asks over and over while nothing comes."""
    clients.create_topic(context.bootstrap, "empty", PARTITIONS)
    connection = Connection(context.bootstrap)
    for name, request in (
        ("ApiVersions", messages.api_versions()),
        (f"Fetch of nothing, {PARTITIONS} partitions", messages.fetch_nothing("empty", PARTITIONS)),
    ):
        yield _rate(context, name, request, connection.ask(request), 1)
    connection.close()


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
    await_leaders(context.bootstrap, dict.fromkeys(names, PARTITIONS))
    return names


def _rate(context: Context, name: str, request: bytes, answer: bytes, partitions: int) -> Measurement:
    """Answers a second; each of them has to be the expected one, byte for byte."""
    lanes = [Lane(Connection(context.bootstrap).socket, [request], answer) for _ in range(CONNECTIONS)]
    try:
        rate = measure(
            context.server,
            lanes,
            in_flight=IN_FLIGHT,
            warm_up=context.scaled(WARM_UP // max(PARTITIONS, partitions)),
            seconds=context.seconds(SECONDS),
        )
    finally:
        for lane in lanes:
            lane.socket.close()
    return Measurement(name, "requests/s", rate.per_second, True, rate.cost)


FIGURES = {
    "metadata": Figure(metadata),
    "list-offsets": Figure(list_offsets),
    "small-groups": Figure(of_groups),
    "small-others": Figure(others),
}
