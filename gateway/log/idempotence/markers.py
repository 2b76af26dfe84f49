"""Whether a marker may be appended: by its producer's epoch, and its coordinator's (``ProducerAppendInfo``).

Rule: **a marker ends one transaction, which has a number**. A coordinator that gets no answer sends a marker
again; when that has gone well the first one may still lie somewhere, and would end the producer's next
transaction, of the same epoch. So what was done is not done again. The numbers are known as long as this
gateway leads the partition under one leader epoch; what was sent under an earlier one is refused by that.
Numbers of one coordinator epoch are compared: another coordinator counts anew.
"""

from typing import Final

from gateway.common.marker import Marker
from gateway.log.idempotence.producer import Producer
from wireproto.kafka.errors import ErrorCode, KafkaError

LAST_EPOCH: Final = 32767
"""The marker of a producer whose epochs are used up has it, and so has the next one."""

BUMPS_EPOCH_FROM: Final = 2
"""The `transaction.version` from which a transaction's marker has an epoch of its own (KIP-890)."""


def check_marker(known: Producer | None, marker: Marker) -> int | None:
    """Whether a marker may be appended now, of a producer that is `known`, or not: None if so, else the
    offset of the one that it repeats.

    Raises KafkaError: INVALID_PRODUCER_EPOCH, it is of an older epoch; TRANSACTION_COORDINATOR_FENCED,
    another coordinator has taken over.
    """
    if known is None:
        return None
    if marker.coordinator_epoch == known.coordinator_epoch and 0 < marker.number <= known.ended_number:
        return known.ended_at
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
    return None


def _is_old(known: Producer, marker: Marker) -> bool:
    """(``ProducerAppendInfo.checkProducerEpoch``)"""
    if marker.transaction_version < BUMPS_EPOCH_FROM:
        return marker.producer_epoch < known.epoch
    if marker.producer_epoch > known.epoch:
        return False
    is_again = marker.producer_epoch == known.epoch and not known.has_open
    return not is_again and marker.producer_epoch != LAST_EPOCH
