"""A store's ingest: contiguity, commits, acknowledgements, OPEN, SEAL, CLOSE, DELETE, epochs, clusters."""

import itertools

import pytest

from mesh.protocol.address_state import AddressState, Phase
from mesh.protocol.ingest import FETCH_FIRST_SECONDS, FETCH_LAST_SECONDS, MAX_QUEUED_BYTES, Commit, Ingest
from wireproto.dafka.additions import (
    STATUS_DONE,
    STATUS_FOREIGN_CLUSTER,
    STATUS_INCOMPLETE,
    STATUS_SEALED,
    STATUS_STALE_EPOCH,
    AddressStatus,
    Announcement,
    Answer,
    Request,
)
from wireproto.dafka.messages import Ack, Fetch, Head, Record
from wireproto.records.builder import build_batch
from wireproto.records.row import Row

STORE = "5" * 32
ADDRESS = "A" * 32


class Disk:
    """Nothing is remembered: every address is new."""

    def __init__(self, epochs: dict[str, int] | None = None) -> None:
        self.epochs = epochs or {}
        self.states: dict[str, AddressState] = {}

    def load(self, address: str) -> AddressState | None:
        return self.states.get(address)

    def highest_epoch(self, log: str) -> int:
        return self.epochs.get(log, -1)


class Machine(Ingest):
    """An ingest with the shell's habits: commit whatever is there, give the effects."""

    def __init__(self, disk: Disk | None = None, cluster_id: str = "") -> None:
        super().__init__(STORE, disk or Disk(), cluster_id)

    def settle(self) -> list[Ack | Answer]:
        effects: list[Ack | Answer] = []
        while (commit := self.take_commit()) is not None:
            effects += self.committed(commit)
        return effects

    def take(self) -> Commit:
        commit = self.take_commit()
        assert commit is not None
        return commit

    def answers(self, request: Request) -> list[AddressStatus]:
        self.on_request(request)
        (answer,) = [effect for effect in self.settle() if isinstance(effect, Answer)]
        assert (answer.id, answer.requester, answer.store) == (request.id.lower(), "R1", STORE)
        return list(answer.statuses)


def announcement(address: str = ADDRESS, *, epoch: int = 3, cluster: str = "cluster") -> Announcement:
    return Announcement(address, "orders", cluster, "log/0", epoch, 100, (STORE,), 1, b"{}")


def open_request(*segments: Announcement) -> Request:
    return Request(b"O", STORE, "R1", tuple(segment.pack() for segment in segments))


def request(message_id: bytes, address: str = ADDRESS, sequence: int = -1) -> Request:
    return Request(message_id, STORE, "R1", (AddressStatus(address, STATUS_DONE, sequence).pack(),))


def batch(number: int, timestamp: int = 1000) -> bytes:
    return build_batch([(None, b"v%d" % number, [], timestamp)], base_offset=100 + number)


def record(sequence: int, content: bytes | None = None, address: str = ADDRESS) -> Record:
    return Record(address, "orders", sequence, batch(sequence) if content is None else content)


def opened() -> Machine:
    machine = Machine()
    assert machine.answers(open_request(announcement()))[0].status == STATUS_DONE
    return machine


def test_records_are_acknowledged_once_per_commit_and_only_when_it_is_durable() -> None:
    machine = opened()
    for sequence in range(3):
        machine.on_record(record(sequence), 0.0)
    commit = machine.take()
    assert [(entry.sequence, entry.content) for entry in commit.records] == [(n, batch(n)) for n in range(3)]
    assert machine.take_effects(0.0) == []
    machine.on_record(record(0), 0.0)
    assert machine.take_effects(0.0) == [], "what is not durable yet is not acknowledged again either"
    assert machine.committed(commit) == [Ack(ADDRESS, STORE, "orders", 2)]


def test_rows_carry_the_running_maximum_of_timestamps() -> None:
    machine = opened()
    for sequence, timestamp in enumerate([50, 90, 70, 95]):
        machine.on_record(record(sequence, batch(sequence, timestamp)), 0.0)
    rows = [Row.unpack(entry.row) for entry in machine.take().records]
    assert [(row.base_offset, row.max_timestamp, row.running_max_timestamp) for row in rows] == [
        (100, 50, 50),
        (101, 90, 90),
        (102, 70, 90),
        (103, 95, 95),
    ]


def test_a_gap_is_asked_for_again_with_back_off_until_it_is_filled() -> None:
    machine = opened()
    machine.on_record(record(0), 0.0)
    machine.on_record(record(4), 0.0)
    machine.settle()
    asked = [
        step / 100
        for step in range(2000)
        if machine.take_effects(step / 100) == [Fetch(ADDRESS, STORE, "orders", 1, 3)]
    ]
    gaps = [later - earlier for earlier, later in itertools.pairwise(asked)]
    assert asked[0] == 0.0
    assert gaps[0] == pytest.approx(FETCH_FIRST_SECONDS, abs=0.011)
    assert gaps[-1] == pytest.approx(FETCH_LAST_SECONDS, abs=0.011)
    for sequence in range(1, 5):
        machine.on_record(record(sequence), 20.0)
    assert machine.settle() == [Ack(ADDRESS, STORE, "orders", 4)]
    assert machine.take_effects(99.0) == []


@pytest.mark.parametrize(
    ("head", "effects"),
    [
        (1, [Ack(ADDRESS, STORE, "orders", 2)]),
        (2, [Ack(ADDRESS, STORE, "orders", 2)]),
        (5, [Fetch(ADDRESS, STORE, "orders", 3, 3)]),
    ],
)
def test_head_is_answered_with_the_acknowledgement_or_a_fetch(head: int, effects: list[Ack | Fetch]) -> None:
    machine = opened()
    for sequence in range(3):
        machine.on_record(record(sequence), 0.0)
    machine.settle()
    machine.on_head(Head(ADDRESS, "orders", head), 0.0)
    assert machine.take_effects(0.0) == effects


def test_a_seal_counts_the_records_before_it_and_none_after() -> None:
    machine = opened()
    machine.on_record(record(0), 0.0)
    machine.on_record(record(1), 0.0)
    machine.on_request(request(b"S"))
    machine.on_record(record(2), 0.0)
    effects = machine.settle()
    (answer,) = [effect for effect in effects if isinstance(effect, Answer)]
    assert answer.statuses[0][:3] == (ADDRESS, STATUS_DONE, 1)
    assert Row.unpack(answer.statuses[0].row).last_offset == 101
    notice = AddressStatus(ADDRESS, STATUS_SEALED, 1)
    assert machine.take_effects(0.0) == [Answer(b"s", ADDRESS, STORE, (notice,))]


def test_an_unknown_address_can_be_sealed_and_stays_so() -> None:
    machine = Machine()
    assert machine.answers(request(b"S"))[0] == AddressStatus(ADDRESS, STATUS_DONE, -1)
    assert machine.answers(open_request(announcement()))[0].status == STATUS_SEALED


def test_close_cuts_what_lies_behind_the_end_and_says_what_is_missing() -> None:
    machine = opened()
    for sequence in range(4):
        machine.on_record(record(sequence), 0.0)
    machine.settle()
    machine.on_request(request(b"C", sequence=1))
    commit = machine.take()
    assert [(state.address, head) for state, head in commit.truncations] == [(ADDRESS, 1)]
    (answer,) = machine.committed(commit)
    assert isinstance(answer, Answer)
    assert answer.statuses[0][:3] == (ADDRESS, STATUS_DONE, 1)

    behind = opened()
    behind.on_record(record(0), 0.0)
    behind.settle()
    assert behind.answers(request(b"C", sequence=7))[0].status == STATUS_INCOMPLETE


def test_a_deletion_is_confirmed_once_it_is_durable_and_leaves_nothing_in_memory() -> None:
    machine = opened()
    machine.on_record(record(0), 0.0)
    machine.on_request(request(b"X"))
    commit = machine.take()
    assert [state.phase for state in commit.deletions] == [Phase.DELETED]
    machine.committed(commit)
    assert machine.known(ADDRESS) is None


@pytest.mark.parametrize(
    ("segment", "status"),
    [
        (announcement("B" * 32, cluster="other"), STATUS_FOREIGN_CLUSTER),
        (announcement("B" * 32, epoch=2), STATUS_STALE_EPOCH),
        (announcement("B" * 32, epoch=3), STATUS_DONE),
        (announcement(), STATUS_DONE),
        (announcement(epoch=4), STATUS_SEALED),
    ],
    ids=["foreign cluster", "older epoch", "same epoch", "said again", "another segment of this address"],
)
def test_which_announcements_are_taken(segment: Announcement, status: int) -> None:
    assert opened().answers(open_request(segment))[0].status == status


def test_the_highest_epoch_is_asked_of_the_disk() -> None:
    machine = Machine(Disk({"log/0": 9}), cluster_id="cluster")
    assert machine.answers(open_request(announcement(epoch=8)))[0].status == STATUS_STALE_EPOCH
    assert machine.answers(open_request(announcement(epoch=9)))[0].status == STATUS_DONE


@pytest.mark.parametrize(
    "bad",
    [
        Record(ADDRESS, "payments", 0, batch(0)),
        Record(ADDRESS, "orders", 0, b"not a batch"),
        Record(ADDRESS, "orders", 0, batch(0) + b"x"),
    ],
    ids=["another subject", "no batch", "longer than its batch"],
)
def test_records_that_are_not_taken_leave_no_trace(bad: Record) -> None:
    machine = opened()
    machine.on_record(bad, 0.0)
    assert machine.refused_records == 1
    machine.on_record(record(0), 0.0)
    assert machine.settle() == [Ack(ADDRESS, STORE, "orders", 0)]


def test_the_queue_is_bounded_and_goes_on_when_it_was_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mesh.protocol.ingest.MAX_QUEUED_BYTES", 250)
    machine = opened()
    for sequence in range(5):
        machine.on_record(record(sequence), 0.0)
    kept = 250 // len(batch(0))
    assert machine.settle() == [Ack(ADDRESS, STORE, "orders", kept - 1)]
    assert machine.queued_bytes == 0
    for sequence in range(kept, kept + 2):
        machine.on_record(record(sequence), 0.0)
    assert machine.settle() == [Ack(ADDRESS, STORE, "orders", kept + 1)]
    assert MAX_QUEUED_BYTES > 64 * 1024 * 1024


def test_a_request_waits_for_every_record_that_came_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mesh.protocol.ingest.MAX_COMMIT_BYTES", 1)
    machine = opened()
    for sequence in range(3):
        machine.on_record(record(sequence), 0.0)
    machine.on_request(request(b"S"))
    commits: list[Commit] = []
    while (commit := machine.take_commit()) is not None:
        commits.append(commit)
        machine.committed(commit)
    assert [len(commit.answers) for commit in commits] == [0, 0, 1]
    assert [len(commit.records) for commit in commits] == [1, 1, 1]


def test_native_addresses_are_kept_without_rows_and_never_parsed() -> None:
    machine = Machine()
    machine.on_record(record(0, b"anything at all"), 0.0)
    commit = machine.take()
    assert [(entry.content, entry.row) for entry in commit.records] == [(b"anything at all", b"")]
    assert machine.committed(commit) == [Ack(ADDRESS, STORE, "orders", 0)]
