"""COPY at a store: which segments are copied, which records are taken, what is answered and remembered."""

import pytest

from mesh.protocol.address_state import Phase
from mesh.protocol.copying import MAX_SOURCES, Taken, Want
from mesh.protocol.ingest import Ingest
from tests.unit.mesh.protocol.test_ingest import (
    ADDRESS,
    LIFE,
    SAME_LIFE,
    STORE,
    Disk,
    Machine,
    announcement,
    answered,
    open_request,
    record,
    request,
)
from tests.unit.wireproto.records.damage import altered
from wireproto.dafka.additions import (
    STATUS_DONE,
    STATUS_FOREIGN_CLUSTER,
    STATUS_INCOMPLETE,
    STATUS_NOT_HERE,
    STATUS_OPEN,
    STATUS_SEALED,
    STATUS_STALE_EPOCH,
    STATUS_STORAGE_ERROR,
    AddressStatus,
    Announcement,
    Answer,
    Copy,
    Request,
)
from wireproto.dafka.messages import Ack, Head, Record
from wireproto.records.batch import assign_offsets
from wireproto.records.builder import build_batch
from wireproto.records.row import Row

PEERS = ("6" * 32, "7" * 32)
EPOCH = 3
END = 5


def batch(number: int, *, epoch: int = EPOCH, base: int | None = None) -> bytes:
    content = bytearray(build_batch([(None, b"v%d" % number, [], 1000 - number)]))
    assign_offsets(content, 100 + number if base is None else base, epoch)
    return bytes(content)


def segment(address: str = ADDRESS, *, epoch: int = EPOCH, log: str = "log/0") -> Announcement:
    return announcement(address, epoch=epoch)._replace(members=(STORE, *PEERS), w=2, log=log)


def copy_request(
    end: int = END, *, asker: str = "R1", of: Announcement | None = None, sources: tuple[str, ...] = ()
) -> Request:
    return Request(b"Y", STORE, asker, (Copy(of or segment(), end, sources).pack(),))


def copied(machine: Ingest, first: int, last: int, address: str = ADDRESS) -> list[Taken]:
    return [
        machine.on_copy(address, number, batch(number), PEERS[0], 0.0) for number in range(first, last + 1)
    ]


def written(machine: Machine, count: int) -> None:
    """The address is opened, and its writer's first records are durable."""
    machine.answers(open_request(segment()))
    for number in range(count):
        machine.on_record(record(number, batch(number)), 0.0)
    machine.settle()


def kept(machine: Machine) -> tuple[Phase, int]:
    state = machine.disk.load(ADDRESS)
    assert state is not None
    return state.phase, state.head


def test_an_unknown_segment_is_sealed_with_its_announcement_and_copied_to_its_end() -> None:
    machine = Machine()
    assert machine.answers(copy_request()) == [AddressStatus(ADDRESS, STATUS_INCOMPLETE, -1)]
    state = machine.known(ADDRESS)
    assert state is not None
    assert machine.take_wants() == {ADDRESS: Want(state, END, PEERS, lasting=True)}
    assert (state.phase, state.announcement) == (Phase.SEALED, segment())
    assert set(copied(machine, 0, END)) == {Taken.TAKEN}
    assert copied(machine, END + 1, END + 1) == [Taken.UNWANTED], "nothing beyond the end"
    (effect,) = machine.settle()
    assert effect == Answer(b"y", "R1", STORE, (AddressStatus(ADDRESS, STATUS_DONE, END),))
    assert machine.take_wants() == {ADDRESS: None}
    assert machine.answers(copy_request()) == [AddressStatus(ADDRESS, STATUS_DONE, END)]
    assert machine.disk.load(ADDRESS) is not None
    assert kept(machine) == (Phase.SEALED, END)


def test_what_came_out_of_turn_before_a_copy_does_not_follow_what_is_copied() -> None:
    machine = Machine()
    for number in range(1, END + 1):
        machine.on_record(record(number, batch(number, base=200 + number)), 0.0)
    machine.answers(copy_request())
    assert set(copied(machine, 0, END)) == {Taken.TAKEN}
    assert [entry.content for entry in machine.take().records] == [batch(n) for n in range(END + 1)]


def test_what_an_earlier_incarnation_had_open_is_sealed_and_copied_on() -> None:
    """It lost something and is another store now: as no member it is never sealed by anybody else."""
    machine = Machine()
    machine.segments.incarnation = "another incarnation"
    formerly = segment()
    machine.on_request(open_request(formerly))
    for number in range(2):
        machine.on_record(record(number, batch(number)), 0.0)
    machine.settle()
    now = formerly._replace(members=("another incarnation", *PEERS))
    entry = Copy(now, END, PEERS).pack()
    machine.on_request(Request(b"Y", "another incarnation", "R1", (entry,)))
    assert set(copied(machine, 2, END)) == {Taken.TAKEN}
    machine.settle()
    assert kept(machine) == (Phase.SEALED, END)


def test_a_store_that_was_another_one_keeps_that_it_is_a_member_now() -> None:
    """It has the segment, and of the older members only one that is gone; a rebuilt catalog would wait for
    that one for ever. Members of which this store is one already may be newer than those of a late COPY.
    """
    machine = Machine()
    formerly = segment()
    written(machine, END + 1)
    machine.answers(request(b"C", sequence=END))
    machine.segments.incarnation = "another incarnation"
    now = formerly._replace(members=("another incarnation", *PEERS))
    for asked in (now, formerly, now._replace(members=("another incarnation", "older", "older still"))):
        entry = Copy(asked, END, PEERS).pack()
        machine.on_request(Request(b"Y", "another incarnation", "R1", (entry,)))
        machine.settle()
        state = machine.disk.load(ADDRESS)
        assert state is not None
        assert state.announcement == now
        assert kept(machine) == (Phase.CLOSED, END)


def test_what_was_copied_is_what_the_writer_would_have_brought() -> None:
    """Rows and running maxima too: members are compared byte for byte."""
    one, other = Machine(), Machine()
    written(one, END + 1)
    other.answers(copy_request())
    copied(other, 0, END)
    other.settle()
    assert other.disk.rows == one.disk.rows
    assert other.disk.heads == one.disk.heads


def test_a_copied_record_is_durable_before_it_is_said() -> None:
    machine = Machine()
    machine.answers(copy_request(0))
    copied(machine, 0, 0)
    assert answered(machine.done(machine.take())) == [(b"y", "R1", AddressStatus(ADDRESS, STATUS_DONE, 0))]
    machine.answers(copy_request(1))
    copied(machine, 1, 1)
    commit = machine.take()
    machine.on_request(copy_request(1, asker="R2"))
    machine.on_request(request(b"S"))
    assert machine.take_effects(0.0) == []
    assert machine.done(commit) == [Answer(b"y", "R1", STORE, (AddressStatus(ADDRESS, STATUS_DONE, 1),))]
    assert [letter for letter, *_ in answered(machine.settle())] == [b"y", b"s"]


def test_what_comes_while_an_answer_is_on_its_way_to_the_disk_is_not_in_that_answer() -> None:
    machine = Machine()
    machine.on_request(copy_request())
    commit = machine.take()
    copied(machine, 0, END)
    assert machine.done(commit) == [
        Answer(b"y", "R1", STORE, (AddressStatus(ADDRESS, STATUS_INCOMPLETE, -1),))
    ]
    assert answered(machine.settle()) == [(b"y", "R1", AddressStatus(ADDRESS, STATUS_DONE, END))]


def test_a_cut_off_writer_is_not_told_what_a_recovery_copied() -> None:
    """It would count it, and the next recovery may decide on an earlier end."""
    machine = Machine()
    written(machine, 2)
    machine.answers(request(b"S"))
    machine.answers(copy_request())
    copied(machine, 2, END)
    assert not [effect for effect in machine.settle() if isinstance(effect, Ack)]
    machine.on_record(record(1, batch(1)), 0.0)
    (notice,) = machine.take_effects(0.0)
    assert isinstance(notice, Answer)
    assert (notice.id, notice.statuses[0].status) == (b"s", STATUS_SEALED)


def test_a_seal_names_the_row_of_the_head_that_it_names() -> None:
    """Though records that were copied behind it wait for their commit."""
    machine = Machine()
    machine.answers(copy_request())
    copied(machine, 0, 1)
    machine.on_request(request(b"S"))
    commit = machine.take()
    copied(machine, 2, 3)
    ((_, _, status),) = [one for one in answered(machine.done(commit)) if one[0] == b"s"]
    assert (status.sequence, Row.unpack(status.row).last_offset) == (1, 101)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_sealed_segment_takes_nothing_that_no_copy_asked_for(restarted: bool) -> None:
    machine = Machine()
    written(machine, 2)
    machine.answers(request(b"S"))
    machine.answers(copy_request(2))
    if restarted:
        machine = Machine(machine.disk, cluster_id="cluster")
        machine.resume(ADDRESS)
    else:
        copied(machine, 2, 2)
        machine.settle()
    state = machine.known(ADDRESS)
    assert state is not None
    assert copied(machine, state.accepted + 1, state.accepted + 1) == [Taken.UNWANTED]


def test_a_closed_segment_lacks_what_lies_before_its_end_and_asks_its_members() -> None:
    machine = Machine()
    written(machine, 2)
    assert machine.answers(request(b"C", sequence=END))[0] == AddressStatus(ADDRESS, STATUS_INCOMPLETE, 1)
    state = machine.known(ADDRESS)
    assert state is not None
    wants = {ADDRESS: Want(state, END, PEERS, lasting=True)}
    assert machine.take_wants() == wants
    again = Machine(machine.disk, cluster_id="cluster")
    again.resume(ADDRESS)
    (want,) = again.take_wants().values()
    assert want is not None
    assert (want.last, want.sources, want.state.head) == (END, PEERS, 1)
    for store in (machine, again):
        assert copied(store, 2, END + 1) == [Taken.TAKEN] * 4 + [Taken.UNWANTED]
        assert store.settle() == [], "nobody waits for it, and no writer is told"
        assert store.take_wants() == {ADDRESS: None}
        assert store.answers(request(b"C", sequence=END))[0] == AddressStatus(ADDRESS, STATUS_DONE, END)
        assert store.heads() == {}


def test_what_a_start_must_look_at_is_noted_and_struck_out() -> None:
    machine = Machine()

    def noted(*requests: Request, copies: tuple[int, int] = (0, -1)) -> dict[str, bool]:
        for one in requests:
            machine.on_request(one)
        copied(machine, *copies)
        changes: dict[str, bool] = {}
        while (commit := machine.take_commit()) is not None:
            changes |= commit.unfinished
            machine.done(commit)
        return changes

    assert noted(open_request(segment())) == {ADDRESS: True}
    assert noted(request(b"S")) == {}
    assert noted(request(b"C", sequence=END)) == {ADDRESS: True}
    assert noted(copies=(0, END - 1)) == {}
    assert noted(copies=(END, END)) == {ADDRESS: False}
    assert noted(request(b"X")) == {ADDRESS: False}
    alone = announcement(SAME_LIFE)
    assert noted(open_request(alone)) == {}, "a store without peers has nobody to ask"


@pytest.mark.parametrize(
    ("before", "asked", "status"),
    [
        ([open_request(segment())], copy_request(), (STATUS_OPEN, -1)),
        ([open_request(segment()), request(b"X")], copy_request(), (STATUS_SEALED, -1)),
        ([request(b"X")], copy_request(), (STATUS_SEALED, -1)),
        ([open_request(segment("B" * 32))], copy_request(of=segment(epoch=2)), (STATUS_INCOMPLETE, -1)),
        ([open_request(segment("B" * 32))], copy_request(of=segment(epoch=4)), (STATUS_INCOMPLETE, -1)),
        ([open_request(segment("B" * 32))], copy_request(), (STATUS_STALE_EPOCH, -1)),
        ([open_request(segment(SAME_LIFE))], copy_request(), (STATUS_INCOMPLETE, -1)),
        (
            [open_request(segment("B" * 32))],
            copy_request(of=segment()._replace(cluster_id="other")),
            (STATUS_FOREIGN_CLUSTER, -1),
        ),
        (
            [copy_request()],
            copy_request(of=segment()._replace(members=PEERS, w=1, details=b"")),
            (STATUS_INCOMPLETE, -1),
        ),
        ([copy_request()], copy_request(of=segment()._replace(start=7)), (STATUS_SEALED, -1)),
        ([copy_request(), request(b"C", sequence=3)], copy_request(4), (STATUS_SEALED, -1)),
        ([copy_request(), request(b"C", sequence=3)], copy_request(3), (STATUS_INCOMPLETE, -1)),
        ([], copy_request(-1), (STATUS_DONE, -1)),
        ([request(b"S")], copy_request(), (STATUS_INCOMPLETE, -1)),
        ([request(b"C", sequence=END)], copy_request(), (STATUS_INCOMPLETE, -1)),
    ],
    ids=[
        "open",
        "deleted",
        "deleted before it was heard of",
        "an older epoch",
        "a newer epoch",
        "the same epoch of another life",
        "the same epoch of the same life",
        "foreign cluster",
        "other members of the same segment",
        "another segment of this address",
        "beyond the agreed end",
        "the agreed end",
        "an empty segment",
        "sealed, and never announced",
        "closed, and never announced",
    ],
)
def test_which_segments_are_copied(before: list[Request], asked: Request, status: tuple[int, int]) -> None:
    machine = Machine()
    for number, one in enumerate(before):
        machine.on_request(one._replace(requester=f"before {number}"))
        machine.settle()
    answer = machine.answers(asked)[0]
    assert (answer.status, answer.sequence) == status


def test_a_copy_for_which_there_is_no_room_or_no_past_is_answered_so(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    machine.disk.bad = {ADDRESS}
    assert machine.answers(copy_request())[0].status == STATUS_STORAGE_ERROR
    machine.disk.bad = {"log/0"}
    assert machine.answers(copy_request())[0].status == STATUS_STORAGE_ERROR
    machine.disk.bad = set()
    monkeypatch.setattr("mesh.protocol.addresses.MAX_ADDRESSES", 0)
    assert Machine().answers(copy_request())[0].status == STATUS_NOT_HERE


def test_an_older_copy_does_not_lower_what_is_known_of_epochs() -> None:
    machine = Machine()
    machine.answers(copy_request(of=segment(epoch=4)))
    machine.answers(copy_request(of=segment("B" * 32, epoch=3)))
    assert machine.disk.epochs == {"log/0": (4, LIFE)}
    assert machine.answers(open_request(segment("C" * 32, epoch=3)))[0].status == STATUS_STALE_EPOCH


def test_copy_names_the_sources_or_the_members_are_asked() -> None:
    machine = Machine()
    named = (*PEERS, STORE, *(f"{number:032X}" for number in range(MAX_SOURCES)))
    machine.answers(copy_request(sources=named))
    (want,) = machine.take_wants().values()
    assert want is not None
    assert want.sources == (*PEERS, *named[3:])[:MAX_SOURCES], "nobody asks itself"
    machine.answers(copy_request(END + 1))
    (want,) = machine.take_wants().values()
    assert want is not None
    assert (want.last, want.sources[:2]) == (END + 1, PEERS), "a later one without sources keeps them"


@pytest.mark.parametrize(
    "bad",
    [
        altered(batch(1), crc=1),
        batch(1) + b"x",
        batch(1)[:-1],
        b"",
        batch(1, epoch=EPOCH - 1),
        batch(1, epoch=EPOCH + 1),
        batch(1, base=100),
        batch(1, base=99),
    ],
    ids=[
        "CRC",
        "longer",
        "shorter",
        "empty",
        "older epoch",
        "newer epoch",
        "the offset of the one before",
        "an offset before",
    ],
)
def test_a_bad_copy_is_counted_with_its_source_and_changes_nothing(
    bad: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    machine = Machine()
    machine.answers(copy_request())
    copied(machine, 0, 0)
    assert machine.on_copy(ADDRESS, 1, bad, PEERS[1], 0.0) is Taken.BAD
    assert machine.bad_copies == 1
    assert PEERS[1] in caplog.text
    assert copied(machine, 1, 1) == [Taken.TAKEN]


def test_a_compacted_segment_keeps_the_epochs_of_its_batches() -> None:
    """They were written under several ones, none newer than the segment's; they never go down."""
    machine = Machine()
    machine.answers(copy_request())
    for sequence, epoch in enumerate((EPOCH - 2, EPOCH - 2, EPOCH - 1, EPOCH)):
        assert machine.on_copy(ADDRESS, sequence, batch(sequence, epoch=epoch), PEERS[0], 0.0) is Taken.TAKEN
    assert machine.on_copy(ADDRESS, 4, batch(4, epoch=EPOCH - 1), PEERS[0], 0.0) is Taken.BAD
    assert machine.bad_copies == 1


def test_the_first_batch_may_not_lie_before_the_segments_start_and_later_ones_may_leave_offsets_out() -> None:
    machine = Machine()
    machine.answers(copy_request())
    assert machine.on_copy(ADDRESS, 0, batch(0, base=99), PEERS[0], 0.0) is Taken.BAD
    assert machine.on_copy(ADDRESS, 0, batch(0, base=150), PEERS[0], 0.0) is Taken.TAKEN
    assert machine.on_copy(ADDRESS, 1, batch(1, base=180), PEERS[0], 0.0) is Taken.TAKEN


def test_records_are_copied_in_order_and_only_while_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    machine.answers(copy_request())
    assert copied(machine, 1, 1) == [Taken.UNWANTED]
    assert copied(machine, 0, 0) == [Taken.TAKEN]
    assert copied(machine, 0, 0) == [Taken.UNWANTED]
    monkeypatch.setattr("mesh.protocol.ingest.MAX_COPIED_BYTES", 1)
    assert copied(machine, 1, 1) == [Taken.NOT_NOW]
    machine.settle()
    assert copied(machine, 1, 1) == [Taken.TAKEN], "one that is larger than all that may wait is taken alone"


def test_a_close_while_records_are_copied_cuts_them_at_the_agreed_end() -> None:
    machine = Machine()
    machine.answers(copy_request())
    copied(machine, 0, 4)
    machine.on_request(request(b"C", sequence=2))
    assert copied(machine, 5, 5) == [Taken.UNWANTED]
    machine.settle()
    assert kept(machine) == (Phase.CLOSED, 2)
    assert machine.take_wants()[ADDRESS] is None


@pytest.mark.parametrize("durable", [False, True])
def test_a_close_at_what_is_here_withdraws_what_a_recovery_wanted_beyond_it(durable: bool) -> None:
    machine = Machine()
    machine.answers(copy_request())
    copied(machine, 0, 2)
    if durable:
        machine.settle()
    machine.take_wants()
    machine.on_request(request(b"C", sequence=2))
    assert machine.take_wants() == {ADDRESS: None}


def test_a_copy_that_is_deleted_meanwhile_says_so() -> None:
    machine = Machine()
    machine.answers(copy_request())
    copied(machine, 0, 2)
    machine.on_request(copy_request(asker="R2"))
    machine.on_request(request(b"X"))
    assert copied(machine, 3, 3) == [Taken.UNWANTED]
    assert (b"y", "R2", AddressStatus(ADDRESS, STATUS_SEALED, -1)) in answered(machine.settle())
    assert machine.known(ADDRESS) is None
    assert machine.answers(copy_request())[0].status == STATUS_SEALED


def test_a_copy_changes_nothing_of_what_was_deleted() -> None:
    machine = Machine()
    written(machine, 2)
    machine.answers(request(b"X"))
    machine.answers(copy_request())
    state = machine.disk.load(ADDRESS)
    assert state is not None
    assert (state.phase, state.announcement, state.head) == (Phase.DELETED, None, -1)
    assert machine.take_wants() == {ADDRESS: None}
    assert copied(machine, 0, 0) == [Taken.UNWANTED]


# gateways' addresses that nobody announced ------------------------------------------------------------------


def gateways_record(number: int, address: str = ADDRESS) -> Record:
    return record(number, batch(number), address)


def test_a_gateways_records_are_not_taken_for_native_ones() -> None:
    machine = Machine()
    machine.on_asked(LIFE + "0" * 16)
    for number in range(3):
        machine.on_record(gateways_record(number), 0.0)
    machine.on_record(record(0, b"native", "9" * 32), 0.0)
    assert machine.settle() == [Ack("9" * 32, "~" + STORE, "orders", 0)]
    assert machine.unannounced == 3
    assert machine.disk.loads == [ADDRESS, "9" * 32], "the disk is asked once"
    assert machine.heads() == {"9" * 32: 0}


def test_an_open_makes_a_gateways_address_known() -> None:
    machine = Machine()
    machine.on_asked(LIFE)
    machine.on_record(gateways_record(0), 0.0)
    assert machine.answers(open_request(segment()))[0].status == STATUS_DONE
    machine.on_record(gateways_record(0), 0.0)
    assert machine.settle() == [Ack(ADDRESS, STORE, "orders", 0)]


def test_a_refused_open_leaves_no_address_that_takes_records() -> None:
    machine = Machine(Disk({"log/0": (9, "another")}))
    assert machine.answers(open_request(segment()))[0].status == STATUS_STALE_EPOCH
    assert machine.heads() == {}


ANNOUNCING = [open_request(segment()), copy_request()]


@pytest.mark.parametrize(
    ("announce", "moment"),
    [
        *((one, moment) for one in ANNOUNCING for moment in ("queued", "writing", "durable", "restarted")),
        (copy_request(), "sealed"),
    ],
)
def test_what_was_taken_for_native_before_goes_when_the_address_is_announced(
    moment: str, announce: Request
) -> None:
    """It has no rows, and was acknowledged to nobody; what follows is taken from the beginning."""
    machine = Machine()
    machine.on_head(Head(ADDRESS, "orders", 9), 0.0)
    for number in range(4):
        machine.on_record(gateways_record(number), 0.0)
    under_way = machine.take() if moment == "writing" else None
    if moment in ("durable", "restarted", "sealed"):
        machine.settle()
    if moment == "restarted":
        machine = Machine(machine.disk)
    if moment == "sealed":
        machine.answers(request(b"S"))
    machine.on_request(announce)
    state = machine.known(ADDRESS)
    assert state is not None
    assert (state.head, state.accepted) == (-1, -1), "nothing without rows is served any more"
    effects = machine.done(under_way) if under_way else []
    for number in range(2):
        if announce.id == b"O":
            machine.on_record(gateways_record(number), 0.0)
        else:
            assert machine.on_copy(ADDRESS, number, batch(number), PEERS[0], 0.0) is Taken.TAKEN
    effects += machine.settle()
    acks = [effect for effect in effects if isinstance(effect, Ack)]
    assert all(ack.store == "" for ack in acks[:-1]), "no copy without rows counts"
    if announce.id == b"O":
        assert acks[-1] == Ack(ADDRESS, STORE, "orders", 1)
    assert machine.disk.heads[ADDRESS][0] == 1
    assert machine.disk.rows[ADDRESS, 1][0] == machine.disk.heads[ADDRESS][1] != b""
