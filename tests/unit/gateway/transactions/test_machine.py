"""One transactional id: nothing changes before it is durable, and others wait meanwhile."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gateway.transactions.adding import AddPartitions
from gateway.transactions.ending import EndTxn
from gateway.transactions.initialising import InitProducerId
from gateway.transactions.machine import TransactionMachine
from gateway.transactions.metadata import TransactionState
from gateway.transactions.outcomes import BUSY, DONE, Needs, Outcome, Write
from tests.unit.gateway.transactions.samples import (
    EPOCH,
    EXHAUSTED,
    NEXT_PID,
    NOW,
    PARTITIONS,
    PID,
    TIMEOUT_MS,
    code,
    known,
    written,
)

Ongoing = TransactionState.ONGOING
WEEK_MS = 7 * 24 * 3600 * 1000
LATE = NOW + TIMEOUT_MS

BEGIN = InitProducerId(TIMEOUT_MS)
ADD = AddPartitions(PID, EPOCH, frozenset((("payments", 0),)))
COMMIT = EndTxn(PID, EPOCH, is_commit=True)

Ask = Callable[[TransactionMachine], Outcome | None]
ASKS: list[Ask] = [
    lambda machine: machine.init_producer_id(BEGIN, NOW, NEXT_PID),
    lambda machine: machine.init_producer_id(BEGIN._replace(producer_id=99, producer_epoch=1), NOW, None),
    lambda machine: machine.add_partitions(ADD, NOW),
    lambda machine: machine.add_partitions(ADD._replace(producer_id=99), NOW),
    lambda machine: machine.end(COMMIT, NOW),
    lambda machine: machine.end(COMMIT._replace(client_version=2, producer_epoch=EPOCH - 1), NOW),
]


def begun() -> TransactionMachine:
    """One whose transaction is about to end."""
    machine = TransactionMachine(known(Ongoing))
    assert isinstance(machine.end(COMMIT, NOW), Write)
    return machine


@pytest.mark.parametrize("ask", ASKS)
def test_while_something_is_on_its_way_others_are_to_ask_again(ask: Ask) -> None:
    machine = begun()
    before, pending = machine.metadata, machine.pending
    assert ask(machine) == BUSY
    assert (machine.metadata, machine.pending) == (before, pending)


@pytest.mark.parametrize(
    ("request_", "error"),
    [(COMMIT._replace(producer_epoch=EPOCH - 1), 90), (COMMIT._replace(producer_id=99), 49)],
)
def test_who_keeps_its_epoch_is_judged_by_it_meanwhile(request_: EndTxn, error: int) -> None:
    assert code(begun().end(request_, NOW)) == error


def test_an_id_that_is_being_made_has_no_producer_yet() -> None:
    machine = TransactionMachine()
    machine.init_producer_id(BEGIN, NOW, NEXT_PID)
    assert machine.end(COMMIT, NOW) == BUSY


def test_nothing_happens_by_itself_meanwhile() -> None:
    machine = begun()
    assert machine.time_out(LATE) == DONE
    assert machine.expire(NOW + WEEK_MS, WEEK_MS) == DONE
    assert machine.complete(NOW) is None


def test_verification_does_not_look_at_what_is_on_its_way() -> None:
    machine = begun()
    assert machine.verify_partitions(PID, EPOCH, [("orders", 0), ("payments", 0)]) == {
        ("orders", 0): 0,
        ("payments", 0): 120,
    }


def test_what_is_durable_is_known() -> None:
    machine = begun()
    assert machine.metadata == known(Ongoing)
    pending = machine.pending
    assert pending is not None
    machine.durable()
    assert (machine.metadata, machine.pending) == (pending.metadata, None)


def test_an_append_that_fails_fences_nobody_and_uses_no_epoch() -> None:
    machine = TransactionMachine(known(Ongoing))
    for _ in range(5):  # an outage
        fence = machine.init_producer_id(BEGIN, NOW)
        assert written(fence).producer_epoch == EPOCH + 1
        machine.failed()
        assert machine.metadata == known(Ongoing)
    assert isinstance(machine.add_partitions(ADD, NOW), Write)


def test_a_new_id_that_could_not_be_written_is_new_again() -> None:
    machine = TransactionMachine()
    assert machine.init_producer_id(BEGIN, NOW) is Needs.PRODUCER_ID
    assert machine.pending is None
    assert isinstance(machine.init_producer_id(BEGIN, NOW, NEXT_PID), Write)
    machine.failed()
    assert machine.metadata is None
    assert code(machine.add_partitions(ADD, NOW)) == 49


@pytest.mark.parametrize(("version", "needs"), [(0, False), (2, True)])
def test_a_transaction_that_is_open_for_too_long_is_aborted(version: int, needs: bool) -> None:
    machine = TransactionMachine(known(Ongoing, EXHAUSTED), server_version=lambda: version)
    assert machine.time_out(NOW) == DONE
    assert (machine.time_out(LATE) is Needs.PRODUCER_ID) is needs
    if needs:
        assert machine.time_out(LATE, NEXT_PID) == machine.pending
    machine.durable()
    assert machine.metadata is not None
    assert (machine.metadata.state, machine.metadata.partitions) == (
        TransactionState.PREPARE_ABORT,
        PARTITIONS,
    )
    assert machine.time_out(LATE) == DONE


def test_an_id_that_nobody_uses_is_forgotten() -> None:
    metadata = known(TransactionState.COMPLETE_COMMIT)
    machine = TransactionMachine(metadata)
    assert machine.expire(NOW, WEEK_MS) == DONE
    assert machine.expire(NOW + WEEK_MS, WEEK_MS) == Write(None, DONE)
    assert machine.init_producer_id(BEGIN, NOW) == BUSY
    machine.failed()
    assert machine.metadata == metadata
    machine.expire(NOW + WEEK_MS, WEEK_MS)
    machine.durable()
    assert machine.metadata is None
    assert machine.expire(NOW + WEEK_MS, WEEK_MS) == DONE


@pytest.mark.parametrize("state", [TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT])
def test_a_completion_that_fails_is_tried_again(state: TransactionState) -> None:
    machine = TransactionMachine(known(state))
    for _ in range(3):
        done = machine.complete(NOW)
        assert done is not None
        assert machine.complete(NOW) is None
        machine.failed()
    assert machine.metadata == known(state)
    machine.complete(NOW)
    machine.durable()
    assert machine.metadata is not None
    assert machine.metadata.is_at_rest
    assert machine.complete(NOW) is None
