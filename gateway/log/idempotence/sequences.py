"""Whether a producer's batch is the next one, is here already, or neither (``ProducerAppendInfo``)."""

from dataclasses import dataclass

from gateway.log.idempotence.producer import NO_PRODUCER_EPOCH, Producer, advance_sequence, sequence_after
from wireproto.kafka.errors import ErrorCode, KafkaError


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The batch is here already: where, and its maximum timestamp (Kafka answers it as the append time)."""

    base_offset: int
    last_offset: int
    timestamp: int


def check(
    known: Producer | None,
    producer_id: int,
    epoch: int,
    base_sequence: int,
    count: int,
    *,
    is_transactional: bool,
) -> Duplicate | None:
    """Whether a batch of `count` records (1 or more) may be appended, of a producer that is `known`, or not:
    None if so, else where it already is.

    Raises:
        KafkaError: INVALID_RECORD (a producer id without a sequence), INVALID_PRODUCER_EPOCH (an older epoch
            than the last seen), OUT_OF_ORDER_SEQUENCE_NUMBER (a gap, a batch older than those kept, a part of
            one, or a new epoch that does not begin at 0), INVALID_TXN_STATE (outside of any transaction,
            while one of its producer is open).
    """
    if base_sequence < 0:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"producer {producer_id} sent the batch sequence {base_sequence}"
        )
    known_epoch = NO_PRODUCER_EPOCH if known is None else known.epoch
    if epoch < known_epoch:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"producer {producer_id} has epoch {epoch}, and a later one, {known_epoch}, has written here",
        )
    if known is None:
        # Kafka lets a producer that it knows nothing of begin anywhere: its state may have expired.
        return None
    duplicate = _check_sequence(known, producer_id, epoch, base_sequence, count)
    if duplicate is None and known.has_open and not is_transactional:
        raise KafkaError(
            ErrorCode.INVALID_TXN_STATE,
            f"producer {producer_id} has an open transaction, and sent a batch outside of it",
        )
    return duplicate


def _check_sequence(
    known: Producer, producer_id: int, epoch: int, base_sequence: int, count: int
) -> Duplicate | None:
    """As `check`, for an epoch that is not older. Raises KafkaError: OUT_OF_ORDER_SEQUENCE_NUMBER."""
    if epoch != known.epoch:
        if base_sequence == 0 or known.epoch == NO_PRODUCER_EPOCH:
            return None
        raise KafkaError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {producer_id} begins epoch {epoch} (after {known.epoch}) "
            f"with sequence {base_sequence} instead of 0",
        )
    expected = sequence_after(known.last_sequence)
    if base_sequence == expected:
        return None
    original = known.find(base_sequence, advance_sequence(base_sequence, count - 1))
    if original is not None:
        return Duplicate(original.base_offset, original.last_offset, original.timestamp)
    if known.epoch == NO_PRODUCER_EPOCH:
        return None
    raise KafkaError(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"producer {producer_id} of epoch {epoch} sent sequence {base_sequence}, expected was {expected}",
    )
