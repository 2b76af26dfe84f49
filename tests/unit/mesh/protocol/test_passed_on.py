"""Ends that another store passes on: when a store takes them, and that a gateway's word takes their place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import pytest

from mesh.protocol.address_state import NO_END, Phase
from mesh.protocol.ingest import Ingest
from tests.unit.mesh.protocol.test_copy import END, EPOCH, batch, copied, copy_request, segment, written
from tests.unit.mesh.protocol.test_ingest import ADDRESS, LIFE, Machine, open_request, record, request
from wireproto.dafka.additions import (
    STATUS_DONE,
    STATUS_INCOMPLETE,
    STATUS_NOT_HERE,
    STATUS_OPEN,
    STATUS_OTHER_END,
    STATUS_SEALED,
    STATUS_STORAGE_ERROR,
    Answer,
    Request,
)


def passed_on(machine: Machine, asked: Request) -> tuple[int, int]:
    """What another store is answered: status and head."""
    machine.on_request(asked, passed_on=True)
    (answer,) = [effect for effect in machine.settle() if isinstance(effect, Answer)]
    (status,) = answer.statuses
    return status.status, status.sequence


def told(machine: Machine, asked: Request) -> tuple[int, int]:
    """What a gateway is answered."""
    (status,) = machine.answers(asked)
    return status.status, status.sequence


def close(end: int) -> Request:
    return request(b"C", sequence=end)


def started_again(machine: Machine) -> Machine:
    """On the same disk, with nothing in memory."""
    return Machine(machine.disk, "cluster")


def is_kept(machine: Machine, phase: Phase, head: int, end: int) -> None:
    """In memory and on the disk."""
    for state in (machine.known(ADDRESS), machine.disk.load(ADDRESS)):
        assert state is not None
        assert (state.phase, state.head, state.end) == (phase, head, end)


def sealed(count: int) -> Machine:
    """With so many records of a segment that a recovery has sealed."""
    machine = Machine(cluster_id="cluster")
    written(machine, count)
    machine.answers(request(b"S"))
    return machine


# what is taken --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [1, 2, 3])
def test_a_segment_that_is_open_stays_open(end: int) -> None:
    machine = Machine(cluster_id="cluster")
    written(machine, 3)
    assert passed_on(machine, close(end)) == (STATUS_OPEN, 2)
    machine.on_record(record(3, batch(3)), 0.0)
    machine.settle()
    assert told(machine, close(3)) == (STATUS_DONE, 3)
    is_kept(machine, Phase.CLOSED, 3, 3)


def test_what_nobody_announced_here_has_no_end() -> None:
    machine = Machine(cluster_id="cluster")
    assert passed_on(machine, close(END)) == (STATUS_NOT_HERE, -1)
    assert machine.known(ADDRESS) is None
    machine.answers(request(b"S"))
    assert passed_on(machine, close(END)) == (STATUS_NOT_HERE, -1)
    assert told(machine, copy_request()) == (STATUS_INCOMPLETE, -1)


@pytest.mark.parametrize("is_new", [False, True])
@pytest.mark.parametrize("end", [-1, 0, 1])
def test_nothing_is_cut(end: int, is_new: bool) -> None:
    machine = sealed(3)
    machine = started_again(machine) if is_new else machine
    assert passed_on(machine, close(end)) == (STATUS_OTHER_END, 2)
    assert told(machine, close(2)) == (STATUS_DONE, 2)


def test_what_waits_for_the_disk_is_not_cut_either() -> None:
    machine = Machine(cluster_id="cluster")
    written(machine, 3)
    machine.on_record(record(3, batch(3)), 0.0)
    machine.on_request(request(b"S"))
    machine.on_request(close(2)._replace(requester="R2"), passed_on=True)
    answers = {e.requester: e.statuses[0] for e in machine.settle() if isinstance(e, Answer)}
    assert answers["R2"].status == STATUS_OTHER_END
    assert answers["R1"].sequence == 3


def test_what_is_deleted_needs_no_end() -> None:
    machine = sealed(3)
    machine.answers(request(b"X"))
    assert passed_on(machine, close(7)) == (STATUS_DONE, -1)


def test_a_disk_that_cannot_be_read_takes_nothing() -> None:
    machine = started_again(sealed(3))
    machine.disk.bad.add(ADDRESS)
    assert passed_on(machine, close(2))[0] == STATUS_STORAGE_ERROR
    machine.disk.bad.clear()
    assert told(machine, close(1)) == (STATUS_DONE, 1)


# a store that has lost its copy ---------------------------------------------------------------------------


COPY, CLOSE = "copy", "close"


def lost(_machine: Machine) -> None:
    """It knows nothing of it."""


def lost_and_sealed(machine: Machine) -> None:
    machine.answers(request(b"S"))


def lost_and_closed(machine: Machine) -> None:
    machine.answers(close(END))


def put_back(machine: Machine) -> None:
    """From before the end, and sealed since."""
    written(machine, 2)
    machine.answers(request(b"S"))


@pytest.mark.parametrize(
    ("before", "needed"),
    [
        (lost, (COPY, CLOSE)),
        (lost_and_sealed, (COPY, CLOSE)),
        (lost_and_closed, (COPY,)),
        (put_back, (CLOSE,)),
    ],
)
@pytest.mark.parametrize("is_new", [False, True])
def test_it_is_refilled_in_every_order_and_again(
    before: Callable[[Machine], None], needed: Sequence[str], is_new: bool
) -> None:
    """Every sequence of four messages in which those that are needed follow each other."""
    for messages in product((COPY, CLOSE), repeat=4):
        left = iter(messages)
        if not all(message in left for message in needed):
            continue
        machine = Machine(cluster_id="cluster")
        before(machine)
        for message in messages:
            passed_on(machine, copy_request() if message == COPY else close(END))
            machine = started_again(machine) if is_new else machine
        state = machine.disk.load(ADDRESS)
        assert state is not None
        machine.resume(ADDRESS)
        assert {want.last for want in machine.take_wants().values() if want} == {END}
        copied(machine, state.head + 1, END)
        machine.settle()
        is_kept(machine, Phase.CLOSED, END, END)
        assert passed_on(machine, close(END)) == (STATUS_DONE, END)
        assert told(started_again(machine), close(END)) == (STATUS_DONE, END)


# a gateway's word -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_new", [False, True])
@pytest.mark.parametrize("false_end", [2, 3, 4, 6, 90])
def test_a_gateways_end_takes_the_place_of_one_that_was_passed_on(false_end: int, is_new: bool) -> None:
    machine = sealed(3)
    status = STATUS_DONE if false_end == 2 else STATUS_INCOMPLETE
    assert passed_on(machine, close(false_end)) == (status, 2)
    is_kept(machine, Phase.CLOSED, 2, false_end)
    machine = started_again(machine) if is_new else machine
    assert told(machine, close(END)) == (STATUS_INCOMPLETE, 2)
    assert machine.disk.load(ADDRESS) is not None
    assert {address: want.last for address, want in machine.take_wants().items() if want} == {ADDRESS: END}
    copied(machine, 3, END)
    machine.settle()
    is_kept(machine, Phase.CLOSED, END, END)
    assert told(machine, close(END)) == (STATUS_DONE, END)


@pytest.mark.parametrize("is_new", [False, True])
def test_a_gateways_end_cuts_what_lies_behind_it(is_new: bool) -> None:
    machine = sealed(4)
    passed_on(machine, close(3))
    machine = started_again(machine) if is_new else machine
    assert told(machine, close(1)) == (STATUS_DONE, 1)
    is_kept(machine, Phase.CLOSED, 1, 1)


@pytest.mark.parametrize("is_new", [False, True])
@pytest.mark.parametrize("first_passed_on", [False, True])
@pytest.mark.parametrize("other", [1, 3])
def test_what_a_gateway_has_told_stays(other: int, first_passed_on: bool, is_new: bool) -> None:
    machine = sealed(3)
    if first_passed_on:
        passed_on(machine, close(2))
    assert told(machine, close(2)) == (STATUS_DONE, 2)
    machine = started_again(machine) if is_new else machine
    assert passed_on(machine, close(other)) == (STATUS_OTHER_END, 2)
    assert told(machine, close(other)) == (STATUS_OTHER_END, 2)
    is_kept(machine, Phase.CLOSED, 2, 2)
    assert told(machine, close(2)) == (STATUS_DONE, 2)


def test_the_first_end_that_was_passed_on_stays_until_then() -> None:
    machine = sealed(3)
    passed_on(machine, close(2))
    assert passed_on(machine, close(4)) == (STATUS_OTHER_END, 2)
    assert passed_on(machine, copy_request(4)) == (STATUS_SEALED, 2)
    is_kept(machine, Phase.CLOSED, 2, 2)


@pytest.mark.parametrize("is_new", [False, True])
def test_a_gateway_has_copied_what_lies_behind_one(is_new: bool) -> None:
    """A store that takes another one's place has to have all before the catalog says so, and CLOSE comes."""
    machine = sealed(3)
    passed_on(machine, close(2))
    machine = started_again(machine) if is_new else machine
    assert told(machine, copy_request()) == (STATUS_INCOMPLETE, 2)
    machine = started_again(machine) if is_new else machine
    assert told(machine, copy_request()) == (STATUS_INCOMPLETE, 2)
    copied(machine, 3, END)
    machine.settle()
    assert told(machine, copy_request()) == (STATUS_DONE, END)
    assert told(machine, close(END - 1)) == (STATUS_DONE, END - 1)


def test_a_deletion_forgets_that_it_was_passed_on() -> None:
    machine = sealed(3)
    passed_on(machine, close(2))
    machine.answers(request(b"X"))
    state = started_again(machine).disk.load(ADDRESS)
    assert state is not None
    assert state.phase is Phase.DELETED
    assert told(started_again(machine), open_request(segment())) == (STATUS_SEALED, -1)


# an announcement that is passed on -------------------------------------------------------------------------


@pytest.mark.parametrize("is_new", [False, True])
@pytest.mark.parametrize("is_sealed", [False, True])
def test_it_wipes_nothing_that_was_here_without_one(is_sealed: bool, is_new: bool) -> None:
    machine = Machine(cluster_id="cluster")
    for sequence in range(3):
        machine.on_record(record(sequence, batch(sequence)), 0.0)
    machine.settle()
    if is_sealed:
        machine.answers(request(b"S"))
    machine = started_again(machine) if is_new else machine
    assert passed_on(machine, copy_request()) == (STATUS_NOT_HERE, 2)
    is_kept(machine, Phase.SEALED if is_sealed else Phase.NATIVE, 2, NO_END)
    assert told(machine, copy_request()) == (STATUS_INCOMPLETE, -1)


@pytest.mark.parametrize("is_new", [False, True])
@pytest.mark.parametrize("epoch", [EPOCH, EPOCH + 7])
def test_no_open_is_measured_by_its_epoch(epoch: int, is_new: bool) -> None:
    machine = Machine(cluster_id="cluster")
    false = segment("F" * 32, epoch=epoch)
    assert passed_on(machine, copy_request(of=false)) == (STATUS_INCOMPLETE, -1)
    machine = started_again(machine) if is_new else machine
    assert told(machine, open_request(segment())) == (STATUS_DONE, -1)
    assert told(machine, copy_request(of=segment("E" * 32, epoch=EPOCH - 1))) == (STATUS_INCOMPLETE, -1)
    assert machine.disk.epochs == {"log/0": (EPOCH, LIFE)}


@pytest.mark.parametrize("is_new", [False, True])
def test_it_says_nothing_of_the_cluster(is_new: bool) -> None:
    machine = Machine()
    false = segment("F" * 32)._replace(cluster_id="another")
    assert passed_on(machine, copy_request(of=false)) == (STATUS_INCOMPLETE, -1)
    machine = Machine(machine.disk) if is_new else machine
    assert machine.cluster_id == ""
    assert told(machine, open_request(segment())) == (STATUS_DONE, -1)
    assert machine.cluster_id == "cluster"


def test_a_gateway_that_has_it_copied_as_well_says_all_of_that() -> None:
    machine = Machine()
    passed_on(machine, copy_request())
    assert (machine.cluster_id, machine.disk.epochs) == ("", {})
    assert told(machine, copy_request()) == (STATUS_INCOMPLETE, -1)
    assert (machine.cluster_id, machine.disk.epochs) == ("cluster", {"log/0": (EPOCH, LIFE)})


def test_who_passes_on_is_no_gateway() -> None:
    """Addresses that begin as its requester id does stay native ones."""
    machine = Machine(cluster_id="cluster")
    asked = copy_request(asker=LIFE + "0" * 16, of=segment("F" * 32))
    passed_on(machine, asked)
    for sequence in range(2):
        machine.on_record(record(sequence), 0.0)
    machine.settle()
    is_kept(machine, Phase.NATIVE, 1, NO_END)
    machine.on_request(asked)
    machine.on_record(record(2), 0.0)
    machine.settle()
    is_kept(machine, Phase.NATIVE, 1, NO_END)


def test_without_keys_nobody_tells_who_says_it() -> None:
    machine: Ingest = sealed(3)
    machine.on_request(close(1))
    machine.take_commit()
    state = machine.known(ADDRESS)
    assert state is not None
    assert (state.end, state.is_passed_on) == (1, False)
