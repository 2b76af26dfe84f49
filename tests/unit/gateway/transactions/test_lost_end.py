"""What becomes of an id whose coordinator has lost the end of what it knew."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.transactions.lost_end import InData, after_lost_end
from gateway.transactions.metadata import LAST_EPOCH, TransactionMetadata, TransactionState
from gateway.transactions.outcomes import BUSY, DONE, Needs, Outcome, Write
from tests.unit.gateway.transactions.samples import BEGAN, EPOCH, EXHAUSTED, NEXT_PID, NOW, PARTITIONS, known

STATES = TransactionState
ACCEPTED_MS = BEGAN


def decided(metadata: TransactionMetadata, in_data: InData, new_producer_id: int | None = None) -> Outcome:
    return after_lost_end(metadata, in_data, ACCEPTED_MS, NOW, 2, new_producer_id)


@pytest.mark.parametrize("state", sorted(STATES))
@pytest.mark.parametrize("elsewhere", [True, False])
@pytest.mark.parametrize(("highest", "next_epoch"), [(6, 7), (LAST_EPOCH, LAST_EPOCH)])
def test_behind_the_data(state: TransactionState, elsewhere: bool, highest: int, next_epoch: int) -> None:
    metadata = known(state, last_producer_epoch=EPOCH - 1, next_producer_id=NEXT_PID)
    rests = replace(
        metadata,
        state=STATES.EMPTY,
        producer_epoch=next_epoch,
        last_producer_epoch=-1,
        next_producer_id=-1,
        partitions=frozenset(),
        last_update_ms=NOW,
    )
    assert decided(metadata, InData(highest, elsewhere)) == Write(rests, DONE)


@pytest.mark.parametrize("highest", [-1, 4, 5])
def test_not_behind_the_data(highest: int) -> None:
    here, elsewhere = InData(highest), InData(highest, is_open_elsewhere=True)
    for state in (STATES.EMPTY, STATES.COMPLETE_COMMIT, STATES.COMPLETE_ABORT):
        assert decided(known(state), here) == DONE
        fenced = decided(known(state), elsewhere)
        assert isinstance(fenced, Write)
        assert fenced.metadata is not None
        assert (fenced.metadata.state, fenced.metadata.producer_epoch) == (STATES.EMPTY, 6)
    for state in (STATES.PREPARE_COMMIT, STATES.PREPARE_ABORT):
        assert decided(known(state), here) == DONE
        assert decided(known(state), elsewhere) == BUSY


@pytest.mark.parametrize(
    ("start_ms", "elsewhere", "aborted"),
    [(BEGAN, False, True), (BEGAN, True, True), (BEGAN + 1, False, False), (BEGAN + 1, True, True)],
)
def test_an_open_one(start_ms: int, elsewhere: bool, aborted: bool) -> None:
    outcome = decided(known(STATES.ONGOING, start_ms=start_ms), InData(5, elsewhere))
    if not aborted:
        assert outcome == DONE
        return
    assert isinstance(outcome, Write)
    assert outcome.metadata is not None
    assert (outcome.metadata.state, outcome.metadata.producer_epoch) == (STATES.PREPARE_ABORT, 6)
    assert outcome.metadata.partitions == PARTITIONS


def test_an_open_one_of_the_last_epoch_needs_a_producer_id() -> None:
    metadata = known(STATES.ONGOING, EXHAUSTED)
    assert decided(metadata, InData()) is Needs.PRODUCER_ID
    outcome = decided(metadata, InData(), 9)
    assert isinstance(outcome, Write)
    assert outcome.metadata is not None
    assert (outcome.metadata.producer_epoch, outcome.metadata.next_producer_id) == (LAST_EPOCH, 9)


def test_what_partitions_have_together() -> None:
    assert InData(3, True).with_other(InData(5)) == InData(5, True)
    assert InData(5).with_other(InData(3)) == InData(5)
    assert InData().with_other(InData(0, True)) == InData(0, True)
