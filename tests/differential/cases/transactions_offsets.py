"""AddOffsetsToTxn 0-4, TxnOffsetCommit 0-5: groups' offsets in transactions, and OffsetFetch beside them."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import DeleteGroupsRequest
from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.producer import AddOffsetsToTxnRequest, TxnOffsetCommitRequest

from tests.differential.case import case
from tests.differential.groups import describe, join, leave, member, stable, sync, wait_for_state
from tests.differential.offsets import commit, delete, fetch, offset
from tests.differential.side import Side
from tests.differential.transactions import (
    ABORT,
    COMMIT,
    COMMIT_WITH_MEMBER,
    RESULTS,
    STRANGER,
    Offsets,
    add_offsets,
    begun,
    commit_offsets,
    held,
    own_topic,
)

WITH_MEMBERS = range(COMMIT_WITH_MEMBER, 6)
REQUIRE_STABLE = range(7, 11)
TV1, TV2 = 3, 5


def look(side: Side, group: str, topic: str, label: str, *partitions: int, version: int = 9) -> None:
    """What is committed, and what is when only stable offsets will do."""
    for stable_ in (False, True) if version in REQUIRE_STABLE else (False,):
        request = fetch(
            group,
            {topic: partitions or (0,)},
            version=version,
            ids={topic: side.id_of(topic)},
            stable=stable_,
        )
        side.ask(request, f"{label}{', stable' if stable_ else ''}")


# ------------------------------------------------------------------------------------------- AddOffsetsToTxn


@case(AddOffsetsToTxnRequest)
def adds(side: Side, version: int) -> None:
    group = side.own_name("g")
    producer = begun(side)
    producer.add_group(group, version=version)
    producer.describe()
    producer.add_group(group, "again", version=version)
    producer.add_group("", "the empty group id", version=version)
    producer.finish(COMMIT)
    producer.describe("none")


@case(AddOffsetsToTxnRequest)
def adds_as_another(side: Side, version: int) -> None:
    group = side.own_name("g")
    producer, other = begun(side), begun(side, "other")
    producer.init("epoch 1")
    side.ask(add_offsets(side.own_name("no-such"), STRANGER, 0, group, version=version), "unknown")
    side.ask(add_offsets("", STRANGER, 0, group, version=version), "the empty name")
    side.ask(add_offsets(producer.name, STRANGER, 1, group, version=version), "an unknown id")
    other.ask(lambda i: add_offsets(producer.name, i, 1, group, version=version), "another's id")
    for epoch in (0, 2, -1):
        producer.add_group(group, f"epoch {epoch}", version=version, epoch=epoch)
    producer.describe("still empty")


@case(AddOffsetsToTxnRequest)
def adds_while_one_ends(side: Side, version: int) -> None:
    topic, group = own_topic(side, "t"), side.own_name("g")
    for end_version in (TV1, TV2):
        for result, committed in RESULTS.items():
            producer = held(side, f"{result}{end_version}", topic, committed, version=end_version)
            producer.add_group(group, version=version)
            producer.add_group(group, "with the epoch before", version=version, epoch=producer.epoch - 1)


# ------------------------------------------------------------------------------------------- TxnOffsetCommit


@case(TxnOffsetCommitRequest)
def commits(side: Side, version: int) -> None:
    """Nothing of it is seen before the end, and nothing remains of what was aborted."""
    topic, group = side.topic("t", partitions=3), side.own_name("g")
    producer = begun(side)
    for number, (result, committed) in enumerate(
        [("abort", ABORT), ("commit", COMMIT), ("abort again", ABORT)]
    ):
        producer.add_group(group, result)
        wanted: Offsets = {topic: {0: 10 + number, 2: (20 + number, f"note {number}")}}
        producer.commit_offsets(group, wanted, result, version=version)
        look(side, group, topic, f"{result}, open", 0, 1, 2)
        producer.finish(committed)
        look(side, group, topic, f"{result}, ended", 0, 1, 2)
    side.ask(describe(group), "the group")


@case(TxnOffsetCommitRequest)
def not_added(side: Side, version: int) -> None:
    """Version 5 adds the group's offsets itself; before it somebody has to have done it."""
    topic, group = side.topic("t"), side.own_name("g")
    producer = begun(side)
    producer.commit_offsets(group, {topic: {0: 1}}, "no transaction is open", version=version)
    producer.describe()
    producer.add({topic: [0]})
    producer.commit_offsets(group, {topic: {0: 2}}, "one without the group", version=version)
    producer.describe("and then")
    look(side, group, topic, "open")
    producer.finish(COMMIT, version=TV2)
    look(side, group, topic, "ended")


@case(TxnOffsetCommitRequest)
def as_another(side: Side, version: int) -> None:
    topic, group = side.topic("t"), side.own_name("g")
    wanted = {topic: {0: 1}}
    producer, other = begun(side), begun(side, "other")
    producer.init("epoch 1")
    producer.add_group(group)

    def ask(label: str, name: str, producer_id: int, epoch: int) -> None:
        request = commit_offsets(name, producer_id, epoch, group, wanted, version=version)
        side.ask(request, label)

    ask("unknown", side.own_name("no-such"), STRANGER, 0)
    ask("the empty name", "", STRANGER, 0)
    ask("an unknown id", producer.name, STRANGER, 1)
    other.ask(lambda i: commit_offsets(producer.name, i, 1, group, wanted, version=version), "another's id")
    for epoch in (0, 2, -1):
        producer.commit_offsets(group, wanted, f"epoch {epoch}", version=version, epoch=epoch)
    producer.commit_offsets("", wanted, "the empty group id", version=version)
    look(side, group, topic, "nothing is pending")


@case(TxnOffsetCommitRequest)
def to_nowhere(side: Side, version: int) -> None:
    topic, group = side.topic("t", partitions=2), side.own_name("g")
    producer = begun(side)
    producer.add_group(group)
    places: dict[str, Offsets] = {
        "no such topic": {side.name("nowhere"): {0: 1}},
        "no such partition": {topic: {2: 1, -1: 1}},
        "beside one that is there": {topic: {0: 1, 9: 1}, side.name("nowhere"): {0: 1}},
        "odd names": {"a/b": {0: 1}, "": {0: 1}},
        "no partitions": {topic: {}},
        "nothing": {},
    }
    for label, wanted in places.items():
        producer.commit_offsets(group, wanted, label, version=version)
    look(side, group, topic, "open", 0, 1)
    producer.finish(COMMIT)
    look(side, group, topic, "ended", 0, 1)


@case(TxnOffsetCommitRequest)
def odd_values(side: Side, version: int) -> None:
    """Metadata up to 4,096 bytes; beside one that is too long the others are pending."""
    topic, group = side.topic("t", partitions=4), side.own_name("g")
    producer = begun(side)
    producer.add_group(group)
    wanted = {0: (1, "x" * 4096), 1: (2, "x" * 4097), 2: (3, None), 3: (-1, "é😀")}
    producer.commit_offsets(group, {topic: wanted}, version=version)
    look(side, group, topic, "open", 0, 1, 2, 3)
    producer.finish(COMMIT)
    look(side, group, topic, "ended", 0, 1, 2, 3)


@case(TxnOffsetCommitRequest)
def twice_in_one(side: Side, version: int) -> None:
    """The last one of a transaction counts."""
    topic, group = side.topic("t", partitions=2), side.own_name("g")
    producer = begun(side)
    producer.add_group(group)
    producer.commit_offsets(group, {topic: {0: 5, 1: 7}}, "first", version=version)
    producer.commit_offsets(group, {topic: {0: 3}}, "second", version=version)
    producer.finish(COMMIT)
    look(side, group, topic, "ended", 0, 1)


@case(TxnOffsetCommitRequest, [0, 3, 5])
def beside_plain_commits(side: Side, version: int) -> None:
    """Of a pending offset and a plain one the later wins, also when the transaction ends last."""
    topic, group = side.topic("t", partitions=3), side.own_name("g")
    producer = begun(side)
    producer.add_group(group)
    side.ask(commit(group, {topic: [offset(0, 1), offset(1, 1)]}), "plain, before")
    producer.commit_offsets(group, {topic: {0: 2, 1: 2, 2: 2}}, version=version)
    side.ask(commit(group, {topic: [offset(1, 3), offset(2, 3)]}), "plain, after")
    look(side, group, topic, "open", 0, 1, 2)
    producer.finish(COMMIT)
    look(side, group, topic, "ended", 0, 1, 2)


@case(TxnOffsetCommitRequest, [0, 3, 5])
def of_two_producers(side: Side, version: int) -> None:
    """Pending offsets are each producer's own: a partition is stable once nobody has any."""
    topic, group = side.topic("t"), side.own_name("g")
    first, second = begun(side, "first"), begun(side, "second")
    for number, producer in enumerate((first, second)):
        producer.add_group(group)
        producer.commit_offsets(group, {topic: {0: 10 + number}}, version=version)
    look(side, group, topic, "both open")
    second.finish(COMMIT)
    look(side, group, topic, "the second ended")
    first.finish(COMMIT)
    look(side, group, topic, "both ended")


@case(TxnOffsetCommitRequest, [0, 3, 5])
def of_a_group_that_goes(side: Side, version: int) -> None:
    """Neither a group with pending offsets nor these are deleted by others."""
    topic, group = side.topic("t", partitions=2), side.own_name("g")
    producer = begun(side)
    producer.add_group(group)
    producer.commit_offsets(group, {topic: {0: 1}}, version=version)
    side.ask(DeleteGroupsRequest(version=2, groups_names=[group]), "delete the group")
    side.ask(delete(group, {topic: [0, 1]}), "delete the offsets")
    side.ask(describe(group), "the group")
    look(side, group, topic, "open", 0, 1)
    producer.finish(COMMIT)
    look(side, group, topic, "ended", 0, 1)
    side.ask(DeleteGroupsRequest(version=2, groups_names=[group]), "delete it now")


@case(TxnOffsetCommitRequest)
def after_a_fence(side: Side, version: int) -> None:
    """A successor's InitProducerId drops what its predecessor has pending."""
    topic, group = side.topic("t"), side.own_name("g")
    producer = begun(side)
    producer.add_group(group)
    producer.commit_offsets(group, {topic: {0: 1}}, version=version)
    producer.init("a successor")
    producer.settle()
    look(side, group, topic, "aborted")
    producer.commit_offsets(group, {topic: {0: 2}}, "the owner", version=version)
    look(side, group, topic, "nothing is pending")


@case(TxnOffsetCommitRequest)
def while_one_ends(side: Side, version: int) -> None:
    topic, group = own_topic(side, "t"), side.own_name("g")
    for end_version in (TV1, TV2):
        producer = held(side, f"tx{end_version}", topic, COMMIT, version=end_version)
        producer.commit_offsets(group, {topic: {0: 1}}, version=version)
    look(side, group, topic, "nothing is pending")


@case(TxnOffsetCommitRequest, WITH_MEMBERS)
def by_members(side: Side, version: int) -> None:
    topic, group = side.topic("t"), side.own_name("g")
    me = stable(side, group)
    producer = begun(side)
    producer.add_group(group)
    asking: dict[str, dict[str, Any]] = {
        "the member": {"generation": 1, "member": me},
        "an old generation": {"generation": 0, "member": me},
        "a generation to come": {"generation": 2, "member": me},
        "a stranger": {"generation": 1, "member": "stranger"},
        "no member": {"generation": 1},
        "no generation": {"member": me},
        "an instance alone": {"instance": "i"},
        "nobody": {},
    }
    for label, who in asking.items():
        producer.commit_offsets(group, {topic: {0: 1}}, label, version=version, **who)
    producer.finish(COMMIT)
    look(side, group, topic, "ended")


@case(TxnOffsetCommitRequest, WITH_MEMBERS)
def by_static_members(side: Side, version: int) -> None:
    topic, group = side.topic("t"), side.own_name("g")
    me = stable(side, group, instance="i")
    producer = begun(side)
    producer.add_group(group)
    asking: dict[str, dict[str, Any]] = {
        "the member": {"generation": 1, "member": me, "instance": "i"},
        "without its instance": {"generation": 1, "member": me},
        "another id": {"generation": 1, "member": "other", "instance": "i"},
        "another instance": {"generation": 1, "member": me, "instance": "j"},
        "an instance alone": {"instance": "i"},
    }
    for label, who in asking.items():
        producer.commit_offsets(group, {topic: {0: 1}}, label, version=version, **who)
    producer.finish(ABORT)


@case(TxnOffsetCommitRequest, WITH_MEMBERS)
def by_members_of_nothing(side: Side, version: int) -> None:
    """A group that does not exist, and one whose members have left."""
    topic, unknown, left = side.topic("t"), side.own_name("unknown"), side.own_name("left")
    me = stable(side, left)
    side.ask(leave(left, (me, None)), "the member leaves")
    producer = begun(side)
    for group in (unknown, left):
        which = "unknown" if group == unknown else "left"
        producer.add_group(group)
        asking: dict[str, dict[str, Any]] = {
            "a member": {"generation": 1, "member": "m"},
            "a generation": {"generation": 1},
            "generation 0": {"generation": 0},
            "a member without generation": {"member": "m"},
            "nobody": {},
        }
        for label, who in asking.items():
            producer.commit_offsets(group, {topic: {0: 1}}, f"{which}, {label}", version=version, **who)
    producer.finish(COMMIT)
    for group in (unknown, left):
        side.ask(describe(group), f"describe {'unknown' if group == unknown else 'left'}")


@case(TxnOffsetCommitRequest, [3, 5])
def while_it_rebalances(side: Side, version: int) -> None:
    topic, group = side.topic("t"), side.own_name("g")
    wanted = {topic: {0: 1}}
    producer = begun(side)
    producer.add_group(group)
    me = member(side, group, "first").member_id
    producer.commit_offsets(group, wanted, "completing", version=version, generation=1, member=me)
    side.ask(sync(group, me, 1, {me: b"all"}), "syncs")
    newcomer = side.start(join(group, version=3), "second joins")
    wait_for_state(side, group, "PreparingRebalance", 2)
    producer.commit_offsets(group, wanted, "preparing", version=version, generation=1, member=me)
    again = side.start(join(group, me, version=3), "first again")
    side.chosen(newcomer.answer().member_id)
    again.answer()
    for generation in (1, 2):
        producer.commit_offsets(
            group,
            wanted,
            f"completing the next, generation {generation}",
            version=version,
            generation=generation,
            member=me,
        )
    producer.finish(ABORT)


# ---------------------------------------------------------------------------------------------- OffsetFetch


@case(OffsetFetchRequest)
def fetches_beside_pending(side: Side, version: int) -> None:
    """With require_stable (version 7) a partition with a pending offset is UNSTABLE_OFFSET_COMMIT."""
    topic, group = side.topic("t", partitions=3), side.own_name("g")
    known = {topic: side.id_of(topic)}
    side.ask(commit(group, {topic: [offset(0, 1), offset(1, 1)]}), "plain")
    producer = begun(side)
    producer.add_group(group)
    producer.commit_offsets(group, {topic: {1: 2, 2: 2}})

    def ask(label: str, wanted: Any) -> None:
        for stable_ in (False, True) if version in REQUIRE_STABLE else (False,):
            request = fetch(group, wanted, version=version, ids=known, stable=stable_)
            side.ask(request, f"{label}, stable {stable_}")

    for state in ("open", "ended"):
        ask(f"{state}, named", {topic: [0, 1, 2]})
        if version >= 2:
            ask(f"{state}, all", None)
        if state == "open":
            producer.finish(ABORT)


@case(OffsetFetchRequest, [7, 9, 10])
def fetches_of_an_unknown_group(side: Side, version: int) -> None:
    """Pending offsets alone make a group."""
    topic, group = side.topic("t"), side.own_name("g")
    producer = begun(side)
    producer.add_group(group)
    look(side, group, topic, "added", version=version)
    producer.commit_offsets(group, {topic: {0: 2}})
    look(side, group, topic, "open", version=version)
    side.ask(describe(group), "the group")
    producer.finish(ABORT)
    look(side, group, topic, "aborted", version=version)
    side.ask(describe(group), "the group, aborted")
