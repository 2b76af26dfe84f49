"""Whether a marker may be appended, by the epochs of producer and coordinator (``ProducerAppendInfo``)."""

from typing import Final

from gateway.common.marker import Marker
from gateway.log.idempotence.producer import Producer
from wireproto.kafka.errors import ErrorCode, KafkaError

LAST_EPOCH: Final = 32767
"""The marker of a producer whose epochs are used up has it, and so has the next one."""

BUMPS_EPOCH_FROM: Final = 2
"""The `transaction.version` from which a transaction's marker has an epoch of its own (KIP-890)."""


def check_marker(known: Producer | None, marker: Marker) -> None:
    """Whether a marker may be appended now, of a producer that is `known`, or not.

    Raises KafkaError: INVALID_PRODUCER_EPOCH, it is of an older epoch; TRANSACTION_COORDINATOR_FENCED,
    another coordinator has taken over.
    """
    if known is None:
        return
    if _is_old(known, marker):
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"the marker of producer {marker.producer_id} has epoch {marker.producer_epoch}, "
            f"and {known.epoch} has written here",
        )
    if marker.coordinator_epoch < known.coordinator_epoch:
        raise KafkaError(
            ErrorCode.TRANSACTION_COORDINATOR_FENCED,
            f"the marker of producer {marker.producer_id} is of coordinator epoch "
            f"{marker.coordinator_epoch}, and {known.coordinator_epoch} has ended a transaction here",
        )


def _is_old(known: Producer, marker: Marker) -> bool:
    """(``ProducerAppendInfo.checkProducerEpoch``)"""
    if marker.transaction_version < BUMPS_EPOCH_FROM:
        return marker.producer_epoch < known.epoch
    if marker.producer_epoch > known.epoch:
        return False
    is_again = marker.producer_epoch == known.epoch and not known.has_open
    return not is_again and marker.producer_epoch != LAST_EPOCH
