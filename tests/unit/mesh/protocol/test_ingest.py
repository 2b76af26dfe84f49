"""A store's ingest: contiguity, commits, acknowledgements, OPEN, SEAL, CLOSE, DELETE, epochs, clusters."""

import itertools

import pytest

from mesh.protocol.address_state import AddressState, Phase
from mesh.protocol.commit import Commit
from mesh.protocol.commit_queue import MAX_COMMIT_RECORDS
from mesh.protocol.disk import StoreCorrupt
from mesh.protocol.gaps import FETCH_COUNT, FETCH_FIRST_SECONDS, FETCH_LAST_SECONDS, MAX_FETCH_TRIES
from mesh.protocol.ingest import MAX_QUEUED_BYTES, Ingest
from mesh.protocol.writer import RECORD_OVERHEAD_BYTES
from tests.entries import entry_of
from tests.unit.wireproto.records.damage import altered
from wireproto.dafka.additions import (
    STATUS_DONE,
    STATUS_FOREIGN_CLUSTER,
    STATUS_INCOMPLETE,
    STATUS_NOT_HERE,
    STATUS_SEALED,
    STATUS_STALE_EPOCH,
    STATUS_STORAGE_ERROR,
    AddressStatus,
    Announcement,
    Answer,
    Kept,
    OpenEntry,
    Request,
)
from wireproto.dafka.fields import MAX_SEQUENCE
from wireproto.dafka.messages import Ack, Fetch, Head, Record
from wireproto.records.builder import build_batch
from wireproto.records.row import Row

STORE = "5" * 32
LIFE = "A" * 16
ADDRESS = "A" * 32
SAME_LIFE = LIFE + "B" * 16
"""Another address of the life that made `ADDRESS`."""


class Disk:
    """What was committed, and what is put here; `bad` addresses and logs cannot be read."""

    def __init__(self, epochs: dict[str, tuple[int, str]] | None = None) -> None:
        self.epochs = epochs or {}
        self.metas: dict[str, bytes] = {}
        self.listed: dict[tuple[str, int, str], Phase] = {}
        self.heads: dict[str, tuple[int, bytes, int, str]] = {}
        self.rows: dict[tuple[str, int], tuple[bytes, int]] = {}
        self.bad: set[str] = set()
        self.loads: list[str] = []

    def apply(self, commit: Commit) -> None:
        for state, sequence, _, row, running_max in commit.records:
            self.rows[state.address, sequence] = row, running_max
            self.heads[state.address] = sequence, row, running_max, state.subject
        for state, head, row, running_max in commit.truncations:
            self.heads[state.address] = head, row, running_max, state.subject
        self.metas.update(commit.metas)
        self.epochs.update(commit.epochs)
        self.listed.update(commit.announced)
        for state in commit.deletions:
            self.heads.pop(state.address, None)

    def load(self, address: str) -> AddressState | None:
        self.loads.append(address)
        self._check(address)
        if address not in self.metas and address not in self.heads:
            return None
        head = self.heads.get(address, (-1, b"", -1, ""))
        return AddressState.unpack(address, self.metas.get(address), head)

    def row(self, address: str, sequence: int) -> tuple[bytes, int]:
        self._check(address)
        return self.rows.get((address, sequence), (b"", -1))

    def highest_epoch(self, log: str) -> tuple[int, str]:
        self._check(log)
        return self.epochs.get(log, (-1, ""))

    def highest_epoch_of_all(self) -> int:
        return max((epoch for epoch, _ in self.epochs.values()), default=-1)

    def unended(self, log: str) -> list[str]:
        self._check(log)
        return [key[2] for key, phase in self.listed.items() if key[0] == log and phase < Phase.CLOSED]

    def _check(self, name: str) -> None:
        if name in self.bad:
            raise StoreCorrupt(f"{name} cannot be read")


class Machine(Ingest):
    """An ingest with the shell's habits: commit whatever is there, give the effects."""

    def __init__(self, disk: Disk | None = None, cluster_id: str = "") -> None:
        self.disk = disk or Disk()
        super().__init__(STORE, self.disk, cluster_id)

    def settle(self) -> list[Ack | Answer | Kept]:
        effects: list[Ack | Answer | Kept] = []
        while (commit := self.take_commit()) is not None:
            effects += self.done(commit)
        return effects

    def done(self, commit: Commit) -> list[Ack | Answer | Kept]:
        self.disk.apply(commit)
        return self.committed(commit)

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
    return Request(b"O", STORE, "R1", tuple(OpenEntry(segment).pack() for segment in segments))


def request(message_id: bytes, address: str = ADDRESS, sequence: int = -1) -> Request:
    return Request(message_id, STORE, "R1", (entry_of(message_id, address, sequence),))


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


def test_a_head_under_another_subject_asks_for_nothing() -> None:
    """A native producer's subjects are checked, and its addresses are not its alone."""
    machine = opened()
    machine.on_record(record(0), 0.0)
    machine.settle()
    refused = machine.refused_records
    for sequence in (0, 99):
        machine.on_head(Head(ADDRESS, "heat", sequence), 0.0)
    assert (machine.take_effects(0.0), machine.next_due()) == ([], None)
    assert machine.refused_records == refused + 2


def test_what_comes_while_a_commit_is_on_its_way_is_acknowledged_with_the_next() -> None:
    machine = opened()
    machine.on_record(record(0), 0.0)
    commit = machine.take()
    machine.on_record(record(1), 0.0)
    assert machine.committed(commit) == [Ack(ADDRESS, STORE, "orders", 0)]
    assert machine.settle() == [Ack(ADDRESS, STORE, "orders", 1)]


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


@pytest.mark.parametrize("is_life_known", [False, True])
@pytest.mark.parametrize("first", [0, 1])
def test_what_came_out_of_turn_before_an_announcement_does_not_follow_the_writers(
    first: int, is_life_known: bool
) -> None:
    """Whoever wrote it: a native producer's key may know the address before a gateway opens it here."""
    machine = Machine()
    for sequence in (0, 1, 2, 3)[first::2]:
        machine.on_record(record(sequence, batch(sequence, 9999)), 0.0)
    machine.settle()
    machine.take_effects(0.0)
    if is_life_known:
        machine.on_asked(LIFE + "0" * 16)
    assert machine.answers(open_request(announcement()))[0].status == STATUS_DONE
    assert (machine.take_effects(9.0), machine.next_due()) == ([], None)
    for sequence in range(4):
        machine.on_record(record(sequence), 9.0)
    commit = machine.take()
    assert [(entry.sequence, entry.content) for entry in commit.records] == [(n, batch(n)) for n in range(4)]
    assert machine.done(commit) == [Ack(ADDRESS, STORE, "orders", 3)]


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


def test_the_rest_of_a_gap_is_asked_for_at_once_when_what_was_asked_for_is_here() -> None:
    machine = Machine()
    last = 2 * FETCH_COUNT + 9
    machine.on_head(Head(ADDRESS, "orders", last), 0.0)
    asked = [effect for tick in range(50) for effect in machine.take_effects(tick / 10)]
    assert set(asked) == {Fetch(ADDRESS, STORE, "orders", 0, FETCH_COUNT)}
    assert len(asked) > 2, "it must have backed off before it is set back"
    for sequence in range(FETCH_COUNT):
        machine.on_record(record(sequence, b""), 5.0)
    assert machine.take_effects(5.0) == [Fetch(ADDRESS, STORE, "orders", FETCH_COUNT, FETCH_COUNT)]
    assert machine.next_due() == pytest.approx(5.0 + FETCH_FIRST_SECONDS)
    # The producer stops short of what was asked for: the rest is asked for after the first interval.
    for sequence in range(FETCH_COUNT, FETCH_COUNT + 7):
        machine.on_record(record(sequence, b""), 6.0)
    assert machine.take_effects(6.0) == []
    due = machine.next_due()
    assert due is not None
    assert due == pytest.approx(6.0 + FETCH_FIRST_SECONDS)
    assert machine.take_effects(due) == [Fetch(ADDRESS, STORE, "orders", FETCH_COUNT + 7, FETCH_COUNT)]


def fetches(machine: Machine, now: float) -> tuple[int, float]:
    """How many FETCHes come until nothing is due any more, and when that is."""
    count = 0
    while (due := machine.next_due()) is not None and count < 10 * MAX_FETCH_TRIES:
        now = max(now, due)
        count += len(machine.take_effects(now))
    return count, now


def test_a_silent_producer_is_given_up_until_it_is_heard_again() -> None:
    machine = Machine()
    machine.on_head(Head(ADDRESS, "orders", 3), 0.0)
    count, now = fetches(machine, 0.0)
    assert count == MAX_FETCH_TRIES
    machine.on_head(Head(ADDRESS, "orders", 3), now)
    assert machine.take_effects(now) == [Fetch(ADDRESS, STORE, "orders", 0, 4)]
    machine.on_record(record(9, b"out of turn"), now)
    for sequence in range(2):
        machine.on_record(record(sequence, b""), now)
    assert fetches(machine, now)[0] == MAX_FETCH_TRIES, "progress and word of it count the tries anew"


def test_a_producer_that_is_heard_is_asked_for_ever() -> None:
    machine = Machine()
    asked = 0
    for second in range(10 * MAX_FETCH_TRIES):
        machine.on_head(Head(ADDRESS, "orders", 3), float(second))
        asked += len(machine.take_effects(float(second)))
    assert asked > 3 * MAX_FETCH_TRIES


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
    for _ in range(2):
        assert machine.answers(request(b"S"))[0] == AddressStatus(ADDRESS, STATUS_NOT_HERE, -1)
    assert machine.answers(open_request(announcement()))[0].status == STATUS_SEALED
    again = Machine(machine.disk)
    assert again.answers(request(b"S"))[0] == AddressStatus(ADDRESS, STATUS_NOT_HERE, -1)
    assert again.answers(open_request(announcement()))[0].status == STATUS_SEALED


def test_an_empty_segment_that_was_announced_is_sealed_as_known() -> None:
    assert opened().answers(request(b"S"))[0] == AddressStatus(ADDRESS, STATUS_DONE, -1)


def test_close_cuts_what_lies_behind_the_end_and_says_what_is_missing() -> None:
    machine = opened()
    for sequence in range(4):
        machine.on_record(record(sequence), 0.0)
    machine.settle()
    machine.on_request(request(b"C", sequence=1))
    commit = machine.take()
    assert [(state.address, head) for state, head, *_ in commit.truncations] == [(ADDRESS, 1)]
    (answer,) = machine.done(commit)
    assert isinstance(answer, Answer)
    assert answer.statuses[0][:3] == (ADDRESS, STATUS_DONE, 1)

    behind = opened()
    behind.on_record(record(0), 0.0)
    behind.settle()
    for machine in (behind, behind, Machine(behind.disk)):
        answer_is = machine.answers(request(b"C", sequence=7))[0]
        assert answer_is == AddressStatus(ADDRESS, STATUS_INCOMPLETE, 0)


@pytest.mark.parametrize("end", [-1, 0, 1, 2, 3])
@pytest.mark.parametrize("where", ["on the disk", "in the commit under way", "in the same commit"])
def test_a_closed_address_keeps_the_row_of_its_end(where: str, end: int) -> None:
    """Wherever the record at the end is when CLOSE comes; the answer to SEAL and LIST carry its row."""
    machine = opened()
    for sequence in range(4):
        machine.on_record(record(sequence, batch(sequence, timestamp=1000 + sequence)), 0.0)
    if where == "on the disk":
        machine.settle()
    under_way = machine.take() if where == "in the commit under way" else None
    machine.on_request(request(b"C", sequence=end))
    machine.on_request(request(b"S"))
    if under_way:
        machine.done(under_way)
    answers = [effect for effect in machine.settle() if isinstance(effect, Answer)]
    assert [answer.statuses[0][:3] for answer in answers] == [(ADDRESS, STATUS_DONE, end)] * 2
    kept = machine.disk.load(ADDRESS)
    assert kept is not None
    assert (kept.head, kept.phase, kept.end) == (end, Phase.CLOSED, end)
    assert answers[1].statuses[0].row == kept.last_row
    if end >= 0:
        row = Row.unpack(kept.last_row)
        assert (row.last_offset, row.running_max_timestamp) == (100 + end, kept.running_max)
    else:
        assert kept.last_row == b""


def test_a_deletion_is_confirmed_once_it_is_durable_and_leaves_nothing_in_memory() -> None:
    machine = opened()
    machine.on_record(record(0), 0.0)
    machine.on_request(request(b"X"))
    commit = machine.take()
    assert [state.phase for state in commit.deletions] == [Phase.DELETED]
    machine.done(commit)
    assert machine.known(ADDRESS) is None


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("moment", ["before its commit", "behind it", "after a restart"])
@pytest.mark.parametrize(
    ("late", "status"),
    [
        (open_request(announcement()), STATUS_SEALED),
        (request(b"S"), STATUS_DONE),
        (request(b"C", sequence=0), STATUS_DONE),
        (request(b"C", sequence=7), STATUS_DONE),
        (request(b"X"), STATUS_DONE),
    ],
    ids=["OPEN", "SEAL", "CLOSE", "CLOSE at another end", "DELETE"],
)
def test_what_was_deleted_stays_deleted(moment: str, late: Request, status: int, closed: bool) -> None:
    machine = opened()
    machine.on_record(record(0), 0.0)
    if closed:
        machine.answers(request(b"C", sequence=0))
    machine.on_request(request(b"X"))
    if moment != "before its commit":
        machine.settle()
    if moment == "after a restart":
        machine = Machine(machine.disk, cluster_id="cluster")
    machine.on_request(late)
    answer = [effect for effect in machine.settle() if isinstance(effect, Answer)][-1]
    assert answer.statuses[0].status == status
    if late.id != b"O":
        assert answer.statuses[0] == AddressStatus(ADDRESS, status, -1)
    kept = machine.disk.load(ADDRESS)
    assert kept is not None
    assert (kept.phase, kept.head, kept.announcement) == (Phase.DELETED, -1, None)
    assert machine.heads() == {}


@pytest.mark.parametrize("phase", [b"C", b"X"])
@pytest.mark.parametrize(
    "late", [record(1), record(0), Head(ADDRESS, "orders", 5)], ids=["next", "first", "HEAD"]
)
def test_a_late_writer_of_a_closed_or_deleted_address_is_told_and_makes_no_state(
    phase: bytes, late: Record | Head
) -> None:
    before = opened()
    before.on_record(record(0), 0.0)
    before.settle()
    before.answers(request(phase, sequence=0))
    for machine in (before, Machine(before.disk)):
        if isinstance(late, Record):
            machine.on_record(late, 0.0)
        else:
            machine.on_head(late, 0.0)
        assert machine.heads() == {}
        assert machine.settle() == []
        (notice,) = machine.take_effects(0.0)
        assert isinstance(notice, Answer)
        assert (notice.requester, notice.statuses[0].status) == (ADDRESS, STATUS_SEALED)


def test_a_meta_is_written_as_it_was_when_it_changed() -> None:
    """Or a commit that is put off would carry a deletion whose records are not in it."""
    machine = opened()
    machine.on_request(request(b"S"))
    put_off = machine.take()
    machine.on_request(request(b"X"))
    assert AddressState.unpack(ADDRESS, put_off.metas[ADDRESS], (-1, b"", -1, "")).phase is Phase.SEALED


@pytest.mark.parametrize(
    ("segment", "status"),
    [
        (announcement("B" * 32, cluster="other"), STATUS_FOREIGN_CLUSTER),
        (announcement("B" * 32, epoch=2), STATUS_STALE_EPOCH),
        (announcement("B" * 32, epoch=3), STATUS_STALE_EPOCH),
        (announcement("B" * 32, epoch=4), STATUS_DONE),
        (announcement(SAME_LIFE, epoch=2), STATUS_STALE_EPOCH),
        (announcement(SAME_LIFE, epoch=3), STATUS_DONE),
        (announcement(), STATUS_DONE),
        (announcement(epoch=4), STATUS_SEALED),
    ],
    ids=[
        "foreign cluster",
        "older epoch",
        "same epoch in another life",
        "higher epoch",
        "older epoch of the same life",
        "same epoch of the same life",
        "said again",
        "another segment of this address",
    ],
)
@pytest.mark.parametrize("restarted", [False, True])
def test_which_announcements_are_taken(segment: Announcement, status: int, restarted: bool) -> None:
    machine = opened()
    if restarted:
        machine = Machine(machine.disk, cluster_id="cluster")
    assert machine.answers(open_request(segment))[0].status == status


def test_the_highest_epoch_is_asked_of_the_disk() -> None:
    machine = Machine(Disk({"log/0": (9, LIFE)}), cluster_id="cluster")
    assert machine.answers(open_request(announcement(epoch=8)))[0].status == STATUS_STALE_EPOCH
    assert machine.answers(open_request(announcement("B" * 32, epoch=9)))[0].status == STATUS_STALE_EPOCH
    assert machine.answers(open_request(announcement(epoch=9)))[0].status == STATUS_DONE


@pytest.mark.parametrize(
    "bad",
    [
        Record(ADDRESS, "payments", 0, batch(0)),
        Record(ADDRESS, "orders", 0, b"not a batch"),
        Record(ADDRESS, "orders", 0, batch(0) + b"x"),
        Record(ADDRESS, "orders", 0, altered(batch(0), base_offset=MAX_SEQUENCE, last_offset_delta=1)),
    ],
    ids=["another subject", "no batch", "longer than its batch", "offsets beyond the last one"],
)
def test_records_that_are_not_taken_leave_no_trace(bad: Record) -> None:
    machine = opened()
    machine.on_record(bad, 0.0)
    assert machine.refused_records == 1
    machine.on_record(record(0), 0.0)
    assert machine.settle() == [Ack(ADDRESS, STORE, "orders", 0)]


def test_the_queue_is_bounded_and_goes_on_when_it_was_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 3 * (len(batch(0)) + RECORD_OVERHEAD_BYTES) + 100
    monkeypatch.setattr("mesh.protocol.ingest.MAX_QUEUED_BYTES", limit)
    machine = opened()
    for sequence in range(5):
        machine.on_record(record(sequence), 0.0)
    kept = 3
    assert machine.settle() == [Ack(ADDRESS, STORE, "orders", kept - 1)]
    assert machine.queued_bytes == 0
    for sequence in range(kept, kept + 2):
        machine.on_record(record(sequence), 0.0)
    assert machine.settle() == [Ack(ADDRESS, STORE, "orders", kept + 1)]
    assert MAX_QUEUED_BYTES > 64 * 1024 * 1024


def test_a_commit_is_bounded_by_the_count_of_its_records_too() -> None:
    machine = Machine()
    for sequence in range(MAX_COMMIT_RECORDS + 3):
        machine.on_record(record(sequence, b""), 0.0)
    assert machine.queued_bytes == (MAX_COMMIT_RECORDS + 3) * RECORD_OVERHEAD_BYTES
    first = machine.take()
    assert [entry.sequence for entry in first.records] == list(range(MAX_COMMIT_RECORDS))
    assert machine.committed(first) == [Ack(ADDRESS, "~" + STORE, "orders", MAX_COMMIT_RECORDS - 1)]
    assert machine.settle() == [Ack(ADDRESS, "~" + STORE, "orders", MAX_COMMIT_RECORDS + 2)]
    assert machine.queued_bytes == 0


def test_what_a_commit_counts_includes_the_overhead_of_each_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mesh.protocol.commit_queue.MAX_COMMIT_BYTES", 2 * (RECORD_OVERHEAD_BYTES + 1))
    machine = Machine()
    for sequence in range(5):
        machine.on_record(record(sequence, b"x"), 0.0)
    commits: list[Commit] = []
    while (commit := machine.take_commit()) is not None:
        commits.append(commit)
        machine.committed(commit)
    assert [(len(commit.records), commit.bytes) for commit in commits] == [(2, 2), (2, 2), (1, 1)]


def test_a_request_waits_for_every_record_that_came_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mesh.protocol.commit_queue.MAX_COMMIT_BYTES", 1)
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


def crowd(machine: Machine, count: int) -> None:
    """The next `count` records of `ADDRESS`."""
    state = machine.known(ADDRESS)
    assert state is not None
    for sequence in range(state.accepted + 1, state.accepted + 1 + count):
        machine.on_record(record(sequence), 0.0)


def answered(effects: list[Ack | Answer | Kept]) -> list[tuple[bytes, str, AddressStatus]]:
    return [
        (effect.id, effect.requester, status)
        for effect in effects
        if isinstance(effect, Answer)
        for status in effect.statuses
    ]


@pytest.mark.parametrize(
    "asked",
    [open_request(announcement(SAME_LIFE)), *(request(letter, "C" * 32) for letter in (b"S", b"C", b"X"))],
    ids=["OPEN", "SEAL", "CLOSE", "DELETE"],
)
def test_a_request_does_not_wait_for_the_records_behind_it(
    asked: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Producers may have more in flight than two commits, for as long as they like."""
    monkeypatch.setattr("mesh.protocol.commit_queue.MAX_COMMIT_RECORDS", 2)
    machine = opened()
    crowd(machine, 3)
    machine.on_request(asked)
    answers = []
    for _ in range(4):
        crowd(machine, 3)
        commit = machine.take()
        assert len(commit.records) == 2
        answers.append([letter for letter, *_ in answered(machine.done(commit))])
    assert answers == [[], [asked.id.lower()], [], []]


@pytest.mark.parametrize(
    ("letter", "head", "phase"),
    [(b"S", 3, Phase.SEALED), (b"C", 1, Phase.CLOSED), (b"X", -1, Phase.DELETED)],
    ids=["SEAL", "CLOSE", "DELETE"],
)
def test_what_ends_an_address_ends_it_whatever_is_in_the_same_commit(
    letter: bytes, head: int, phase: Phase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own last records before the request, and a late one and others' records behind it."""
    monkeypatch.setattr("mesh.protocol.commit_queue.MAX_COMMIT_RECORDS", 3)
    machine = opened()
    machine.answers(open_request(announcement(SAME_LIFE)))
    for sequence in range(4):
        machine.on_record(record(sequence, address=SAME_LIFE), 0.0)
    machine.on_request(request(letter, SAME_LIFE, sequence=1))
    machine.on_record(record(4, address=SAME_LIFE), 0.0)
    crowd(machine, 6)
    first, second = machine.take(), None
    assert answered(machine.done(first)) == []
    second = machine.take()
    assert [entry.state.address for entry in second.records] == [SAME_LIFE, ADDRESS, ADDRESS]
    ((_, _, status),) = answered(machine.done(second))
    assert status[:3] == (SAME_LIFE, STATUS_DONE, head)
    kept = machine.disk.load(SAME_LIFE)
    assert kept is not None
    assert (kept.phase, kept.head) == (phase, head)
    machine.on_record(record(head + 1, address=SAME_LIFE), 0.0)
    assert all(entry.state.address == ADDRESS for entry in machine.take().records)


def test_each_request_waits_for_its_own_records_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mesh.protocol.commit_queue.MAX_COMMIT_RECORDS", 4)
    machine = opened()
    names = ["C" * 32, "D" * 32, "E" * 32]
    for name in names:
        crowd(machine, 3)
        machine.on_request(Request(b"S", STORE, f"R{name}", request(b"S", name).entries))
    commits = []
    while (commit := machine.take_commit()) is not None:
        commits.append([requester[1:] for _, requester, _ in answered(machine.done(commit))])
    assert commits == [names[:1], names[1:2], names[2:]]

    # Two that came a record apart, and are behind nothing that is not in this very commit.
    for name, letter in ((names[0], b"C"), (names[0], b"X")):
        crowd(machine, 1)
        machine.on_request(request(letter, name))
    assert [letter for letter, *_ in answered(machine.done(machine.take()))] == [b"c", b"x"]
    kept = machine.disk.load(names[0])
    assert kept is not None
    assert kept.phase is Phase.DELETED


def test_a_request_asked_again_while_its_answer_waits_is_kept_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mesh.protocol.commit_queue.MAX_COMMIT_RECORDS", 1)
    machine = opened()
    crowd(machine, 2)
    asked = open_request(announcement(SAME_LIFE))
    effects: list[Ack | Answer | Kept] = []
    for _ in range(3):
        machine.on_request(asked)
        commit = machine.take()
        machine.on_request(asked)
        effects += machine.done(commit)
        crowd(machine, 1)
    assert [letter for letter, *_ in answered(effects)] == [b"o"], "it waits, and then it is in a commit"
    assert answered(machine.settle()) == [(b"o", "R1", AddressStatus(SAME_LIFE, STATUS_DONE, -1))]
    assert machine.answers(asked)[0].status == STATUS_DONE, "behind its answer it is asked anew"


def test_requests_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mesh.protocol.ingest.MAX_WAITING_REQUESTS", 2)
    machine = opened()
    for number in range(5):
        name = f"{number:032X}"
        machine.on_request(Request(b"S", STORE, f"R{number}", request(b"S", name).entries))
    assert machine.refused_requests == 3
    assert [requester for _, requester, _ in answered(machine.settle())] == ["R0", "R1"]
    assert machine.disk.load(f"{2:032X}") is None, "what is not answered has changed nothing"


def test_the_head_and_the_row_that_a_seal_names_belong_together() -> None:
    """Also when a CLOSE comes while the seal is on its way to the disk."""
    machine = opened()
    crowd(machine, 4)
    machine.on_request(request(b"S"))
    sealing = machine.take()
    machine.on_request(request(b"C", sequence=1))
    ((_, _, status),) = answered(machine.done(sealing))
    assert (status.sequence, Row.unpack(status.row).last_offset) == (1, 101)


def test_native_addresses_are_kept_without_rows_and_never_parsed_and_count_for_no_segment() -> None:
    machine = Machine()
    machine.on_record(record(0, b"anything at all"), 0.0)
    commit = machine.take()
    assert [(entry.content, entry.row) for entry in commit.records] == [(b"anything at all", b"")]
    assert machine.committed(commit) == [Ack(ADDRESS, "~" + STORE, "orders", 0)]
    machine.on_record(record(0, b"anything at all"), 0.0)
    assert machine.take_effects(0.0) == [Ack(ADDRESS, "~" + STORE, "orders", 0)]


def bad_disk(*names: str) -> Machine:
    machine = Machine(cluster_id="cluster")
    machine.disk.bad = set(names)
    return machine


@pytest.mark.parametrize(
    ("bad", "asked"),
    [
        (ADDRESS, open_request(announcement(), announcement("C" * 32))),
        ("log/0", open_request(announcement())),
        *(
            (ADDRESS, Request(message_id, STORE, "R1", (*request(message_id).entries, *other.entries)))
            for message_id in (b"S", b"C", b"X")
            for other in [request(message_id, "C" * 32)]
        ),
    ],
    ids=["OPEN", "the log's epoch", "SEAL", "CLOSE", "DELETE"],
)
def test_an_address_that_cannot_be_read_is_answered_for_and_the_others_too(bad: str, asked: Request) -> None:
    machine = bad_disk(bad)
    statuses = machine.answers(asked)
    assert statuses[0] == AddressStatus(ADDRESS, STATUS_STORAGE_ERROR, -1)
    assert [status.address for status in statuses[1:]] == ["C" * 32] * (len(asked.entries) - 1)
    assert all(status.status != STATUS_STORAGE_ERROR for status in statuses[1:])
    assert ADDRESS not in machine.disk.metas
    machine.disk.bad = set()
    assert machine.answers(asked)[0].status != STATUS_STORAGE_ERROR, "it is read again when asked again"


def test_records_of_an_address_that_cannot_be_read_are_dropped_and_counted() -> None:
    machine = bad_disk(ADDRESS)
    machine.on_record(record(0), 0.0)
    machine.on_head(Head(ADDRESS, "orders", 4), 0.0)
    machine.on_record(record(1), 0.0)
    assert (machine.refused_records, machine.unreadable) == (2, 3)
    assert machine.disk.loads == [ADDRESS], "each record would cost a read of a bad block"
    assert machine.take_effects(9.0) == []
    assert machine.settle() == []


def test_a_close_whose_end_cannot_be_read_changes_nothing() -> None:
    machine = opened()
    for sequence in range(3):
        machine.on_record(record(sequence), 0.0)
    machine.settle()
    for damage in ("bad", "missing"):
        machine.disk.bad = {ADDRESS} if damage == "bad" else set()
        del machine.disk.rows[ADDRESS, 1 if damage == "bad" else 0]
        end = 1 if damage == "bad" else 0
        assert machine.answers(request(b"C", sequence=end))[0].status == STATUS_STORAGE_ERROR
    machine.on_record(record(3), 0.0)
    assert machine.settle() == [Ack(ADDRESS, STORE, "orders", 3)]


def test_a_seal_without_room_is_not_taken_for_one_that_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """STATUS_NOT_HERE says that the seal is on the disk."""
    machine = opened()
    monkeypatch.setattr("mesh.protocol.addresses.MAX_ADDRESSES", 1)
    other = "C" * 32
    assert machine.answers(request(b"S", other))[0].status == STATUS_STORAGE_ERROR
    assert machine.answers(open_request(announcement(SAME_LIFE)))[0].status == STATUS_NOT_HERE
    assert machine.answers(request(b"C", other))[0] == AddressStatus(other, STATUS_DONE, -1)
    assert machine.answers(request(b"X", other))[0] == AddressStatus(other, STATUS_DONE, -1)
    assert machine.answers(request(b"S"))[0].status == STATUS_DONE


def test_what_comes_once_the_gateway_of_an_address_is_heard_of_is_not_kept_before_its_announcement() -> None:
    machine = Machine()
    for sequence in (0, 1):
        machine.on_record(record(sequence), 0.0)
    machine.on_asked(LIFE + "C" * 16)
    machine.on_record(record(2), 0.1)
    assert [entry.sequence for entry in machine.take().records] == [0, 1]
    assert machine.unannounced == 1


def test_a_gap_of_an_address_that_is_kept_elsewhere_does_not_outlive_it() -> None:
    """RECORDs come before it is known that a gateway made the address, and before its OPEN. What is missing
    is asked of the segment's members then, so the gap must be of the address as OPEN knows it.
    """
    machine = Machine()
    machine.on_record(record(3), 0.0)
    machine.on_asked(LIFE + "C" * 16)
    machine.on_record(record(4), 0.1)
    assert machine.take_effects(0.2) == []
    two = announcement()._replace(members=(STORE, "6" * 32))
    machine.answers(open_request(two))
    machine.on_head(Head(ADDRESS, "orders", 5), 1.0)
    wants: dict[str, object] = {}
    for tick in range(20, 60):
        machine.take_effects(tick / 10)
        wants |= machine.take_wants()
    assert ADDRESS in wants
