"""The states of a transactional id have Kafka's numbers and names."""

from __future__ import annotations

import pytest

from gateway.transactions.metadata import STATES, STORED_STATES, TransactionState, is_exhausted
from tests.unit.gateway.transactions.samples import BEFORE, BEGAN, TIMEOUT_MS, known

NAMES = [
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead",
    "PrepareEpochFence",
]  # fmt: skip
AT_REST = {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}


def test_states_are_kafkas() -> None:
    assert [(state.value, state.label) for state in TransactionState] == list(enumerate(NAMES))
    assert list(STATES) == NAMES
    assert {state.label for state in STORED_STATES} == set(NAMES[:6])


@pytest.mark.parametrize(
    ("epoch", "exhausted"), [(-1, False), (0, False), (32765, False), (32766, True), (32767, True)]
)
def test_the_last_epoch_is_kept_to_fence_with(epoch: int, exhausted: bool) -> None:
    assert is_exhausted(epoch) is exhausted
    assert known(TransactionState.ONGOING, epoch).fencing_epoch == min(epoch + 1, 32767)


@pytest.mark.parametrize("state", sorted(STORED_STATES))
def test_only_an_open_transaction_times_out(state: TransactionState) -> None:
    metadata = known(state)
    assert not metadata.is_timed_out(BEGAN + TIMEOUT_MS)
    assert metadata.is_timed_out(BEGAN + TIMEOUT_MS + 1) is (state is TransactionState.ONGOING)


@pytest.mark.parametrize("state", sorted(STORED_STATES))
def test_only_an_id_without_a_transaction_is_idle(state: TransactionState) -> None:
    metadata = known(state)
    assert not metadata.is_idle(BEFORE + 999, 1000)
    assert metadata.is_idle(BEFORE + 1000, 1000) is (state in AT_REST)
