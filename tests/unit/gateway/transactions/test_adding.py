"""AddPartitionsToTxn and AddOffsetsToTxn: what is in a transaction."""

from __future__ import annotations

import pytest

from gateway.transactions import adding
from gateway.transactions.adding import AddPartitions, add, verify
from gateway.transactions.metadata import TopicPartition, TransactionMetadata, TransactionState
from gateway.transactions.outcomes import DONE, Answer, Write
from tests.unit.gateway.transactions.samples import (
    BEGAN,
    EPOCH,
    NEXT_PID,
    NOW,
    OTHER_PID,
    PARTITIONS,
    PID,
    code,
    known,
    written,
)
from wireproto.kafka.errors import ErrorCode

Ongoing = TransactionState.ONGOING
AT_REST = [TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT]
PREPARED = [TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT]
NEW: frozenset[TopicPartition] = frozenset((("payments", 3), ("orders", 0)))


def ask(
    producer_id: int = PID, epoch: int = EPOCH, partitions: frozenset[TopicPartition] = NEW, version: int = 0
) -> AddPartitions:
    return AddPartitions(producer_id, epoch, partitions, version)


@pytest.mark.parametrize(
    ("metadata", "request_", "error"),
    [
        pytest.param(None, ask(), 49, id="an id that is not known"),
        pytest.param(known(Ongoing), ask(OTHER_PID), 49, id="another producer id"),
        pytest.param(known(Ongoing), ask(OTHER_PID, EPOCH - 1), 49, id="that first"),
        pytest.param(known(Ongoing), ask(epoch=EPOCH - 1), 90, id="an older epoch"),
        pytest.param(known(Ongoing), ask(epoch=EPOCH + 1), 90, id="a later epoch"),
        *[
            pytest.param(known(state, next_producer_id=NEXT_PID), request, 51, id=f"{state.label} {label}")
            for state in PREPARED
            for label, request in (
                ("present", ask()),
                ("before", ask(epoch=EPOCH - 1)),
                ("next producer id", ask(NEXT_PID, 0)),
                ("nothing new", ask(partitions=PARTITIONS)),
            )
        ],
    ],
)
def test_what_is_refused(metadata: TransactionMetadata | None, request_: AddPartitions, error: int) -> None:
    outcome = add(metadata, request_, NOW)
    assert isinstance(outcome, Answer)
    assert code(outcome) == error


@pytest.mark.parametrize("partitions", [PARTITIONS, frozenset((("orders", 1),)), frozenset()])
def test_what_is_there_is_not_written_again(partitions: frozenset[TopicPartition]) -> None:
    assert add(known(Ongoing), ask(partitions=partitions), NOW) == DONE


def test_what_is_new_is_added_and_the_transaction_keeps_its_start() -> None:
    after = written(add(known(Ongoing), ask(), NOW))
    assert (after.state, after.partitions) == (Ongoing, PARTITIONS | NEW)
    assert (after.start_ms, after.last_update_ms, after.producer_epoch) == (BEGAN, NOW, EPOCH)


@pytest.mark.parametrize("state", AT_REST)
@pytest.mark.parametrize("version", [0, 2])
def test_the_first_partition_begins_a_transaction(state: TransactionState, version: int) -> None:
    outcome = add(known(state), ask(version=version), NOW)
    assert code(outcome) == 0
    after = written(outcome)
    assert (after.state, after.partitions, after.start_ms) == (Ongoing, NEW, NOW)
    assert (after.last_update_ms, after.client_version) == (NOW, version)


def test_a_transaction_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adding, "MAX_TRANSACTION_PARTITIONS", 3)
    assert isinstance(add(known(Ongoing), ask(), NOW), Write)
    more = ask(partitions=NEW | {("payments", 4)})
    assert add(known(Ongoing), more, NOW) == Answer(ErrorCode.POLICY_VIOLATION)


INSIDE, OUTSIDE = ("orders", 0), ("orders", 7)


@pytest.mark.parametrize(
    ("metadata", "producer_id", "epoch", "errors"),
    [
        pytest.param(known(Ongoing), PID, EPOCH, (0, 120), id="open"),
        *[pytest.param(known(state), PID, EPOCH, (120, 120), id=state.label) for state in AT_REST],
        *[pytest.param(known(state), PID, EPOCH, (51, 51), id=state.label) for state in PREPARED],
        pytest.param(None, PID, EPOCH, (49, 49), id="an id that is not known"),
        pytest.param(known(Ongoing), OTHER_PID, EPOCH, (49, 49), id="another producer id"),
        pytest.param(known(Ongoing), PID, EPOCH - 1, (90, 90), id="an older epoch"),
        pytest.param(known(Ongoing), PID, EPOCH + 1, (90, 90), id="a later epoch"),
        pytest.param(
            known(TransactionState.PREPARE_COMMIT), PID, EPOCH - 1, (90, 90), id="a batch that comes too late"
        ),
        pytest.param(
            known(TransactionState.PREPARE_ABORT, next_producer_id=NEXT_PID), NEXT_PID, 0, (51, 51),
            id="the next producer id",
        ),
    ],
)  # fmt: skip
def test_verification(
    metadata: TransactionMetadata | None, producer_id: int, epoch: int, errors: tuple[int, int]
) -> None:
    assert verify(metadata, producer_id, epoch, [INSIDE, OUTSIDE]) == {
        INSIDE: errors[0],
        OUTSIDE: errors[1],
    }


def test_the_offsets_of_a_group_may_go_beyond_what_a_transaction_may_have() -> None:
    full = frozenset(("many", index) for index in range(adding.MAX_TRANSACTION_PARTITIONS))
    offsets: frozenset[TopicPartition] = frozenset((("__consumer_offsets", 3),))
    outcome = add(known(Ongoing, partitions=full), ask(partitions=offsets), NOW)
    assert isinstance(outcome, Write)
    assert outcome.metadata is not None
    assert outcome.metadata.partitions == full | offsets
    more = add(outcome.metadata, ask(partitions=offsets | {("many", -1)}), NOW)
    assert more == Answer(ErrorCode.POLICY_VIOLATION)
