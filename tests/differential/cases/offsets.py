"""OffsetCommit 2-10, OffsetFetch 1-10 and OffsetDelete 0: how far groups have read."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from kafka.protocol.admin import DeleteGroupsRequest, DeleteTopicsRequest
from kafka.protocol.consumer import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest
from kafka.protocol.producer import ProduceRequest

from tests.differential.batches import Record, batch
from tests.differential.case import case
from tests.differential.groups import describe, join, leave, member, stable, sync, wait_for_state
from tests.differential.offsets import commit, delete, fetch, offset
from tests.differential.requests import produce
from tests.differential.side import SETTLE_SECONDS, Side
from tests.differential.wire import Connection


def ids(side: Side, *topics: str) -> dict[str, Any]:
    return {topic: side.id_of(topic) for topic in topics}


def put(
    side: Side, version: int, group: str, wanted: Mapping[str, Sequence[Any]], label: str, **more: Any
) -> None:
    side.ask(commit(group, wanted, version=version, ids=ids(side, *wanted), **more), label)


def look(side: Side, group: str, wanted: Any, label: str, version: int = 9) -> None:
    side.ask(fetch(group, wanted, version=version, ids=ids(side, *(wanted or ()))), label)


# ---------------------------------------------------------------------------------------------- OffsetCommit


@case(OffsetCommitRequest)
def commits(side: Side, version: int) -> None:
    topic, other = side.topic("t", partitions=3), side.topic("u")
    group = side.own_name("g")
    put(
        side, version, group, {topic: [offset(0, 5, 3, "note"), offset(2, 6)], other: [offset(0, 7)]}, "first"
    )
    look(side, group, None, "all")
    put(side, version, group, {topic: [offset(0, 4, -1, None), offset(1, 2**62, 2**31 - 1, "é😀")]}, "again")
    look(side, group, {topic: [2, 1, 0], other: [0]}, "named")
    put(side, version, group, {topic: [offset(0, -1), offset(1, -5, -2)]}, "below zero")
    look(side, group, {topic: [0, 1]}, "below zero, read")
    side.ask(describe(group), "a simple group")


@case(OffsetCommitRequest)
def commits_to_nowhere(side: Side, version: int) -> None:
    topic, nowhere, group = side.topic("t", partitions=3), side.name("nowhere"), side.own_name("g")
    put(side, version, group, {nowhere: [offset(0, 1), offset(1, 1)]}, "no topic")
    put(side, version, group, {topic: [offset(3, 1), offset(-1, 1)]}, "no partition")
    put(side, version, group, {}, "nothing")
    put(side, version, group, {topic: []}, "no partitions")
    side.ask(describe(group), "no group yet")
    mixed = {nowhere: [offset(0, 1)], topic: [offset(5, 1), offset(1, 2)]}
    put(side, version, group, mixed, "mixed")
    twice = [(topic, [offset(0, 8), offset(0, 9)]), (topic, [offset(1, 9), offset(9, 9)])]
    side.ask(commit(group, twice, version=version, ids=ids(side, topic)), "twice")
    side.ask(commit(group, twice[:1] * 2, version=version, ids=ids(side, topic)), "twice, good")
    look(side, group, None, "read")


@case(OffsetCommitRequest, [2, 8, 10])
def metadata_sizes(side: Side, version: int) -> None:
    topic, group = side.topic("t", partitions=6), side.own_name("g")
    texts = ["x" * 4096, "x" * 4097, "é" * 4096, "é" * 4097, "😀" * 2048, "😀" * 2048 + "x"]
    for index, text in enumerate(texts):
        put(side, version, group, {topic: [offset(index, 1, -1, text)]}, f"text {index}")
    put(side, version, group, {topic: [offset(0, 2), offset(1, 2, -1, texts[1])]}, "one of two")
    look(side, group, None, "read")


@case(OffsetCommitRequest, [2, 8, 10])
def group_ids(side: Side, version: int) -> None:
    topic = side.topic("t")
    put(side, version, "", {topic: [offset(0, version)]}, "empty")
    look(side, "", {topic: [0]}, "empty, read")
    wide = side.own_name("grüße 😀 ")
    put(side, version, wide, {topic: [offset(0, 1)]}, "wide")
    look(side, wide, {topic: [0]}, "wide, read")
    side.ask(DeleteGroupsRequest(version=2, groups_names=[""]), "the empty one is deleted")


@case(OffsetCommitRequest, [8])
def the_empty_group_id(side: Side, version: int) -> None:
    """A group like any other as long as it has an offset; a stranger to what only members ask.

    It is deleted at the end, here and above: other cases ask for it, and it is one for all of them.
    """
    topic = side.topic("t")
    for label in ("before", "with an offset", "after its deletion"):
        for known in range(7):
            side.ask(describe("", version=known), f"{label}, described by {known}")
        look(side, "", None, f"{label}, its offsets")
        side.ask(delete("", {topic: [0]}), f"{label}, offsets deleted")
        side.ask(leave("", ("stranger", None)), f"{label}, a stranger leaves")
        if label == "before":
            put(side, version, "", {topic: [offset(0, 5)]}, "commits")
        elif label == "with an offset":
            side.ask(DeleteGroupsRequest(version=2, groups_names=["", ""]), "deleted")


@case(OffsetCommitRequest, range(2, 5))
def retention_times(side: Side, version: int) -> None:
    topic, group = side.topic("t", partitions=4), side.own_name("g")
    for index, retention in enumerate([-1, 0, 86_400_000, -2]):
        wanted = {topic: [offset(index, index)]}
        put(side, version, group, wanted, f"retention {retention}", retention_ms=retention)
    look(side, group, None, "read")


@case(OffsetCommitRequest)
def without_a_group(side: Side, version: int) -> None:
    topic, group = side.topic("t"), side.own_name("g")
    wanted = {topic: [offset(0, 1)]}
    put(side, version, group, wanted, "generation 0", generation=0)
    put(side, version, group, wanted, "generation 5, a member", generation=5, member="m")
    put(side, version, group, wanted, "a member alone", member="m")
    put(side, version, group, wanted, "then by a member, of nobody", generation=0, member="m")
    put(side, version, group, wanted, "generation -2", generation=-2)
    look(side, group, None, "read")


@case(OffsetCommitRequest, [2, 6, 8, 9, 10])
def by_members(side: Side, version: int) -> None:
    topic, group = side.topic("t", partitions=2), side.own_name("g")
    wanted, nowhere = {topic: [offset(0, 1)]}, side.name("nowhere")
    me = stable(side, group)
    put(side, version, group, wanted, "the member", generation=1, member=me)
    put(side, version, group, wanted, "an old generation", generation=0, member=me)
    put(side, version, group, wanted, "a later generation", generation=2, member=me)
    put(side, version, group, wanted, "no generation", member=me)
    put(side, version, group, wanted, "a stranger", generation=1, member="stranger")
    put(side, version, group, wanted, "nobody", generation=1)
    put(side, version, group, wanted, "an administrator")
    mixed = {nowhere: [offset(0, 1)], topic: [offset(1, 2), offset(7, 7)]}
    put(side, version, group, mixed, "a stranger, mixed", generation=1, member="stranger")
    put(
        side,
        version,
        group,
        {nowhere: [offset(0, 1)]},
        "a stranger, nowhere",
        generation=1,
        member="stranger",
    )
    look(side, group, None, "read")
    side.ask(leave(group, (me, None)), "leaves")
    put(side, version, group, wanted, "who left", generation=1, member=me)
    put(side, version, group, {topic: [offset(0, 9)]}, "an administrator, empty group")
    look(side, group, None, "read again")


@case(OffsetCommitRequest, range(7, 11))
def by_static_members(side: Side, version: int) -> None:
    topic, group = side.topic("t"), side.own_name("g")
    wanted = {topic: [offset(0, 1)]}
    me = stable(side, group, instance="i")
    put(side, version, group, wanted, "the member", generation=1, member=me, instance="i")
    put(side, version, group, wanted, "without its instance", generation=1, member=me)
    put(side, version, group, wanted, "another id", generation=1, member="other", instance="i")
    put(side, version, group, wanted, "another instance", generation=1, member=me, instance="j")
    put(side, version, group, wanted, "an instance alone", instance="i")
    look(side, group, None, "read")


@case(OffsetCommitRequest, [2, 7, 9])
def while_it_rebalances(side: Side, version: int) -> None:
    topic, group = side.topic("t"), side.own_name("g")
    wanted = {topic: [offset(0, 1)]}
    joined = member(side, group, "first")
    put(side, version, group, wanted, "completing", generation=1, member=joined.member_id)
    put(side, version, group, wanted, "completing, an administrator")
    side.ask(sync(group, joined.member_id, 1, {joined.member_id: b"all"}), "syncs")
    newcomer = side.start(join(group, version=3), "second joins")
    wait_for_state(side, group, "PreparingRebalance", 2)
    put(side, version, group, wanted, "preparing", generation=1, member=joined.member_id)
    again = side.start(join(group, joined.member_id, version=3), "first again")
    side.chosen(newcomer.answer().member_id)
    again.answer()
    put(
        side,
        version,
        group,
        wanted,
        "completing the next, old generation",
        generation=1,
        member=joined.member_id,
    )
    put(side, version, group, wanted, "completing the next", generation=2, member=joined.member_id)
    look(side, group, None, "read")


# ----------------------------------------------------------------------------------------------- OffsetFetch


def committed(side: Side) -> tuple[str, str, str]:
    """A group that the versions share, with offsets of two topics; its topics."""
    topic, other, group = side.topic("t", partitions=3), side.topic("u"), side.name("shared")
    wanted = {topic: [offset(0, 5, 3, "note"), offset(2, 6)], other: [offset(0, 7, 0, "é")]}
    side.ask(commit(group, wanted), "set up")
    return group, topic, other


@case(OffsetFetchRequest)
def fetches(side: Side, version: int) -> None:
    group, topic, other = committed(side)
    look(side, group, {topic: [2, 0, 1], other: [0]}, "named", version)
    look(side, group, {topic: [3, -1, 2**31 - 1]}, "no such partition", version)
    look(side, group, {side.name("nowhere"): [0, 1], topic: [0]}, "no such topic", version)
    look(side, group, {topic: []}, "no partitions", version)
    look(side, group, {}, "no topics", version)
    twice = fetch(group, [(topic, [0, 0]), (topic, [0])], version=version, ids=ids(side, topic))
    side.ask(twice, "twice")
    look(side, side.name("unknown"), {topic: [0]}, "no such group", version)
    look(side, "", {topic: [1]}, "the empty group id", version)
    if version >= 2:
        look(side, group, None, "all", version)
        look(side, side.name("unknown"), None, "all of no such group", version)
    if version >= 7:
        for stable_ in (True, False):
            wanted = {topic: [0, 1]}
            side.ask(
                fetch(group, wanted, version=version, ids=ids(side, topic), stable=stable_),
                f"stable {stable_}",
            )
        side.ask(fetch(side.name("unknown"), None, version=version, stable=True), "stable, no such group")


@case(OffsetFetchRequest, range(8, 11))
def several_groups(side: Side, version: int) -> None:
    group, topic, other = committed(side)
    known = ids(side, topic, other)
    unknown = side.name("unknown")
    for label, wanted in [
        ("three", [(unknown, None), (group, {topic: [0], other: [0]}), ("", None)]),
        ("none", []),
        ("one twice", [(group, None), (group, {topic: [2]})]),
    ]:
        side.ask(fetch(wanted, version=version, ids=known), label)


@case(OffsetFetchRequest, [2, 8, 10])
def of_a_deleted_topic(side: Side, version: int) -> None:
    """Its offsets go; until they have, they may be seen."""
    topic, gone, group = side.topic("t"), side.own_topic("gone"), side.own_name("g")
    side.ask(commit(group, {topic: [offset(0, 1)], gone: [offset(0, 2)]}), "commits")
    deleted = DeleteTopicsRequest(version=5, topic_names=[gone], timeout_ms=10_000)
    side.ask(deleted, "deletes")
    _wait_until_forgotten(side, group)
    look(side, group, {topic: [0], gone: [0]}, "named", version)
    look(side, group, None, "all", version)


def _wait_until_forgotten(side: Side, group: str) -> None:
    """Unrecorded: until the group has offsets of one topic only."""
    deadline = time.monotonic() + SETTLE_SECONDS
    with Connection(side.server.bootstrap) as connection:
        while len(found := connection.ask(fetch(group, None)).groups[0].topics) > 1:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{side.server.name}: {group} still has {found}")
            time.sleep(0.01)


# ---------------------------------------------------------------------------------------------- OffsetDelete


@case(OffsetDeleteRequest)
def deletes(side: Side, version: int) -> None:
    topic, other, group = side.topic("t", partitions=3), side.topic("u"), side.own_name("g")
    side.ask(delete(group, {topic: [0]}), "no group")
    side.ask(delete("", {topic: [0]}), "the empty group id")
    wanted = {topic: [offset(index, 1) for index in range(3)], other: [offset(0, 1)]}
    side.ask(commit(group, wanted), "commits")
    side.ask(delete(group, {topic: [0, 2, 9], side.name("nowhere"): [0, 1]}), "some")
    look(side, group, None, "left")
    side.ask(delete(group, {topic: [0]}), "again")
    side.ask(delete(group, {}), "nothing")
    side.ask(delete(group, {topic: []}), "no partitions")
    side.ask(delete(group, {side.name("nowhere"): [0]}), "nowhere alone")
    side.ask(delete(group, {topic: [1], other: [0]}), "the rest")
    look(side, group, None, "none left")
    side.ask(describe(group), "the group")


@case(OffsetDeleteRequest)
def deletes_of_groups_with_members(side: Side, version: int) -> None:
    topic, other = side.topic("t", partitions=3), side.topic("u")
    name = topic.encode()
    subscription = b"\0\1\0\0\0\1" + len(name).to_bytes(2) + name + b"\xff\xff\xff\xff\0\0\0\0"
    consumers = side.own_name("consumers")
    me = stable(side, consumers, protocols=(("range", subscription),))
    wanted = {topic: [offset(0, 1), offset(1, 2)], other: [offset(0, 3)]}
    side.ask(commit(consumers, wanted, generation=1, member=me), "commits")
    side.ask(delete(consumers, {topic: [0, 2, 9], other: [0]}), "of a subscribed topic and another")
    look(side, consumers, None, "left")


@case(OffsetDeleteRequest)
def deletes_of_groups_of_workers(side: Side, version: int) -> None:
    topic, other, workers = side.topic("t", partitions=3), side.topic("u"), side.own_name("workers")
    wanted = {topic: [offset(0, 1), offset(1, 2)], other: [offset(0, 3)]}
    worker = stable(side, workers, protocol_type="connect")
    side.ask(commit(workers, wanted, generation=1, member=worker), "a worker commits")
    side.ask(delete(workers, {other: [0]}), "not empty")
    side.ask(leave(workers, (worker, None)), "the worker leaves")
    side.ask(delete(workers, {other: [0]}), "empty")
    look(side, workers, None, "left of the workers'")


# ------------------------------------------------------------------------------------------ the topic itself


@case(ProduceRequest, [3, 9, 13])
def nobody_produces_to_the_internal_topic(side: Side, version: int) -> None:
    side.settle("__consumer_offsets", -1)
    record = batch([Record(b"value", b"key")])
    side.ask(produce(side, version, {"__consumer_offsets": {0: record}}), "refused")
