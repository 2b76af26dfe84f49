"""What becomes of an id whose coordinator has lost the end of what it knew."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.transactions.ending import EndTxn, complete, end
from gateway.transactions.initialising import InitProducerId, initialise
from gateway.transactions.lost_end import after_lost_end, fenced_for_good, needs_producer_id
from gateway.transactions.metadata import LAST_EPOCH, TransactionMetadata, TransactionState
from gateway.transactions.outcomes import FENCED, OTHER_PRODUCER, Needs
from tests.unit.gateway.transactions.samples import EPOCH, EXHAUSTED, NEXT_PID, NOW, PARTITIONS, PID, known
from wireproto.kafka.errors import ErrorCode

STATES = TransactionState
AT_REST = (STATES.EMPTY, STATES.COMPLETE_COMMIT, STATES.COMPLETE_ABORT)
ABORTED = (STATES.ONGOING, STATES.PREPARE_ABORT)


def decided(metadata: TransactionMetadata, *, is_over: bool = False) -> TransactionMetadata:
    return after_lost_end(metadata, NOW, is_over=is_over, new_producer_id=NEXT_PID)


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("state", AT_REST)
def test_at_rest(state: TransactionState, version: int) -> None:
    metadata = known(state, last_producer_epoch=EPOCH - 1, client_version=version)
    rests = decided(metadata)
    assert rests == replace(
        metadata,
        state=STATES.EMPTY,
        producer_epoch=LAST_EPOCH,
        last_producer_epoch=-1,
        last_update_ms=NOW,
    )
    nobody_goes_on(rests, version)
    assert initialise(rests, InitProducerId(1000), NOW, version, None) is Needs.PRODUCER_ID


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("state", ABORTED)
def test_what_is_open_is_aborted(state: TransactionState, version: int) -> None:
    aborted = decided(known(state, client_version=version))
    assert (aborted.state, aborted.producer_epoch) == (STATES.PREPARE_ABORT, LAST_EPOCH)
    assert (aborted.partitions, aborted.last_update_ms) == (PARTITIONS, NOW)
    nobody_goes_on(complete(aborted, NOW), version)


@pytest.mark.parametrize("version", [0, 2])
def test_what_is_decided_is_carried_out(version: int) -> None:
    metadata = known(STATES.PREPARE_COMMIT, client_version=version)
    assert needs_producer_id(metadata)
    committed = decided(metadata)
    assert committed == replace(metadata, next_producer_id=NEXT_PID, last_update_ms=NOW)
    assert (committed.is_after_loss, needs_producer_id(committed)) == (True, False)
    assert decided(committed) is committed
    ended = complete(committed, NOW)
    assert (ended.producer_id, ended.state) == (NEXT_PID, STATES.COMPLETE_COMMIT)
    nobody_goes_on(ended, version)


@pytest.mark.parametrize("state", [STATES.PREPARE_COMMIT, *ABORTED])
def test_what_is_over_is_at_rest(state: TransactionState) -> None:
    rests = decided(known(state), is_over=True)
    assert (rests.state, rests.producer_epoch, rests.partitions) == (STATES.EMPTY, LAST_EPOCH, frozenset())


@pytest.mark.parametrize("state", [*AT_REST, *ABORTED])
def test_nothing_is_written_twice(state: TransactionState) -> None:
    fenced = decided(known(state))
    assert fenced_for_good(fenced, NOW + 1) is fenced


def test_who_was_told_of_the_next_producer_id_does_not_go_on_either() -> None:
    metadata = known(STATES.PREPARE_COMMIT, LAST_EPOCH, next_producer_id=NEXT_PID + 5, client_version=2)
    assert not metadata.is_after_loss
    assert complete(decided(metadata), NOW).producer_id == NEXT_PID


def test_nobody_is_told_once_more_of_the_end_of_a_last_epoch() -> None:
    ended = complete(decided(known(STATES.PREPARE_COMMIT, EXHAUSTED, client_version=2)), NOW)
    assert end(ended, EndTxn(PID, EXHAUSTED, True, 2), NOW, None) == OTHER_PRODUCER


def nobody_goes_on(rests: TransactionMetadata, version: int) -> None:
    """Of the producers that may have been there, of this epoch or of later ones that were lost."""
    for epoch in (EPOCH - 1, EPOCH, EPOCH + 1, EPOCH + 7):
        for is_commit in (True, False):
            said = end(rests, EndTxn(PID, epoch, is_commit, version), NOW, None)
            assert getattr(said, "error", ErrorCode.NONE) is not ErrorCode.NONE
        named = InitProducerId(1000, producer_id=PID, producer_epoch=epoch)
        assert initialise(rests, named, NOW, version, NEXT_PID + 1) == FENCED
