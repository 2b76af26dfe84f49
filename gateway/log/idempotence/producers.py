"""What one partition takes of its idempotent producers, and what it refuses.

Two things are known: the states of those that have written here (`state`), which each recovery reads back,
and the producers whose first batch was refused (`refused`), which are remembered across recoveries, for as
long as this life lasts.
"""

from gateway.log.idempotence.refused import RefusedProducers
from gateway.log.idempotence.state import Duplicate, ProducerState
from wireproto.records.header import BatchHeader


class PartitionProducers:
    """One partition's idempotent producers. All methods return at once."""

    __slots__ = ("_refused", "_state")

    def __init__(self) -> None:
        self._state = ProducerState()
        self._refused = RefusedProducers()

    @property
    def state(self) -> ProducerState:
        """Those that have written here."""
        return self._state

    def begin(self, state: ProducerState) -> None:
        """The partition was recovered: this is what is known of its producers."""
        self._state = state

    def check(self, header: BatchHeader) -> Duplicate | None:
        """Whether this batch of an idempotent producer may be appended: None if so, else where it already is.

        Raises KafkaError as `ProducerState.check`, and OUT_OF_ORDER_SEQUENCE_NUMBER when an earlier batch of
        the producer was refused and is still to come.
        """
        state = self._state
        producer_id, epoch, sequence = header.producer_id, header.producer_epoch, header.base_sequence
        duplicate = state.check(producer_id, epoch, sequence, header.count)
        if duplicate is None and self._refused and producer_id not in state:
            self._refused.check(producer_id, epoch, sequence)
        return duplicate

    def appended(self, header: BatchHeader, last_offset: int, now_ms: int) -> None:
        """This batch of an idempotent producer is in the log; its last record has `last_offset`."""
        self._state.applied(
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            last_offset,
            header.count,
            header.max_timestamp,
            now_ms,
        )
        if self._refused:
            self._refused.accepted(header.producer_id)

    def refused(self, header: BatchHeader) -> None:
        """This batch, of any producer, was refused and will be sent again: no later one of a producer without
        state may overtake it.
        """
        if header.producer_id >= 0 and header.producer_id not in self._state:
            self.undecided(header)

    def undecided(self, header: BatchHeader) -> None:
        """This batch, of any producer, was appended, and the partition has failed before it was durable. Kept
        or not, recovery will tell; if not, it must come before what its producer sent later.
        """
        if header.producer_id >= 0:
            self._refused.add(header.producer_id, header.producer_epoch, header.base_sequence)

    def snapshot(self, now_ms: int) -> bytes:
        """The states as bytes for a segment's OPEN, b"" if there are none."""
        return self._state.snapshot(now_ms) if self._state.count else b""
