"""A catalog from what several stores say: which segments there are, where they end, when nothing is made."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
import trio

from gateway.catalog import keys
from gateway.cluster import quotas
from gateway.cluster.acls import key_of, pack
from gateway.cluster.found_segments import CannotRebuild, End, FoundSegment, check_chain
from gateway.cluster.rebuild import LOST_BLOCKS, SPARE_EPOCHS, read_back
from gateway.log.compaction.rules import CompactionLimits, cleanable
from gateway.log.idempotence.producer_ids import BLOCK
from gateway.log.recovery.chain_check import what_contradicts
from gateway.log.segment import Segment
from gateway.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from mesh.protocol.address_state import Phase
from mesh.reader import NotServed
from wireproto.dafka.additions import (
    KEPT_DONE,
    KEPT_STORAGE_ERROR,
    STATUS_DONE,
    STATUS_STORAGE_ERROR,
    AddressStatus,
    Announcement,
    Recalled,
    Remembered,
    Verified,
)
from wireproto.records.row import Row

TOPIC, OLDER_TOPIC = bytes(range(16)), bytes(16)
LOG, OLDER_LOG = keys.log_name(TOPIC, 0), keys.log_name(OLDER_TOPIC, 0)
S0, S1, S2, S3 = ("s0", "s1", "s2", "s3")
ALL = (S0, S1, S2)
OPEN, SEALED, CLOSED = Phase.OPEN, Phase.SEALED, Phase.CLOSED


def row(last_offset: int) -> bytes:
    """Of a batch of one record, which is the last of so many."""
    return Row(last_offset, last_offset, 1000, 1000 + last_offset, -1, -1, -1, 0, 100).pack()


def announcement(
    address: str, start: int, *, epoch: int = 0, members: tuple[str, ...] = ALL, w: int = 2,
    topic: bytes = TOPIC, opened_ms: int = 0, log_start: int = 0, epochs: list[list[int]] | None = None,
    name: str = "orders",
) -> Announcement:  # fmt: skip
    details = {
        "topic_id": topic.hex(),
        "partition": 0,
        "partitions": 1,
        "replication_factor": 3,
        "configs": {"retention.ms": "-1"},
        "epochs": epochs or [[epoch, start]],
        "log_start": log_start,
        "opened_ms": opened_ms or 10 + start,
        "producer_id_floor": 3000,
        "producers": "",
    }
    log = f"{topic.hex()}/0"
    return Announcement(address, name, "cluster", log, epoch, start, members, w, json.dumps(details).encode())


@dataclass
class Stores:
    """What each store says. Segments hold one record a sequence, from their start on."""

    listed: dict[str, list[tuple[Announcement, AddressStatus]]] = field(
        default_factory=lambda: {name: [] for name in ALL}
    )
    deleted: dict[str, set[str]] = field(default_factory=dict)
    unreadable: set[str] = field(default_factory=set)
    epochs: dict[str, int] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    kept: dict[str, tuple[Remembered, dict[str, Any]]] = field(default_factory=dict)
    """What each store keeps of the lost catalog."""

    def has(self, store: str, segment: Announcement, phase: Phase, head: int, *, lacks: bool = False) -> None:
        """`lacks`: it is closed, `head` is the end, and something before it is not there."""
        said = b"" if lacks or head < 0 else row(segment.start + head)
        self.listed.setdefault(store, []).append((segment, AddressStatus(segment.address, phase, head, said)))

    async def recall(self, store: str, after: str) -> Recalled:
        await trio.lowlevel.checkpoint()
        status = KEPT_STORAGE_ERROR if store in self.unreadable else KEPT_DONE
        memory, entries = self.kept.get(store, (Remembered(), {}))
        rest = {key: keys.pack(entries[key]) for key in sorted(entries) if key > after}
        page = dict(list(rest.items())[:3])
        return Recalled("R7", store, status, "cluster", memory, page, more=len(rest) > len(page))

    async def segments(self, store: str) -> list[tuple[Announcement, AddressStatus]]:
        await trio.lowlevel.checkpoint()
        return self.listed[store]

    async def verify(self, store: str, entries: Sequence[tuple[str, str]]) -> list[Verified]:
        await trio.lowlevel.checkpoint()
        status = STATUS_STORAGE_ERROR if store in self.unreadable else STATUS_DONE
        deleted = self.deleted.get(store, set())
        return [
            Verified(
                status, self.epochs.get(log, -1), "", Phase.DELETED if address in deleted else Phase.NATIVE
            )
            for log, address in entries
        ]

    def _heads(self, members: Sequence[str], address: str) -> list[tuple[Announcement, int]]:
        return [
            (segment, status.sequence)
            for store in members
            for segment, status in self.listed[store]
            if segment.address == address and status.row
        ]

    async def rows(self, members: Sequence[str], address: str, first: int, last: int) -> bytes:
        await trio.lowlevel.checkpoint()
        self.asked.append(f"rows {first}")
        for segment, head in self._heads(members, address):
            if head >= last:
                return row(segment.start + first)
        raise NotServed("nobody has it")

    async def lookup(
        self, members: Sequence[str], address: str, _kind: int, target: int, _bound: int
    ) -> AddressStatus | None:
        await trio.lowlevel.checkpoint()
        self.asked.append(f"offset {target}")
        for segment, head in self._heads(members, address):
            if segment.start + head >= target:
                sequence = target - segment.start
                return AddressStatus(address, STATUS_DONE, sequence, row(target))
        return None

    def rebuilt(self, *stores: str, accept_loss: bool = False) -> dict[str, Any]:
        async def main() -> dict[str, bytes]:
            return await read_back(cast(Any, self), stores or tuple(self.listed), accept_loss=accept_loss)

        return {key: keys.unpack(value) for key, value in trio.run(main).items()}


def chain(entries: dict[str, Any]) -> list[Segment]:
    found = [
        Segment.unpack(keys.pack(entry)) for key, entry in sorted(entries.items()) if "/segments/" in key
    ]
    return sorted(found, key=lambda segment: segment.start_offset)


def ends(entries: dict[str, Any]) -> list[tuple[str, int | None, int | None]]:
    return [(segment.address, segment.last_sequence, segment.end_offset) for segment in chain(entries)]


def test_everything_of_a_topic_comes_back() -> None:
    stores = Stores()
    first = announcement("A", 0, log_start=0)
    second = announcement("B", 10, epoch=1, epochs=[[0, 0], [1, 10]])
    for store in ALL:
        stores.has(store, first, CLOSED, 9)
        stores.has(store, second, OPEN, 4)
    entries = stores.rebuilt()
    assert ends(entries) == [("A", 9, 10), ("B", None, None)]
    assert entries[keys.topic_key("orders")] == {
        "id": TOPIC.hex(), "partitions": 1, "replication_factor": 3, "configs": {"retention.ms": "-1"},
    }  # fmt: skip
    record = entries[keys.partition_key(TOPIC, 0)]
    assert record == {"next_epoch": 2, "epochs": [[0, 0], [1, 10]], "log_start": 0}
    assert entries[keys.PRODUCER_IDS] >= 3000
    assert [segment.members for segment in chain(entries)] == [ALL, ALL]
    assert chain(entries)[1].announced
    assert not [key for key in entries if key.startswith((keys.CLOSING, keys.SEGMENT_TOMBSTONES))]


def test_a_segment_without_a_follower_that_nobody_closed_is_left_to_its_recovery() -> None:
    stores = Stores()
    segment = announcement("A", 0)
    for store, phase, head in ((S0, OPEN, 3), (S1, SEALED, 7), (S2, SEALED, 5)):
        stores.has(store, segment, phase, head)
    assert ends(stores.rebuilt()) == [("A", None, None)]


def test_a_store_that_was_told_the_end_and_lacks_something_decides_no_other_end() -> None:
    """The one that is closed is behind, the others have all of it and have not heard the end."""
    stores = Stores()
    segment = announcement("A", 0)
    stores.has(S0, segment, CLOSED, 6, lacks=True)
    stores.has(S1, segment, SEALED, 9)
    stores.has(S2, segment, OPEN, 3)
    entries = stores.rebuilt()
    assert ends(entries) == [("A", 6, 7)]
    assert stores.asked == ["rows 6"]
    assert entries[keys.closing_key("A")] == {
        "end": 6,
        "members": [S0, S1, S2],
        "log": LOG,
        "all": list(ALL),
        "w": 2,
    }


def test_an_end_that_nobody_here_has_is_not_guessed() -> None:
    stores = Stores()
    segment = announcement("A", 0)
    stores.has(S0, segment, CLOSED, 6, lacks=True)
    stores.has(S1, segment, SEALED, 4)
    with pytest.raises(CannotRebuild, match="last segment A of orders-0 ends at sequence 6"):
        stores.rebuilt(S0, S1)


@pytest.mark.parametrize(
    ("heads", "asked"), [((9, 9, 9), []), ((12, 9, 5), []), ((12, 11, 10), ["offset 9"])]
)
def test_a_segment_with_a_follower_ends_where_that_one_begins(
    heads: tuple[int, ...], asked: list[str]
) -> None:
    """Nobody was told of the end yet; some member may have more than counted."""
    stores = Stores()
    first, second = announcement("A", 0), announcement("B", 10, epoch=1)
    for store, head in zip(ALL, heads, strict=True):
        stores.has(store, first, SEALED, head)
        stores.has(store, second, OPEN, 0)
    entries = stores.rebuilt()
    assert ends(entries) == [("A", 9, 10), ("B", None, None)]
    assert stores.asked == asked
    assert entries[keys.closing_key("A")]["members"] == list(ALL)


def test_a_hole_in_a_chain_is_not_papered_over() -> None:
    stores = Stores()
    first, second = announcement("A", 0), announcement("B", 10, epoch=1)
    for store in (S0, S1):
        stores.has(store, first, SEALED, 4)
        stores.has(store, second, OPEN, 0)
    with pytest.raises(CannotRebuild, match="should end with offset 9"):
        stores.rebuilt(S0, S1)


def test_what_was_dropped_while_its_stores_were_away_stays_dropped() -> None:
    """The first segment comes back behind a hole: the second one is deleted everywhere, and a later one says
    where the log begins.
    """
    stores = Stores({S0: [], S1: [], S2: [], S3: []})
    dropped = announcement("A", 0, members=(S3,), w=1)
    last = announcement("C", 20, log_start=15, epochs=[[0, 15]])
    stores.has(S3, dropped, CLOSED, 9)
    for store in ALL:
        stores.has(store, last, CLOSED, 4)
    entries = stores.rebuilt()
    assert ends(entries) == [("C", 4, 25)]
    assert entries[keys.segment_tombstone_key("A")]["members"] == [S3]
    assert entries[keys.partition_key(TOPIC, 0)]["log_start"] == 20


def test_a_segment_in_which_a_log_begins_stays() -> None:
    stores = Stores()
    for store in ALL:
        stores.has(store, announcement("A", 0), CLOSED, 9)
        stores.has(store, announcement("B", 10, log_start=4, epochs=[[0, 4]]), CLOSED, 4)
    entries = stores.rebuilt()
    assert ends(entries) == [("A", 9, 10), ("B", 4, 15)]
    assert entries[keys.partition_key(TOPIC, 0)]["log_start"] == 4


def test_a_hole_is_left_behind_only_when_the_operator_accepts_the_loss() -> None:
    stores = Stores()
    for store in ALL:
        stores.has(store, announcement("A", 0), CLOSED, 9)
        stores.has(store, announcement("C", 20), CLOSED, 4)
    with pytest.raises(CannotRebuild, match="--accept-loss, the log begins at offset 20"):
        stores.rebuilt()
    entries = stores.rebuilt(accept_loss=True)
    assert ends(entries) == [("C", 4, 25)]
    assert entries[keys.segment_tombstone_key("A")]["members"] == [*ALL]
    assert entries[keys.partition_key(TOPIC, 0)]["log_start"] == 20


def test_what_is_given_up_with_a_hole_is_said(caplog: pytest.LogCaptureFixture) -> None:
    stores = Stores()
    for store in ALL:
        stores.has(store, announcement("A", 3), CLOSED, 6)
        stores.has(store, announcement("B", 10), CLOSED, 4)
        stores.has(store, announcement("D", 20), CLOSED, 4)
    stores.rebuilt(accept_loss=True)
    [said] = caplog.messages
    assert said.startswith("orders-0 begins at offset 20 now")
    assert "segment B" in said
    assert "the 2 segments from offset 3 on are deleted" in said


def test_a_segment_that_turned_out_empty_is_forgotten_everywhere() -> None:
    """Another one begins at the same offset; or a store was told that it ends with nothing."""
    stores = Stores()
    empty, following = announcement("A", 0), announcement("B", 0, epoch=1)
    stores.has(S0, empty, SEALED, 2)
    for store in ALL:
        stores.has(store, following, OPEN, 4)
    entries = stores.rebuilt()
    assert ends(entries) == [("B", None, None)]
    assert entries[keys.segment_tombstone_key("A")]["members"] == list(ALL)
    assert entries[keys.partition_key(TOPIC, 0)]["next_epoch"] == 2
    stores = Stores()
    stores.has(S0, announcement("A", 5, epoch=2, epochs=[[2, 5]]), CLOSED, -1)
    entries = stores.rebuilt()
    assert chain(entries) == []
    record = entries[keys.partition_key(TOPIC, 0)]
    assert record == {"next_epoch": 3, "epochs": [], "log_start": 5}


def test_what_one_store_has_deleted_comes_back_from_no_other() -> None:
    stores = Stores()
    first, second = announcement("A", 0), announcement("B", 10)
    gone = announcement("G", 0, topic=OLDER_TOPIC, name="gone")
    for store in ALL:
        stores.has(store, second, OPEN, 0)
    stores.has(S2, first, CLOSED, 9)  # retention: it was away
    stores.has(S2, gone, OPEN, 3)
    stores.deleted = {S0: {"A", "G"}, S1: {"A"}}
    entries = stores.rebuilt()
    assert ends(entries) == [("B", None, None)]
    assert entries[keys.partition_key(TOPIC, 0)]["log_start"] == 10
    assert keys.topic_key("gone") not in entries
    assert entries[keys.segment_tombstone_key("A")]["members"] == [S2]
    assert entries[keys.segment_tombstone_key("G")]["members"] == [S1, S2]


def test_of_two_topics_with_one_name_the_older_one_was_deleted() -> None:
    stores = Stores()
    for store in ALL:
        stores.has(store, announcement("A", 0, topic=OLDER_TOPIC, opened_ms=5), OPEN, 3)
        stores.has(store, announcement("B", 0, opened_ms=9), OPEN, 0)
    entries = stores.rebuilt()
    assert entries[keys.topic_key("orders")]["id"] == TOPIC.hex()
    assert entries[keys.tombstone_key(OLDER_TOPIC)] == {"name": "orders"}
    assert len(chain(entries)) == 2


def test_after_a_replacement_the_members_are_those_that_have_it() -> None:
    stores = Stores()
    before, after = announcement("A", 0), announcement("A", 0, members=(S0, S3, S2))
    stores.has(S0, before, CLOSED, 9)
    stores.has(S2, before, CLOSED, 9)
    stores.has(S3, after, CLOSED, 9)
    entries = stores.rebuilt(S0, S2, S3)
    assert chain(entries)[0].members == (S0, S3, S2)


@pytest.mark.parametrize(
    ("here", "w", "refused"), [((S0, S1), 2, False), ((S0,), 2, True), ((S0, S1), 1, True), (ALL, 1, False)]
)
def test_so_many_stores_may_be_missing_that_none_of_their_segments_is_unheard_of(
    here: tuple[str, ...], w: int, refused: bool
) -> None:
    stores = Stores()
    segment = announcement("A", 0, w=w)
    for store in ALL:
        stores.has(store, segment, OPEN, 3)
    if refused:
        with pytest.raises(
            CannotRebuild, match=r"stores are missing.*s2.*--accept-loss.*before it is deleted"
        ):
            stores.rebuilt(*here)
    entries = stores.rebuilt(*here, accept_loss=refused)
    assert chain(entries)[0].members == ALL
    assert chain(entries)[0].confirmed == here


@pytest.mark.parametrize(
    ("known", "left", "forgotten"),
    [(OPEN, ["A", "B"], ["C"]), (SEALED, ["A", "B"], ["C"]), (CLOSED, ["C"], ["A", "B"])],
    ids=["begun", "killed", "done"],
)
def test_a_compaction_has_happened_when_some_store_knows_an_end_of_it(
    known: Phase, left: list[str], forgotten: list[str]
) -> None:
    """Until then everything that it was to replace is there; after that none of it counts."""
    made = announcement("C", 0, epoch=1)
    told = json.loads(made.details) | {"compaction": "C", "replaces": ["A", "B"]}
    made = made._replace(details=json.dumps(told).encode())
    stores = Stores()
    for store in ALL:
        stores.has(store, announcement("A", 0), CLOSED, 9)
        stores.has(store, announcement("B", 10), CLOSED, 9)
        stores.has(store, made, known if store == S1 else SEALED, 19)
    entries = stores.rebuilt()
    assert [segment.address for segment in chain(entries)] == left
    assert chain(entries)[-1].end_offset == 20
    buried = {key for key in entries if key.startswith(keys.SEGMENT_TOMBSTONES)}
    assert buried == set(map(keys.segment_tombstone_key, forgotten))


def test_each_segment_ends_where_the_next_one_begins_or_nothing_is_rebuilt() -> None:
    chain_of = [FoundSegment(announcement("A", 0)), FoundSegment(announcement("B", 10))]
    check_chain("orders-0", chain_of, [End(9, row(9)), None])
    for end in (End(8, row(8)), End(10, row(10)), None):
        with pytest.raises(CannotRebuild, match="segment A of orders-0 ends at offset"):
            check_chain("orders-0", chain_of, [end, None])


def test_producer_ids_that_may_have_been_taken_since_are_not_given_again() -> None:
    stores = Stores()
    for store in ALL:
        stores.has(store, announcement("A", 0), OPEN, 4)
    assert stores.rebuilt()[keys.PRODUCER_IDS] == 3000 + LOST_BLOCKS * BLOCK


def test_stores_that_contradict_each_other_are_refused() -> None:
    stores = Stores()
    segment = announcement("A", 0)
    stores.has(S0, segment, CLOSED, 9)
    stores.has(S1, segment, CLOSED, 8)
    with pytest.raises(CannotRebuild, match="different ends of segment A"):
        stores.rebuilt(S0, S1)
    stores = Stores()
    stores.has(S0, announcement("A", 0), OPEN, 3)
    stores.has(S1, announcement("A", 5), OPEN, 3)
    with pytest.raises(CannotRebuild, match="another segment of address A"):
        stores.rebuilt(S0, S1)
    stores = Stores(unreadable={S1})
    stores.has(S0, announcement("A", 0), OPEN, 3)
    with pytest.raises(CannotRebuild, match="store s1 cannot read"):
        stores.rebuilt(S0, S1)


def test_how_far_a_compacted_log_is_clean_is_not_told_so_all_of_it_counts_as_dirty() -> None:
    """A tombstone in what is wrongly taken for clean would go before the value that it deletes."""
    stores = Stores()
    compaction = {"compaction": "A" * 32, "replaces": []}
    for address, start, more in (("A", 0, compaction), ("B", 10, compaction), ("C", 20, {})):
        segment = announcement(address * 32, start)
        details = json.dumps(json.loads(segment.details) | more).encode()
        for store in ALL:
            stores.has(store, segment._replace(details=details), CLOSED, 9)
    segments = chain(stores.rebuilt())
    assert [segment.is_compacted for segment in segments] == [True, True, False]
    plan = cleanable(segments, 0, CompactionLimits(0.5, 0, 2**62))
    assert (plan.segments, plan.first_dirty, plan.clean_bytes) == (3, 0, 0)


def test_epochs_that_left_no_segment_are_not_used_again() -> None:
    stores = Stores(epochs={f"{TOPIC.hex()}/0": 7})
    for store in ALL:
        stores.has(store, announcement("A", 0, epoch=2), OPEN, 3)
    assert stores.rebuilt()[keys.partition_key(TOPIC, 0)]["next_epoch"] == 8


def test_the_counter_of_epochs_goes_on_well_above_all_that_is_found() -> None:
    stores = Stores()
    for store in ALL:
        stores.has(store, announcement("A", 0, epoch=20), OPEN, 3)
    assert stores.rebuilt()[keys.LEADER_EPOCH] == 20 + SPARE_EPOCHS
    stores.epochs = {f"{TOPIC.hex()}/0": 30}
    assert stores.rebuilt()[keys.LEADER_EPOCH] == 30 + SPARE_EPOCHS
    # Of a topic that was deleted meanwhile.
    stores.has(S0, announcement("B", 0, epoch=50, topic=bytes(16)), OPEN, 3)
    stores.deleted[S1] = {"B"}
    assert stores.rebuilt()[keys.LEADER_EPOCH] == 50 + SPARE_EPOCHS


def test_the_counter_of_the_newest_copy_counts_where_it_is_higher() -> None:
    kept = topic_of("orders") | record_of(4, [[3, 20]], 20)
    assert keeping(kept | {keys.LEADER_EPOCH: 70}).rebuilt()[keys.LEADER_EPOCH] == 70 + SPARE_EPOCHS
    assert keeping(kept | {keys.LEADER_EPOCH: 2}).rebuilt()[keys.LEADER_EPOCH] == 3 + SPARE_EPOCHS
    assert keeping(kept).rebuilt()[keys.LEADER_EPOCH] == 3 + SPARE_EPOCHS


def topic_of(name: str, topic: bytes = TOPIC, **more: Any) -> dict[str, Any]:
    record = {"id": topic.hex(), "partitions": 1, "replication_factor": 3, "configs": {}} | more
    return {keys.topic_key(name): record}


def record_of(
    next_epoch: int, epochs: list[list[int]], log_start: int, topic: bytes = TOPIC
) -> dict[str, Any]:
    record = {"next_epoch": next_epoch, "epochs": epochs, "log_start": log_start}
    return {keys.partition_key(topic, 0): record}


LINEAGE: dict[str, dict[str, Any]] = {
    keys.LINEAGE: {"lineage": "H1", "parent": None, "parent_sequence": 0},
    f"{keys.LIVES}G0": {"lineage": "H1", "first": 0, "last": 5},
    f"{keys.LIVES}G1": {"lineage": "H1", "first": 5},
}
ADMITTED = {f"/stores/{1000 + n}": {"incarnation": name, "name": f"store-{n}"} for n, name in enumerate(ALL)}


def keeping(entries: dict[str, Any], *, sequences: tuple[int, ...] = (9, 9, 9)) -> Stores:
    """Stores that keep this of the lost catalog; those with a lower sequence keep less."""
    stores = Stores()
    for store, sequence in zip(ALL, sequences, strict=True):
        newest = sequence == max(sequences)
        kept = LINEAGE | ADMITTED | (entries if newest else {})
        stores.kept[store] = Remembered("H1", "G1", sequence), kept
    return stores


def test_users_and_acls_come_back_from_the_newest_copy() -> None:
    """Without them everybody could do what an ACL denies him, and nobody could come in by a password."""
    acl = Acl(ResourceType.TOPIC, "t", PatternType.LITERAL, "User:a", "*", Operation.READ, Permission.DENY)
    keyed = base64.b64encode(bytes(32)).decode()
    user = {"SCRAM-SHA-256": {"salt": "AAAA", "stored_key": keyed, "server_key": keyed, "iterations": 4096}}
    secret = "thirty characters and 2 quotes"
    more = {keys.scram_key("alice"): user, keys.SCRAM_SECRET: secret, key_of(acl): keys.unpack(pack(acl))}
    quota = quotas.Kept(frozenset({("user", "alice")}), {"producer_byte_rate": 5.0})
    more[quotas.key_of(quota.entity)] = keys.unpack(quotas.pack(quota))
    entries = keeping(topic_of("orders") | more).rebuilt()
    assert {key: entries.get(key) for key in more} == more
    damaged = keeping(topic_of("orders") | more | {keys.scram_key("bob"): {"SCRAM-SHA-1": {}}})
    with pytest.raises(CannotRebuild, match="/scram/bob"):
        damaged.rebuilt()


def test_what_was_never_written_comes_back_from_the_newest_copy() -> None:
    more = {keys.broker_configs_key(None): {"log.retention.ms": "5"}, keys.PRODUCER_IDS: 70_000}
    stores = keeping(topic_of("never", partitions=7, configs={"a": "b"}) | more, sequences=(8, 9, 3))
    entries = stores.rebuilt()
    assert entries[keys.topic_key("never")] == {
        "id": TOPIC.hex(), "partitions": 7, "replication_factor": 3, "configs": {"a": "b"},
    }  # fmt: skip
    assert entries[keys.broker_configs_key(None)] == {"log.retention.ms": "5"}
    assert entries[keys.PRODUCER_IDS] > 70_000
    assert {key: entries[key] for key in ADMITTED} == ADMITTED
    assert entries[keys.LINEAGE]["parent"] == "H1"
    assert entries[keys.LINEAGE]["parent_sequence"] == 9
    assert entries[keys.LINEAGE]["settled"]
    assert entries[keys.LINEAGE]["lineage"] != "H1"


def test_delegation_tokens_come_back_from_the_newest_copy() -> None:
    """Without them programs could not come in any more."""
    alice = ["User", "alice"]
    times = {"issued_ms": 1, "expires_ms": 2, "max_ms": 3}
    token = {"owner": alice, "requester": alice, "renewers": [], "secret": "mark", **times}
    kept = {keys.token_key("A" * 22): token}
    entries = keeping(kept).rebuilt()
    assert {key: entries[key] for key in kept} == kept


def test_the_copy_tells_of_topics_and_announcements_of_partitions_that_it_does_not_know() -> None:
    stores = keeping(topic_of("orders", configs={"retention.ms": "5"}, replication_factor=2))
    segment = announcement("A", 0)
    segment = segment._replace(
        details=json.dumps(json.loads(segment.details) | {"partitions": 4, "partition": 3}).encode()
    )
    for store in ALL:
        stores.has(store, segment, OPEN, 3)
    assert stores.rebuilt()[keys.topic_key("orders")] == {
        "id": TOPIC.hex(), "partitions": 4, "replication_factor": 2, "configs": {"retention.ms": "5"},
    }  # fmt: skip


def test_a_topic_is_on_the_account_that_it_was_on() -> None:
    """Also where its segments are found, which do not tell of it."""
    stores = keeping(topic_of("orders", maker="User:a") | topic_of("never", topic=bytes(16), maker="User:b"))
    for store in ALL:
        stores.has(store, announcement("A", 0), OPEN, 3)
    entries = stores.rebuilt()
    found = {name: entries[keys.topic_key(name)].get("maker") for name in ("orders", "never")}
    assert found == {"orders": "User:a", "never": "User:b"}


def test_a_log_that_was_emptied_goes_on_where_it_was() -> None:
    kept = topic_of("orders") | record_of(4, [[3, 20]], 20) | {keys.producers_key(TOPIC, 0): "snapshot"}
    entries = keeping(kept).rebuilt()
    assert entries[keys.partition_key(TOPIC, 0)] == {"next_epoch": 4, "epochs": [[3, 20]], "log_start": 20}
    assert entries[keys.producers_key(TOPIC, 0)] == "snapshot"


def test_a_dropped_segment_that_comes_back_behind_a_hole_stays_dropped() -> None:
    """No announcement tells of the log start: it moved after the last one. The copy knows."""
    stores = keeping(topic_of("orders") | record_of(1, [[0, 30]], 30))
    for start, address in ((0, "A"), (10, "B")):
        stores.has(S2, announcement(address, start), CLOSED, 9)
    for store in ALL:
        stores.has(store, announcement("D", 30), OPEN, 4)
    entries = stores.rebuilt()
    assert ends(entries) == [("D", None, None)]
    assert entries[keys.segment_tombstone_key("A")]["members"] == [*ALL]
    assert entries[keys.partition_key(TOPIC, 0)]["log_start"] == 30


def test_a_dropped_segment_does_not_become_the_end_of_its_log_again() -> None:
    stores = keeping(topic_of("orders") | record_of(4, [[3, 20]], 20))
    stores.has(S2, announcement("A", 0), SEALED, 9)
    entries = stores.rebuilt()
    assert chain(entries) == []
    assert entries[keys.partition_key(TOPIC, 0)] == {"next_epoch": 4, "epochs": [[3, 20]], "log_start": 20}


def test_a_log_whose_start_lies_beyond_all_that_is_left_is_one_that_serves() -> None:
    """Two stores are lost with the newest segment, and the third has heard of a DeleteRecords within it."""
    stores = keeping(topic_of("orders") | record_of(1, [[0, 15]], 15))
    for store in ALL[1:]:
        stores.kept.pop(store)
    stores.has(ALL[0], announcement("A", 0), CLOSED, 9)
    entries = stores.rebuilt(ALL[0], accept_loss=True)
    record = entries[keys.partition_key(TOPIC, 0)]
    assert record["log_start"] == 15
    assert what_contradicts(chain(entries), record) == ""
    assert entries[keys.segment_tombstone_key("A")]["members"] == [*ALL]


def test_a_segment_that_ends_where_the_log_starts_stays() -> None:
    """It tells of the producers, until it is dropped."""
    stores = keeping(topic_of("orders") | record_of(1, [[0, 10]], 10))
    for store in ALL:
        stores.has(store, announcement("A", 0), CLOSED, 9)
    assert ends(stores.rebuilt()) == [("A", 9, 10)]


def test_delete_records_within_a_segment_is_remembered() -> None:
    stores = keeping(topic_of("orders") | record_of(1, [[0, 7]], 7))
    for store in ALL:
        stores.has(store, announcement("A", 0), OPEN, 9)
    entries = stores.rebuilt()
    assert ends(entries) == [("A", None, None)]
    assert entries[keys.partition_key(TOPIC, 0)] == {"next_epoch": 1, "epochs": [[0, 7]], "log_start": 7}


def test_what_was_opened_after_the_copy_counts() -> None:
    stores = keeping(topic_of("orders") | record_of(1, [[0, 0]], 0))
    for store in ALL:
        stores.has(store, announcement("A", 0), CLOSED, 9)
        stores.has(store, announcement("B", 10, epoch=5, epochs=[[0, 0], [5, 10]]), OPEN, 0)
    record = stores.rebuilt()[keys.partition_key(TOPIC, 0)]
    assert record == {"next_epoch": 6, "epochs": [[0, 0], [5, 10]], "log_start": 0}


def test_a_buried_topic_stays_buried() -> None:
    stores = keeping(topic_of("orders", OLDER_TOPIC) | {keys.tombstone_key(TOPIC): {"name": "orders"}})
    stores.has(S2, announcement("A", 0), OPEN, 9)
    entries = stores.rebuilt()
    assert entries[keys.topic_key("orders")]["id"] == OLDER_TOPIC.hex()
    assert entries[keys.tombstone_key(TOPIC)] == {"name": "orders"}
    assert entries[keys.segment_tombstone_key("A")]["members"] == [*ALL]
    assert keys.partition_key(TOPIC, 0) not in entries


def test_a_topic_that_was_made_anew_after_the_copy_lives() -> None:
    stores = keeping(topic_of("orders", OLDER_TOPIC))
    for store in ALL:
        stores.has(store, announcement("A", 0), OPEN, 9)
    assert stores.rebuilt()[keys.topic_key("orders")]["id"] == TOPIC.hex()


def test_too_few_stores_may_remember_too_little() -> None:
    stores = keeping(topic_of("orders"))
    with pytest.raises(CannotRebuild, match=r"2 of 3 stores are missing \(store-1, store-2\).*--accept-loss"):
        stores.rebuilt(S0)
    assert keys.topic_key("orders") in stores.rebuilt(S0, accept_loss=True)


def test_a_topic_of_which_a_missing_store_may_have_all_is_named() -> None:
    single = topic_of("single", OLDER_TOPIC, replication_factor=1) | record_of(1, [[0, 0]], 0, OLDER_TOPIC)
    never = topic_of("never", bytes(15) + b"1", replication_factor=1)
    stores = keeping(topic_of("orders") | record_of(1, [[0, 0]], 0) | single | never)
    with pytest.raises(CannotRebuild, match=r"store-2 may have .* \(single\).*--accept-loss"):
        stores.rebuilt(S0, S1)
    assert keys.topic_key("single") in stores.rebuilt(S0, S1, accept_loss=True)
    assert keys.topic_key("single") in stores.rebuilt()


def test_catalogs_that_do_not_come_from_each_other_are_not_mixed() -> None:
    stores = keeping(topic_of("orders"))
    stores.kept[S2] = Remembered("H2", "G7", 99), {keys.LINEAGE: LINEAGE[keys.LINEAGE] | {"lineage": "H2"}}
    with pytest.raises(CannotRebuild, match=r"do not come from each other.*s0 of H1.*s2 of H2.*stop those"):
        stores.rebuilt()
    child = {"lineage": "H3", "parent": "H2", "parent_sequence": 5, "ancestors": ["H1"]}
    lives: dict[str, Any] = {f"{keys.LIVES}G7": {"lineage": "H3", "first": 1}}
    stores.kept[S2] = Remembered("H3", "G7", 2), {keys.LINEAGE: child, **lives, **topic_of("newest")}
    entries = stores.rebuilt()
    assert keys.topic_key("newest") in entries
    assert keys.topic_key("orders") not in entries
    assert entries[keys.LINEAGE]["ancestors"] == ["H2", "H1"]


@pytest.mark.parametrize(("life", "sequence"), [("G0", 6), ("G9", 3), ("G9", 8)])
def test_two_catalogs_that_went_on_from_one_are_not_mixed(
    life: str, sequence: int, caplog: pytest.LogCaptureFixture
) -> None:
    stores = keeping(topic_of("orders"))
    stores.kept[S0] = Remembered("H1", "G0", 5), stores.kept[S0][1]  # was away, and is of the same history
    assert keys.topic_key("orders") in stores.rebuilt()
    stores.kept[S0] = Remembered("H1", life, sequence), stores.kept[S0][1]
    with pytest.raises(CannotRebuild, match=r"two catalogs went on .* store s0 remembers .*--accept-loss"):
        stores.rebuilt()
    assert keys.topic_key("orders") in stores.rebuilt(accept_loss=True)
    assert "two catalogs went on" in caplog.text


def test_a_memory_that_cannot_be_read_is_said() -> None:
    stores = keeping(topic_of("orders"))
    stores.unreadable.add(S1)
    with pytest.raises(CannotRebuild, match=r"s1 cannot read what it remembers.*--accept-loss"):
        stores.rebuilt()


@pytest.mark.parametrize(
    "details", [b"\xff", b"[]", b"{}", b"[" * 100_000, announcement("A", 0).details.replace(b"3000", b'"x"')]
)
def test_an_announcement_that_cannot_be_read_is_refused_by_its_store(details: bytes) -> None:
    stores = Stores()
    stores.has(S0, announcement("A", 0), OPEN, 4)
    stores.has(S1, announcement("B", 5)._replace(details=details), OPEN, 4)
    with pytest.raises(
        CannotRebuild, match=r"store s1 keeps an announcement of segment B .*start without it"
    ):
        stores.rebuilt()


def test_a_row_that_cannot_be_read_is_refused_by_its_store() -> None:
    stores = Stores()
    stores.has(S0, announcement("A", 0), CLOSED, 4)
    stores.listed[S1].append((announcement("A", 0), AddressStatus("A", CLOSED, 4, b"no row")))
    with pytest.raises(CannotRebuild, match=r"store s1 tells of segment A a row .*start without it"):
        stores.rebuilt()
