"""What a store takes from natives and from other stores, beyond what their roles allow at all."""

from __future__ import annotations

from typing import Any

import pytest

from mesh.keys.certificate import Certificate
from mesh.keys.roles import Role
from mesh.protocol.address_state import Phase
from mesh.store.senders import Senders
from tests.unit.mesh.protocol.test_copy import copy_request
from tests.unit.mesh.protocol.test_ingest import (
    ADDRESS,
    LIFE,
    Machine,
    announcement,
    batch,
    open_request,
    opened,
    record,
    request,
)
from tests.unit.mesh.protocol.test_ingest import STORE as INCARNATION
from wireproto.dafka.errors import MalformedMessage
from wireproto.dafka.messages import DirectRecord, Head, Record

PRODUCER = Certificate("sensors", Role.PRODUCER, "p" * 40, ("*",))
STORE = Certificate("store-2", Role.STORE, "s" * 40)
GATEWAY = Certificate("gateway-1", Role.GATEWAY, "g" * 40)
READER = Certificate("screen", Role.READER, "r" * 40)
NATIVE = "B" * 32
OTHER = "C" * 32

WRITES: list[Any] = [
    Record(ADDRESS, "orders", 3, b"forged"),
    Head(ADDRESS, "orders", 99),
    DirectRecord("5" * 32, "", ADDRESS, "orders", 3, b"forged"),
]


def written() -> Machine:
    """With three records under an address that a gateway has announced."""
    machine = opened()
    for sequence in range(3):
        machine.on_record(record(sequence), 0.0)
    machine.settle()
    return machine


def started_again(machine: Machine) -> Machine:
    """On the same disk, with nothing in memory."""
    return Machine(machine.disk, "cluster")


def senders(machine: Machine) -> Senders:
    return Senders(machine, machine.disk)


@pytest.mark.parametrize("is_new", [False, True])
@pytest.mark.parametrize("message", WRITES)
def test_a_producer_writes_under_no_address_of_a_gateway(message: Any, is_new: bool) -> None:
    machine = started_again(written()) if is_new else written()
    assert not senders(machine).admits(PRODUCER, message)
    assert senders(machine).admits(PRODUCER, message._replace(address=NATIVE))
    assert senders(machine).admits(GATEWAY, message)


def test_a_producer_goes_on_under_an_address_of_its_own() -> None:
    machine = written()
    machine.on_record(Record(NATIVE, "heat", 0, b"warm"), 0.0)
    machine.settle()
    assert senders(machine).admits(PRODUCER, Record(NATIVE, "heat", 1, b"warmer"))


@pytest.mark.parametrize("sources", [(), (NATIVE,)])
def test_a_store_does_not_say_from_whom_to_copy(sources: tuple[str, ...]) -> None:
    """Who says so would give it what he likes."""
    machine = written()
    copy = copy_request(sources=sources)
    assert senders(machine).admits(STORE, copy) is (sources == ())
    assert senders(machine).admits(GATEWAY, copy)
    both = copy._replace(entries=(*copy_request().entries, *copy.entries))
    assert senders(machine).admits(STORE, both) is (sources == ())


def test_what_cannot_be_read_counts_for_nothing() -> None:
    machine = started_again(written())
    machine.disk.bad.add(ADDRESS)
    assert not senders(machine).admits(PRODUCER, WRITES[0])
    with pytest.raises(MalformedMessage):
        senders(machine).admits(STORE, copy_request()._replace(entries=(b"junk",)))


def test_everything_else_is_a_matter_of_roles() -> None:
    machine = written()
    for sender in (STORE, GATEWAY, READER):
        assert senders(machine).admits(sender, open_request())
        assert senders(machine).admits(sender, request(b"C", ADDRESS, 0))


# what a store sends as if a writer sent it again ----------------------------------------------------------


def in_phase(phase: Phase, address: str) -> Machine:
    """With an address that has got so far, as a gateway's does beyond NATIVE."""
    machine = opened()
    if phase > Phase.NATIVE:
        machine.answers(open_request(announcement(address, epoch=4)))
    machine.on_record(record(0, address=address), 0.0)
    machine.settle()
    for message_id, reached in ((b"S", Phase.SEALED), (b"C", Phase.CLOSED), (b"X", Phase.DELETED)):
        if reached <= phase:
            machine.answers(request(message_id, address, 0))
    state = machine.disk.load(address)
    assert state is not None
    assert state.phase is phase
    return machine


def sent_again(requester: str, address: str = OTHER) -> DirectRecord:
    return DirectRecord(requester, "", address, "orders", 1, batch(1))


@pytest.mark.parametrize("is_new", [False, True])
@pytest.mark.parametrize("phase", Phase)
def test_a_store_is_no_writer_of_a_gateways_segment(phase: Phase, is_new: bool) -> None:
    """It would be acknowledged, and what the gateway publishes then be a repeat. Native records stores do
    send again for each other, and copies are asked for under other ids.
    """
    machine = in_phase(phase, OTHER)
    machine = started_again(machine) if is_new else machine
    assert senders(machine).admits(STORE, sent_again(INCARNATION)) is (phase is Phase.NATIVE)
    assert senders(machine).admits(STORE, sent_again("0" * 32))
    assert senders(machine).admits(GATEWAY, sent_again(INCARNATION))


@pytest.mark.parametrize("sender", [STORE, PRODUCER])
def test_what_a_known_gateway_has_not_announced_yet_is_not_native_either(sender: Certificate) -> None:
    machine = Machine()
    assert senders(machine).admits(sender, sent_again(INCARNATION))
    machine.on_asked(LIFE + "0" * 16)
    assert senders(machine).admits(sender, sent_again(INCARNATION))
    assert not senders(machine).admits(sender, sent_again(INCARNATION, ADDRESS))


def test_a_store_whose_disk_cannot_tell_takes_nothing_from_another_one() -> None:
    machine = started_again(written())
    machine.disk.bad.add(ADDRESS)
    assert not senders(machine).admits(STORE, sent_again(INCARNATION, ADDRESS))
