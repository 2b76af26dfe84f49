"""What a store does for a gateway that is not the newest one any more, or has an older catalog: nothing.

An OPEN of a higher epoch seals what other lives have open; SEAL is compared with the address's epoch; DELETE
with what was told of the address last.
"""

import pytest

from mesh.protocol.address_state import AddressState, Phase, Told
from mesh.protocol.segments import MAX_EPOCH_STEP
from tests.unit.mesh.protocol.test_ingest import (
    ADDRESS,
    LIFE,
    STORE,
    Disk,
    Machine,
    announcement,
    open_request,
    record,
)
from wireproto.dafka.additions import (
    KEEP_LAST_PIECE,
    NO_EPOCH,
    STATUS_DONE,
    STATUS_EPOCH_TOO_HIGH,
    STATUS_NOT_HERE,
    STATUS_OTHER_HISTORY,
    STATUS_STALE_EPOCH,
    AddressStatus,
    Announcement,
    CloseEntry,
    Copy,
    DeleteEntry,
    Keep,
    OpenEntry,
    Remembered,
    Request,
    SealedHead,
    SealEntry,
)

OTHER = "B" * 32
"""An address of another life than `ADDRESS` is of."""
THIRD = "C" * 32


def opens(machine: Machine, segment: Announcement, at: Remembered | None = None) -> tuple[SealedHead, ...]:
    """Have a segment announced; what the answer names."""
    entry = OpenEntry(segment) if at is None else OpenEntry(segment, at)
    (status,) = machine.answers(Request(b"O", STORE, "R1", (entry.pack(),)))
    assert status.status == STATUS_DONE
    return SealedHead.unpack_all(status.row)


def phase(machine: Machine, address: str) -> Phase:
    """As the disk has it."""
    state = machine.disk.load(address)
    assert state is not None
    return state.phase


# OPEN -----------------------------------------------------------------------------------------------------


def test_an_open_of_a_higher_epoch_seals_what_another_life_has_open_and_names_it() -> None:
    machine = Machine()
    assert opens(machine, announcement(epoch=3)) == ()
    machine.on_record(record(0), 0.0)
    assert opens(machine, announcement(OTHER, epoch=4)) == (SealedHead(ADDRESS, 0),)
    assert phase(machine, ADDRESS) is Phase.SEALED
    machine.on_record(record(1), 0.0)
    assert machine.settle() == [], "the deposed writer writes no more"
    assert machine.known(ADDRESS).head == 0  # type: ignore[union-attr]


def test_both_are_in_one_commit() -> None:
    machine = Machine()
    opens(machine, announcement(epoch=3))
    machine.on_request(open_request(announcement(OTHER, epoch=4)))
    assert machine.take().metas.keys() == {ADDRESS, OTHER}


def test_what_was_open_before_a_start_is_sealed_too() -> None:
    before = Machine()
    opens(before, announcement(epoch=3))
    machine = Machine(before.disk)
    assert opens(machine, announcement(OTHER, epoch=4)) == (SealedHead(ADDRESS, -1),)
    assert phase(machine, ADDRESS) is Phase.SEALED


def test_two_announcements_in_one_request_see_each_other() -> None:
    machine = Machine()
    request = open_request(announcement(epoch=3), announcement(OTHER, epoch=4))
    first, second = machine.answers(request)
    assert (first.row, SealedHead.unpack_all(second.row)) == (b"", (SealedHead(ADDRESS, -1),))


def test_it_is_named_again_until_its_end_is_told() -> None:
    machine = Machine()
    opens(machine, announcement(epoch=3))
    for _ in range(2):
        assert opens(machine, announcement(OTHER, epoch=4)) == (SealedHead(ADDRESS, -1),)
    assert opens(Machine(machine.disk), announcement(THIRD, epoch=5)) == (
        SealedHead(ADDRESS, -1),
        SealedHead(OTHER, -1),
    )
    for address in (ADDRESS, OTHER):
        machine.answers(Request(b"C", STORE, "R1", (CloseEntry(address, -1).pack(),)))
    assert opens(Machine(machine.disk), announcement("D" * 32, epoch=6)) == (SealedHead(THIRD, -1),)


def test_the_same_lifes_is_never_sealed() -> None:
    """A compaction writes at a raised epoch while the log goes on."""
    machine = Machine()
    opens(machine, announcement(epoch=3))
    assert opens(machine, announcement(LIFE + "B" * 16, epoch=4)) == ()
    assert phase(machine, ADDRESS) is Phase.OPEN


def test_another_logs_is_left_alone() -> None:
    machine = Machine()
    opens(machine, announcement(epoch=3))
    assert opens(machine, announcement(OTHER, epoch=4)._replace(log="log/1")) == ()
    assert phase(machine, ADDRESS) is Phase.OPEN


def test_what_is_left_of_the_store_that_this_one_was_is_sealed_and_not_named() -> None:
    """`dafka store restored`: the catalog has forgotten what only the store before counted for."""
    before = Machine()
    opens(before, announcement(epoch=3)._replace(members=("6" * 32, STORE)))
    state = before.known(ADDRESS)
    assert state is not None
    assert state.announcement is not None
    state.announcement = state.announcement._replace(members=("6" * 32, "7" * 32))
    assert opens(before, announcement(OTHER, epoch=4)) == ()
    assert phase(before, ADDRESS) is Phase.SEALED
    assert opens(before, announcement(OTHER, epoch=4)) == (), "nor is it when that is repeated"


def test_a_refused_open_seals_nothing() -> None:
    machine = Machine()
    opens(machine, announcement(epoch=3))
    (status,) = machine.answers(open_request(announcement(OTHER, epoch=2)))
    assert (status.status, status.row) == (STATUS_STALE_EPOCH, b"")
    assert phase(machine, ADDRESS) is Phase.OPEN


def test_one_that_cannot_be_read_stops_no_other() -> None:
    before = Machine()
    opens(before, announcement(epoch=3))
    before.disk.bad = {ADDRESS}
    machine = Machine(before.disk)
    assert opens(machine, announcement(OTHER, epoch=4)) == ()
    assert machine.unreadable == 1


# SEAL -----------------------------------------------------------------------------------------------------


def seal(machine: Machine, epoch: int) -> AddressStatus:
    return machine.answers(Request(b"S", STORE, "R1", (SealEntry(ADDRESS, epoch).pack(),)))[0]


@pytest.mark.parametrize(
    ("epoch", "status"), [(2, STATUS_STALE_EPOCH), (3, STATUS_STALE_EPOCH), (4, STATUS_DONE)]
)
def test_a_seal_is_of_a_higher_epoch_than_the_address(epoch: int, status: int) -> None:
    machine = Machine()
    opens(machine, announcement(epoch=3))
    assert seal(machine, epoch) == AddressStatus(ADDRESS, status, -1)
    assert phase(machine, ADDRESS) is (Phase.SEALED if status == STATUS_DONE else Phase.OPEN)


def test_an_address_that_was_not_announced_is_sealed_whatever_the_epoch() -> None:
    machine = Machine()
    assert seal(machine, 0).status == STATUS_NOT_HERE
    assert phase(machine, ADDRESS) is Phase.SEALED


# DELETE ---------------------------------------------------------------------------------------------------


def at(sequence: int, lineage: str = "H1", life: str = "G1") -> Remembered:
    return Remembered(lineage, life, sequence)


def delete(machine: Machine, place: Remembered, log: str = "log/0", epoch: int = 3) -> int:
    entry = DeleteEntry(ADDRESS, log, epoch, place)
    return machine.answers(Request(b"X", STORE, "R1", (entry.pack(),)))[0].status


def remember(machine: Machine, lineage: str, parent: str = "") -> None:
    machine.on_keep(Keep(STORE, "R2", "cluster", KEEP_LAST_PIECE, at(1000, lineage), parent))
    machine.settle()


@pytest.mark.parametrize(
    ("sequence", "status"), [(9, STATUS_OTHER_HISTORY), (10, STATUS_DONE), (11, STATUS_DONE)]
)
@pytest.mark.parametrize("message", ["OPEN", "CLOSE", "COPY"])
@pytest.mark.parametrize("starts_again", [False, True])
def test_a_delete_is_not_older_than_what_was_told_of_the_address(
    message: str, sequence: int, status: int, starts_again: bool
) -> None:
    machine = Machine()
    remember(machine, "H1")  # its own sequence is far higher, and says nothing of this address
    if message == "COPY":
        copy = Copy(announcement(), -1, (), at(10))
        machine.answers(Request(b"Y", STORE, "R1", (copy.pack(),)))
    else:
        opens(machine, announcement(), at(10 if message == "OPEN" else 7))
    if message == "CLOSE":
        machine.answers(Request(b"C", STORE, "R1", (CloseEntry(ADDRESS, -1, at(10)).pack(),)))
    if starts_again:
        machine = Machine(machine.disk)
    assert delete(machine, at(sequence)) == status
    assert phase(machine, ADDRESS) is Phase.DELETED or status != STATUS_DONE


def test_what_is_told_again_later_counts() -> None:
    machine = Machine()
    opens(machine, announcement(), at(7))
    for sequence in (9, 12, 10):
        machine.answers(Request(b"C", STORE, "R1", (CloseEntry(ADDRESS, -1, at(sequence)).pack(),)))
    assert delete(machine, at(11)) == STATUS_OTHER_HISTORY
    assert delete(machine, at(12)) == STATUS_DONE


@pytest.mark.parametrize(
    ("remembered", "told", "place", "status"),
    [
        ("", "", at(1), STATUS_DONE),
        ("", "H1", at(20), STATUS_DONE),
        ("", "H1", at(1, "H2"), STATUS_DONE),
        ("H1", "", at(1), STATUS_DONE),
        ("H2", "H1", at(1, "H2"), STATUS_DONE),
        ("H2", "H1", at(20), STATUS_OTHER_HISTORY),
        ("H1", "H1", at(20, "H2"), STATUS_OTHER_HISTORY),
        ("H1", "H1", Remembered(), STATUS_OTHER_HISTORY),
    ],
)
def test_a_delete_is_of_the_catalog_that_the_store_remembers(
    remembered: str, told: str, place: Remembered, status: int
) -> None:
    machine = Machine()
    if remembered:
        remember(machine, remembered)
    opens(machine, announcement(), at(10, told) if told else Remembered())
    assert delete(machine, place) == status


@pytest.mark.parametrize(
    ("log", "epoch", "status"),
    [
        ("log/0", 3, STATUS_DONE),
        ("log/0", 4, STATUS_DONE),
        ("log/0", 2, STATUS_STALE_EPOCH),
        ("log/1", 3, STATUS_STALE_EPOCH),
        ("", NO_EPOCH, STATUS_DONE),
    ],
)
def test_a_delete_is_of_the_segment_that_was_announced(log: str, epoch: int, status: int) -> None:
    machine = Machine()
    opens(machine, announcement(epoch=3))
    assert delete(machine, at(10), log, epoch) == status
    assert delete(Machine(), at(10), log, epoch) == STATUS_DONE, "of one that is not known it says nothing"


def test_what_is_deleted_stays_so_whoever_asks() -> None:
    machine = Machine()
    opens(machine, announcement(), at(10))
    assert delete(machine, at(10)) == STATUS_DONE
    assert delete(machine, at(1)) == STATUS_DONE


# the disk -------------------------------------------------------------------------------------------------


def test_a_meta_keeps_what_was_told_and_one_of_an_older_version_has_nothing_of_it() -> None:
    state = AddressState(ADDRESS)
    state.announcement, state.phase = announcement(), Phase.OPEN
    older = b"\x01" + state.pack_meta()[1:]
    state.told = Told("H1", 10)
    head = (-1, b"", -1, "")
    assert AddressState.unpack(ADDRESS, state.pack_meta(), head).told == Told("H1", 10)
    read = AddressState.unpack(ADDRESS, older, head)
    assert (read.told, read.announcement, read.phase) == (Told(), announcement(), Phase.OPEN)


@pytest.mark.parametrize("meta", [b"\x03", b"\x01 longer"])
def test_a_meta_of_another_shape_is_refused(meta: bytes) -> None:
    state = AddressState(ADDRESS)
    state.announcement = announcement()
    packed = state.pack_meta()
    broken = meta[:1] + packed[1:] + meta[1:]
    with pytest.raises(ValueError, match=r"version|left over"):
        AddressState.unpack(ADDRESS, broken, (-1, b"", -1, ""))


def test_a_disk_that_is_bad_refuses_the_open() -> None:
    disk = Disk()
    disk.bad = {"log/0"}
    machine = Machine(disk)
    (status,) = machine.answers(open_request(announcement()))
    assert status.status != STATUS_DONE


# epochs out of all proportion -------------------------------------------------------------------------------


def test_an_open_at_the_end_of_all_epochs_leaves_the_partition_its_own() -> None:
    """It was taken, and no OPEN of that log ever after."""
    machine = Machine()
    opens(machine, announcement(epoch=3))
    for epoch in (2**32 - 1, 4 + MAX_EPOCH_STEP):
        forged = OpenEntry(announcement(OTHER, epoch=epoch)).pack()
        (answer,) = machine.answers(Request(b"O", STORE, "R1", (forged,)))
        assert answer == AddressStatus(OTHER, STATUS_EPOCH_TOO_HIGH, -1)
    assert machine.disk.epochs == {"log/0": (3, LIFE)}
    assert opens(machine, announcement(OTHER, epoch=4)) == (SealedHead(ADDRESS, -1),)


def test_an_open_may_go_as_far_as_any_log_has() -> None:
    """All logs take their epochs from one counter: one that was idle for long leaps."""
    machine = Machine()
    for number, epoch in enumerate((3, 3 + MAX_EPOCH_STEP, 3 + 2 * MAX_EPOCH_STEP)):
        opens(machine, announcement(f"{number:032X}", epoch=epoch)._replace(log=f"log/{number}"))
    opens(machine, announcement("F" * 32, epoch=3 + 3 * MAX_EPOCH_STEP))
    assert machine.disk.epochs["log/0"][0] == 3 + 3 * MAX_EPOCH_STEP


def test_a_store_that_knows_no_log_takes_any_epoch() -> None:
    machine = Machine()
    opens(machine, announcement(epoch=2**31))
    assert machine.disk.epochs == {"log/0": (2**31, LIFE)}


def test_a_copy_at_the_end_of_all_epochs() -> None:
    machine = Machine()
    opens(machine, announcement(epoch=3))
    forged = Copy(announcement(OTHER, epoch=2**32 - 1), 10, ())
    (answer,) = machine.answers(Request(b"Y", STORE, "R1", (forged.pack(),)))
    assert answer == AddressStatus(OTHER, STATUS_EPOCH_TOO_HIGH, -1)
    assert machine.disk.epochs == {"log/0": (3, LIFE)}
