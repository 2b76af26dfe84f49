"""InitProducerId: who gets an id, with which epoch. Every row of Kafka's rules."""

from __future__ import annotations

import pytest

from gateway.transactions.initialising import InitProducerId, initialise, refusal
from gateway.transactions.metadata import (
    LAST_EPOCH,
    NO_TIME,
    TransactionMetadata,
    TransactionState,
)
from gateway.transactions.outcomes import Needs
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
    TIMEOUT_MS,
    known,
    said,
    written,
)
from wireproto.kafka.errors import ErrorCode

Empty = TransactionState.EMPTY
AT_REST = [TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT]
PREPARED = [TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT]
MAX_TIMEOUT_MS = 900_000
NEW_TIMEOUT_MS = 30_000


def ask(producer_id: int = -1, producer_epoch: int = -1) -> InitProducerId:
    return InitProducerId(NEW_TIMEOUT_MS, producer_id, producer_epoch)


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (InitProducerId(1), ErrorCode.NONE),
        (InitProducerId(MAX_TIMEOUT_MS), ErrorCode.NONE),
        (InitProducerId(MAX_TIMEOUT_MS, PID, EPOCH), ErrorCode.NONE),
        (InitProducerId(MAX_TIMEOUT_MS + 1), ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (InitProducerId(0), ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (InitProducerId(-1), ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (InitProducerId(1, PID, -1), ErrorCode.INVALID_REQUEST),
        (InitProducerId(1, -1, EPOCH), ErrorCode.INVALID_REQUEST),
        (InitProducerId(0, -1, EPOCH), ErrorCode.INVALID_REQUEST),
    ],
)
def test_requests_that_are_wrong_in_themselves(request_: InitProducerId, error: ErrorCode) -> None:
    assert refusal(request_, MAX_TIMEOUT_MS) is error


@pytest.mark.parametrize("request_", [ask(), ask(OTHER_PID, 3)])
def test_a_new_id_gets_a_new_producer_id_whatever_its_producer_had(request_: InitProducerId) -> None:
    assert initialise(None, request_, NOW, 0, None) is Needs.PRODUCER_ID
    outcome = initialise(None, request_, NOW, 0, NEXT_PID)
    assert said(outcome) == (0, NEXT_PID, 0)
    assert written(outcome) == TransactionMetadata(NEXT_PID, 0, NEW_TIMEOUT_MS, Empty, NOW)


@pytest.mark.parametrize("state", PREPARED)
@pytest.mark.parametrize("request_", [ask(), ask(PID, EPOCH), ask(OTHER_PID, 3)])
def test_while_markers_are_written_it_is_to_ask_again(
    state: TransactionState, request_: InitProducerId
) -> None:
    assert said(initialise(known(state), request_, NOW, 0, None)) == (51, -1, -1)


@pytest.mark.parametrize("state", AT_REST)
@pytest.mark.parametrize(
    ("last", "request_", "answer", "epoch_and_last"),
    [
        pytest.param(-1, ask(), (0, PID, EPOCH + 1), (EPOCH + 1, -1), id="another producer"),
        pytest.param(EPOCH - 1, ask(), (0, PID, EPOCH + 1), (EPOCH + 1, -1), id="no last epoch from then on"),
        pytest.param(-1, ask(PID, EPOCH), (0, PID, EPOCH + 1), (EPOCH + 1, EPOCH), id="the next epoch"),
        pytest.param(
            EPOCH - 1, ask(PID, EPOCH - 1), (0, PID, EPOCH), (EPOCH, EPOCH - 1), id="the answer was lost"
        ),
        pytest.param(-1, ask(PID, EPOCH - 1), (90, -1, -1), None, id="another one came in between"),
        pytest.param(EPOCH - 1, ask(PID, EPOCH - 2), (90, -1, -1), None, id="older"),
        pytest.param(EPOCH - 1, ask(PID, EPOCH + 1), (90, -1, -1), None, id="of the future"),
        pytest.param(-1, ask(PID, -2), (90, -1, -1), None, id="no epoch at all"),
        pytest.param(EPOCH - 1, ask(OTHER_PID, EPOCH), (90, -1, -1), None, id="another producer id"),
        pytest.param(
            EPOCH - 1, ask(PREVIOUS_PID, EPOCH), (90, -1, -1), None, id="the previous id, not its last"
        ),
        pytest.param(
            -1, ask(PREVIOUS_PID, EXHAUSTED), (90, -1, -1), None, id="the previous one, and another came"
        ),
    ],
)  # fmt: skip
def test_epochs(
    state: TransactionState,
    last: int,
    request_: InitProducerId,
    answer: tuple[int, int, int],
    epoch_and_last: tuple[int, int] | None,
) -> None:
    metadata = known(state, last_producer_epoch=last, previous_producer_id=PREVIOUS_PID)
    outcome = initialise(metadata, request_, NOW, 0, None)
    assert said(outcome) == answer
    if epoch_and_last is not None:
        after = written(outcome)
        assert (after.producer_epoch, after.last_producer_epoch) == epoch_and_last
        assert (after.state, after.partitions) == (Empty, frozenset())
        assert (after.timeout_ms, after.start_ms, after.last_update_ms) == (NEW_TIMEOUT_MS, NO_TIME, NOW)


@pytest.mark.parametrize("state", AT_REST)
@pytest.mark.parametrize("epoch", [EXHAUSTED, LAST_EPOCH])
@pytest.mark.parametrize(("names", "last"), [(False, -1), (True, None)])
def test_exhausted_epochs_begin_anew_with_another_producer_id(
    state: TransactionState, epoch: int, names: bool, last: int | None
) -> None:
    request = ask(PID, epoch) if names else ask()
    assert initialise(known(state, epoch), request, NOW, 0, None) is Needs.PRODUCER_ID
    outcome = initialise(known(state, epoch), request, NOW, 0, NEXT_PID)
    assert said(outcome) == (0, NEXT_PID, 0)
    after = written(outcome)
    assert (after.producer_id, after.producer_epoch, after.previous_producer_id) == (NEXT_PID, 0, PID)
    assert after.last_producer_epoch == (epoch if last is None else last)


def test_a_producer_that_lost_the_answer_with_its_new_id_is_told_once_more_and_once_more() -> None:
    metadata = written(initialise(known(Empty, EXHAUSTED), ask(PID, EXHAUSTED), NOW, 0, NEXT_PID))
    for _ in range(3):
        outcome = initialise(metadata, ask(PID, EXHAUSTED), NOW, 0, None)
        assert said(outcome) == (0, NEXT_PID, 0)
        metadata = written(outcome)


@pytest.mark.parametrize("state", AT_REST)
@pytest.mark.parametrize(("names", "last"), [(False, -1), (True, EPOCH)])
def test_a_producer_id_that_cannot_be_kept_is_followed_by_another_one_as_if_it_was_exhausted(
    state: TransactionState, names: bool, last: int
) -> None:
    request = ask(PID, EPOCH) if names else ask()
    assert initialise(known(state), request, NOW, 0, None, keeps_id=False) is Needs.PRODUCER_ID
    outcome = initialise(known(state), request, NOW, 0, NEXT_PID, keeps_id=False)
    assert said(outcome) == (0, NEXT_PID, 0)
    after = written(outcome)
    assert (after.producer_id, after.producer_epoch, after.previous_producer_id) == (NEXT_PID, 0, PID)
    assert after.last_producer_epoch == last
    for epoch in {EPOCH - 1, EPOCH, EPOCH + 1} - {last}:  # those before are fenced
        assert said(initialise(after, ask(PID, epoch), NOW, 0, None)) == (90, -1, -1)
    if names:  # it lost the answer, and is told it once more
        assert said(initialise(after, ask(PID, EPOCH), NOW, 0, None)) == (0, NEXT_PID, 0)


def test_the_last_epoch_of_the_previous_id_is_not_taken_for_one_of_this_id() -> None:
    metadata = known(Empty, last_producer_epoch=EPOCH - 1, previous_producer_id=PREVIOUS_PID)
    assert said(initialise(metadata, ask(PREVIOUS_PID, EPOCH - 1), NOW, 0, None)) == (90, -1, -1)


@pytest.mark.parametrize("version", [0, 2])
def test_an_open_transaction_with_an_id_that_cannot_be_kept_is_aborted_with_the_next_epoch_of_it(
    version: int,
) -> None:
    ongoing = known(TransactionState.ONGOING)
    outcome = initialise(ongoing, ask(), NOW, version, None, keeps_id=False)
    assert said(outcome) == (51, -1, -1)
    assert (written(outcome).producer_id, written(outcome).producer_epoch) == (PID, EPOCH + 1)


def test_a_retry_at_the_last_epoch_needs_no_other_producer_id() -> None:
    metadata = known(Empty, EXHAUSTED, last_producer_epoch=EXHAUSTED - 1)
    assert said(initialise(metadata, ask(PID, EXHAUSTED - 1), NOW, 0, None)) == (0, PID, EXHAUSTED)
    assert said(initialise(metadata, ask(PID, EXHAUSTED - 2), NOW, 0, None)) == (90, -1, -1)


def test_the_previous_producer_id_does_not_speak_for_the_present_one_when_both_are_exhausted() -> None:
    metadata = known(Empty, EXHAUSTED, previous_producer_id=PREVIOUS_PID)
    assert said(initialise(metadata, ask(PREVIOUS_PID, EXHAUSTED), NOW, 0, None)) == (90, -1, -1)


@pytest.mark.parametrize(
    ("version", "last"), [pytest.param(0, -1, id="older"), pytest.param(2, EPOCH, id="newer")]
)
@pytest.mark.parametrize("request_", [ask(), ask(PID, EPOCH), ask(PID, EPOCH - 1)])
def test_an_open_transaction_is_aborted_first_with_an_epoch_of_its_own(
    version: int, last: int, request_: InitProducerId
) -> None:
    outcome = initialise(known(TransactionState.ONGOING), request_, NOW, version, None)
    assert said(outcome) == (51, -1, -1)
    after = written(outcome)
    assert after.state is TransactionState.PREPARE_ABORT
    assert (after.producer_id, after.producer_epoch, after.last_producer_epoch) == (PID, EPOCH + 1, last)
    # The markers are those of the transaction that is there, and the timeout is not yet the new one.
    assert (after.partitions, after.start_ms, after.timeout_ms) == (PARTITIONS, BEGAN, TIMEOUT_MS)
    assert (after.last_update_ms, after.client_version, after.next_producer_id) == (NOW, version, -1)


def test_an_open_transaction_of_another_producer_id_is_left_alone() -> None:
    assert said(initialise(known(TransactionState.ONGOING), ask(OTHER_PID, 1), NOW, 0, None)) == (90, -1, -1)
