"""EndTxn in both protocols, and the gateway's own aborts. Every cell of Kafka's tables."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gateway.transactions.ending import EndTxn, complete, end, fence
from gateway.transactions.metadata import LAST_EPOCH, TransactionMetadata, TransactionState
from gateway.transactions.outcomes import BUSY, DONE, Answer, Needs
from tests.unit.gateway.transactions.samples import (
    BEGAN,
    EPOCH,
    EXHAUSTED,
    NEXT_PID,
    NOW,
    OTHER_PID,
    PARTITIONS,
    PID,
    PREVIOUS_PID,
    code,
    known,
    said,
    written,
)

Empty, Ongoing = TransactionState.EMPTY, TransactionState.ONGOING
PrepareCommit, PrepareAbort = TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT
CompleteCommit, CompleteAbort = TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT
Make = Callable[[int, int], EndTxn]
STORED = [Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort]


def commit(epoch: int = EPOCH, producer_id: int = PID, version: int = 0) -> EndTxn:
    return EndTxn(producer_id, epoch, is_commit=True, client_version=version)


def abort(epoch: int = EPOCH, producer_id: int = PID, version: int = 0) -> EndTxn:
    return EndTxn(producer_id, epoch, is_commit=False, client_version=version)


# the older protocol -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 2])
def test_an_id_that_is_not_known(version: int) -> None:
    assert said(end(None, commit(version=version), NOW, None)) == (49, -1, -1)


@pytest.mark.parametrize("state", STORED)
@pytest.mark.parametrize("make", [commit, abort])
@pytest.mark.parametrize(
    ("producer_id", "epoch", "error"),
    [(OTHER_PID, EPOCH, 49), (OTHER_PID, 1, 49), (PID, EPOCH - 1, 90), (PID, EPOCH + 1, 90)],
)
def test_older_another_producer_is_refused(
    state: TransactionState, make: Make, producer_id: int, epoch: int, error: int
) -> None:
    outcome = end(known(state), make(epoch, producer_id), NOW, None)
    assert isinstance(outcome, Answer)
    assert code(outcome) == error


@pytest.mark.parametrize(
    ("state", "of_commit", "of_abort"),
    [
        (Empty, 48, 48),
        (PrepareCommit, 51, 51),
        (PrepareAbort, 51, 51),
        (CompleteCommit, 0, 48),
        (CompleteAbort, 48, 0),
    ],
)
def test_older_what_is_answered_without_a_write(
    state: TransactionState, of_commit: int, of_abort: int
) -> None:
    for request, error in ((commit(), of_commit), (abort(), of_abort)):
        outcome = end(known(state), request, NOW, None)
        assert isinstance(outcome, Answer)
        assert code(outcome) == error


@pytest.mark.parametrize(("request_", "state"), [(commit(), PrepareCommit), (abort(), PrepareAbort)])
@pytest.mark.parametrize("epoch", [EPOCH, EXHAUSTED, LAST_EPOCH])
def test_older_a_producer_keeps_its_epoch(request_: EndTxn, state: TransactionState, epoch: int) -> None:
    metadata = known(Ongoing, epoch, last_producer_epoch=3, client_version=2)
    outcome = end(metadata, request_._replace(producer_epoch=epoch), NOW, None)
    assert code(outcome) == 0
    after = written(outcome)
    assert (after.state, after.producer_id, after.producer_epoch) == (state, PID, epoch)
    assert (after.partitions, after.start_ms, after.last_update_ms) == (PARTITIONS, BEGAN, NOW)
    assert (after.last_producer_epoch, after.next_producer_id, after.client_version) == (3, -1, 0)


# the newer protocol -----------------------------------------------------------------------------------------

PREPARES, BUMPS = "prepares", "an abort of nothing"
NEWER = {
    #                 commit,              abort,
    #                 present, once more,  present, once more
    Ongoing: (PREPARES, 90, PREPARES, 90),
    Empty: (48, 90, BUMPS, 90),
    CompleteCommit: (48, 0, BUMPS, 48),
    CompleteAbort: (48, 48, BUMPS, 0),
    PrepareCommit: (51, 51, 51, 51),
    PrepareAbort: (51, 51, 51, 51),
}


@pytest.mark.parametrize("state", STORED)
@pytest.mark.parametrize("column", range(4))
def test_newer_table(state: TransactionState, column: int) -> None:
    expected = NEWER[state][column]
    make = commit if column < 2 else abort
    epoch = EPOCH - 1 if column % 2 else EPOCH
    outcome = end(known(state), make(epoch, version=2), NOW, None)
    if isinstance(expected, int):
        assert isinstance(outcome, Answer)
        assert said(outcome) == ((0, PID, EPOCH) if expected == 0 else (expected, -1, -1))
        return
    assert said(outcome) == (0, PID, EPOCH + 1)
    after = written(outcome)
    assert after.state is (PrepareCommit if column < 2 else PrepareAbort)
    assert (after.producer_epoch, after.last_producer_epoch) == (EPOCH + 1, EPOCH)
    assert (after.client_version, after.last_update_ms, after.next_producer_id) == (2, NOW, -1)
    nothing = (frozenset[object](), NOW)
    assert (after.partitions, after.start_ms) == ((PARTITIONS, BEGAN) if expected == PREPARES else nothing)


@pytest.mark.parametrize("state", STORED)
@pytest.mark.parametrize("make", [commit, abort])
@pytest.mark.parametrize(
    ("producer_id", "epoch", "error"),
    [
        (OTHER_PID, EPOCH, 49),
        (PREVIOUS_PID, EXHAUSTED, 49),  # the present epoch is not the first one
        (PID, EPOCH - 2, 90),
        (PID, EPOCH + 1, 90),
    ],
)
def test_newer_another_producer_is_refused(
    state: TransactionState, make: Make, producer_id: int, epoch: int, error: int
) -> None:
    metadata = known(state, previous_producer_id=PREVIOUS_PID)
    request = make(epoch, producer_id)._replace(client_version=2)
    # Its producer may have been told of the next epoch, or the next producer id, already.
    expected = 51 if metadata.is_prepared else error
    assert said(end(metadata, request, NOW, None)) == (expected, -1, -1)


@pytest.mark.parametrize("epoch", [EXHAUSTED, LAST_EPOCH])
@pytest.mark.parametrize(("request_", "state"), [(commit(), PrepareCommit), (abort(), PrepareAbort)])
def test_newer_exhausted_epochs_go_on_with_another_producer_id(
    epoch: int, request_: EndTxn, state: TransactionState
) -> None:
    request = request_._replace(producer_epoch=epoch, client_version=2)
    assert end(known(Ongoing, epoch), request, NOW, None) is Needs.PRODUCER_ID
    outcome = end(known(Ongoing, epoch), request, NOW, NEXT_PID)
    assert said(outcome) == (0, NEXT_PID, 0)
    prepared = written(outcome)
    assert (prepared.state, prepared.producer_id, prepared.producer_epoch) == (state, PID, LAST_EPOCH)
    assert (prepared.next_producer_id, prepared.last_producer_epoch) == (NEXT_PID, epoch)
    done = complete(prepared, NOW + 1)
    assert (done.producer_id, done.producer_epoch, done.previous_producer_id) == (NEXT_PID, 0, PID)
    assert (done.next_producer_id, done.last_producer_epoch) == (-1, epoch)


@pytest.mark.parametrize(
    ("state", "of_commit", "of_abort"), [(CompleteCommit, 0, 48), (CompleteAbort, 48, 0), (Ongoing, 90, 90)]
)
def test_newer_a_retry_over_the_end_of_the_epochs(
    state: TransactionState, of_commit: int, of_abort: int
) -> None:
    metadata = known(state, 0, producer_id=NEXT_PID, previous_producer_id=PID)
    for make, error in ((commit, of_commit), (abort, of_abort)):
        outcome = end(metadata, make(EXHAUSTED, version=2), NOW, None)
        assert said(outcome) == ((0, NEXT_PID, 0) if error == 0 else (error, -1, -1))
        # Any other epoch of that producer id is none of this one's.
        assert code(end(metadata, make(EXHAUSTED - 1, version=2), NOW, None)) == 49


# the gateway's own ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "epoch", "fenced", "last"),
    [(0, EPOCH, EPOCH + 1, -1), (1, EPOCH, EPOCH + 1, -1), (2, EPOCH, EPOCH + 1, EPOCH),
     (0, EXHAUSTED, LAST_EPOCH, -1), (0, LAST_EPOCH, LAST_EPOCH, -1)],
)  # fmt: skip
def test_a_fence_takes_one_epoch_for_itself_and_the_abort(
    version: int, epoch: int, fenced: int, last: int
) -> None:
    outcome = fence(known(Ongoing, epoch, last_producer_epoch=2), NOW, version, None, BUSY)
    assert code(outcome) == 51
    prepared = written(outcome)
    assert (prepared.state, prepared.producer_epoch) == (PrepareAbort, fenced)
    assert (prepared.last_producer_epoch, prepared.client_version) == (last, version)
    done = complete(prepared, NOW + 1)
    assert (done.state, done.producer_id, done.producer_epoch) == (CompleteAbort, PID, fenced)


@pytest.mark.parametrize("epoch", [EXHAUSTED, LAST_EPOCH])
def test_a_fence_rotates_the_producer_id_too(epoch: int) -> None:
    assert fence(known(Ongoing, epoch), NOW, 2, None) is Needs.PRODUCER_ID
    outcome = fence(known(Ongoing, epoch), NOW, 2, NEXT_PID)
    assert said(outcome) == (0, -1, -1)
    prepared = written(outcome)
    assert (prepared.producer_id, prepared.producer_epoch) == (PID, LAST_EPOCH)
    done = complete(prepared, NOW + 1)
    assert (done.producer_id, done.producer_epoch, done.last_producer_epoch) == (NEXT_PID, 0, epoch)


@pytest.mark.parametrize(("state", "done"), [(PrepareCommit, CompleteCommit), (PrepareAbort, CompleteAbort)])
def test_completion_keeps_everything_but_the_partitions(
    state: TransactionState, done: TransactionState
) -> None:
    before = known(state, last_producer_epoch=3, previous_producer_id=PREVIOUS_PID, client_version=2)
    assert complete(before, NOW) == known(
        done, last_producer_epoch=3, previous_producer_id=PREVIOUS_PID, client_version=2, last_update_ms=NOW
    )


def test_a_timeout_is_answered_to_nobody() -> None:
    outcome = fence(known(Ongoing), NOW, 0, None)
    assert (said(outcome), isinstance(written(outcome), TransactionMetadata)) == ((0, -1, -1), True)
    assert DONE.error == 0
