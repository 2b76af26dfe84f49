"""What one partition knows of its idempotent producers.

Theory of operation. A producer with an id numbers its records per partition: each batch carries the
sequence of its first record, and the next batch goes on where it ended. The partition keeps, per
producer, its epoch and its last five batches (the client has at most five in flight), and so tells apart

* the next batch: accepted;
* one of those five again, sent anew because the answer was lost: a duplicate, answered with its original
  offset;
* anything else: refused, because records before it are missing or because another life of the producer
  has taken over.

The rules are those of ``ProducerAppendInfo`` and ``ProducerStateEntry`` in Kafka's storage module,
without transactions, and were compared with Kafka 4.3.1 by raw requests. Two things differ on purpose:

* a producer's age is counted from when this gateway took its last batch, not from that batch's timestamp,
  which the client chose: who replays last year's records under their old timestamps keeps its protection
  against duplicates;
* there is a bound on producers (``MAX_PRODUCERS``), because a client can make up as many ids as it likes.

Who is forgotten at the bound: the one idle for longest, if that is for ``SPARED_MS``. Otherwise all have
written a moment ago and may repeat what they wrote: then it is a producer of the client that brings the new
one, the one that it used longest ago; and if it has none here, one of the client that has half of the places.
Is there no such client either, the new one is not remembered, as if it had been forgotten at once: many
addresses with one id each drive out nobody. So who makes up ids without end forgets its own. A client that
has all that it may have of the whole gateway always begins with its own. What is read back from the log is
nobody's: it does not say whose it is.

Everything here is pure: the caller brings the time. A batch is recorded by `ProducerState.applied` when it is
appended, before it is durable: whoever answers a duplicate must itself wait until the original is durable.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from gateway.common.clients import NOBODY
from gateway.log.idempotence import snapshot as idempotence_snapshot
from gateway.log.idempotence.idle import IdleProducers
from gateway.log.idempotence.producer import (
    BATCHES_KEPT,
    FEW,
    FEW_PRODUCERS,
    MAX_PRODUCERS,
    NO_PRODUCER_EPOCH,
    SPARED_MS,
    Batch,
    Producer,
    advance_sequence,
    sequence_after,
)
from wireproto.kafka.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from wireproto.records.row import Row

PRODUCER_ID_EXPIRATION_MS: Final = 86_400_000
"""Milliseconds after its last batch when a producer is forgotten; Kafka's `producer.id.expiration.ms`."""

_CONTROL_BATCH: Final = 0x20
"""Bit of a batch's attributes: it carries a transaction marker and no sequence."""


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The batch is here already: where, and its maximum timestamp (Kafka answers it as the append time)."""

    base_offset: int
    last_offset: int
    timestamp: int


class ProducerState:
    """The idempotent producers of one partition."""

    __slots__ = ("_charge", "_idle", "_max_producers", "_producers")

    def __init__(self, *, max_producers: int = MAX_PRODUCERS) -> None:
        # The one heard from longest ago is first.
        self._producers: OrderedDict[int, Producer] = OrderedDict()
        self._max_producers = max_producers
        self._charge: Callable[[str, int], None] | None = None
        self._idle: IdleProducers | None = None
        """From when it is first full."""

    def charge_to(self, charge: Callable[[str, int], None] | None) -> None:
        """Have `charge` called with a client (or FEW) and how many more producers of it are known, or fewer;
        now with all that are known. Who was called before is told that there are none.
        """
        for whose, known in Counter(producer.charged_to for producer in self._producers.values()).items():
            if self._charge is not None:
                self._charge(whose, -known)
            if charge is not None:
                charge(whose, known)
        self._charge = charge

    def _remember(self, producer_id: int, producer: Producer) -> None:
        self._producers[producer_id] = producer
        if self._idle is not None:
            self._idle.add(producer_id, producer)
        if self._charge is not None:
            self._charge(producer.charged_to, 1)

    def _forget(self, producer_id: int) -> Producer:
        producer = self._producers.pop(producer_id)
        if self._idle is not None:
            self._idle.remove(producer_id, producer)
        if self._charge is not None:
            self._charge(producer.charged_to, -1)
        return producer

    @property
    def count(self) -> int:
        """Producers known."""
        return len(self._producers)

    def __contains__(self, producer_id: int) -> bool:
        return producer_id in self._producers

    def find(self, producer_id: int) -> Producer | None:
        """What is known of a producer."""
        return self._producers.get(producer_id)

    def active(self, now_ms: int) -> list[tuple[int, int, int, int]]:
        """(producer id, epoch, last sequence, its last batch's maximum timestamp in ms) of each that is not
        expired, by id.
        """
        oldest = now_ms - PRODUCER_ID_EXPIRATION_MS
        return [
            (producer_id, producer.epoch, producer.batches[-1].last_sequence, producer.batches[-1].timestamp)
            for producer_id, producer in sorted(self._producers.items())
            if producer.used_ms > oldest
        ]

    def check(self, producer_id: int, epoch: int, base_sequence: int, count: int) -> Duplicate | None:
        """Says whether a batch of `count` records (1 or more) may be appended: None if so, else where it
        already is.

        Changes nothing: the caller appends, then calls `applied`. A batch without a producer id always may.

        Raises:
            KafkaError: INVALID_RECORD (a producer id without a sequence), INVALID_PRODUCER_EPOCH (an
                older epoch than the last seen), OUT_OF_ORDER_SEQUENCE_NUMBER (a gap, a batch older than
                those kept, a part of one, or a new epoch that does not begin at 0).
        """
        if producer_id < 0:
            return None
        if base_sequence < 0:
            raise KafkaError(
                ErrorCode.INVALID_RECORD, f"producer {producer_id} sent the batch sequence {base_sequence}"
            )
        producer = self._producers.get(producer_id)
        known_epoch = NO_PRODUCER_EPOCH if producer is None else producer.epoch
        if epoch < known_epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {producer_id} has epoch {epoch}, and a later one, {known_epoch}, has written here",
            )
        if producer is None:
            # Kafka lets a producer that it knows nothing of begin anywhere: its state may have expired.
            return None
        if epoch != known_epoch:
            if base_sequence == 0 or known_epoch == NO_PRODUCER_EPOCH:
                return None
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer_id} begins epoch {epoch} (after {known_epoch}) "
                f"with sequence {base_sequence} instead of 0",
            )
        expected = sequence_after(producer.batches[-1].last_sequence)
        if base_sequence == expected:
            return None
        original = producer.find(base_sequence, advance_sequence(base_sequence, count - 1))
        if original is not None:
            return Duplicate(original.base_offset, original.last_offset, original.timestamp)
        if known_epoch == NO_PRODUCER_EPOCH:
            return None
        raise KafkaError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {producer_id} of epoch {epoch} sent sequence {base_sequence}, expected was {expected}",
        )

    def expected(self, producer_id: int, epoch: int) -> int | None:
        """The sequence with which this producer goes on in this epoch; None: it is not known, or has begun a
        later one.
        """
        producer = self._producers.get(producer_id)
        if producer is None or producer.epoch > epoch:
            return None
        if producer.epoch < epoch:
            return 0
        return sequence_after(producer.batches[-1].last_sequence)

    def applied(
        self,
        producer_id: int,
        epoch: int,
        base_sequence: int,
        last_offset: int,
        count: int,
        timestamp: int,
        now_ms: int,
        client: str = NOBODY,
        *,
        is_short: bool = False,
    ) -> None:
        """Records a batch that was appended.

        Args:
            producer_id: The batch's; below 0 there is nothing to record.
            epoch: The batch's producer epoch.
            base_sequence: The sequence of its first record.
            last_offset: The offset that its last record was given.
            count: Offsets that it covers, its lastOffsetDelta + 1.
            timestamp: Its maximum timestamp as stored, ms.
            now_ms: The gateway's clock, ms since 1970.
            client: Whose batch it is.
            is_short: All partitions together keep as many producers of this client as they may.
        """
        if producer_id < 0:
            return
        span = count - 1
        batch = Batch(
            base_sequence,
            advance_sequence(base_sequence, span),
            last_offset - span,
            last_offset,
            timestamp,
        )
        producer = self._producers.get(producer_id)
        if producer is None:
            self._take_new(producer_id, Producer(epoch, now_ms, [batch], client), is_short=is_short)
            return
        self._producers.move_to_end(producer_id)
        producer.used_ms = now_ms
        batches = producer.batches
        if producer.epoch != epoch:
            producer.epoch = epoch
            batches.clear()
        elif len(batches) == BATCHES_KEPT:
            del batches[0]
        batches.append(batch)

    def apply_row(self, row: "Row", now_ms: int) -> None:
        """Records a stored batch from its row, when the state is rebuilt.

        Rows must come in the order of offsets. One that the state already covers changes nothing, so rows
        may begin before the end of the snapshot. `now_ms` counts as the time of the batch: a row does not
        say when it was appended, and to keep a producer longer than needed is the safe side.
        """
        if row.producer_id < 0 or row.base_sequence < 0 or row.attributes & _CONTROL_BATCH:
            return
        producer = self._producers.get(row.producer_id)
        if producer is not None and row.last_offset <= producer.batches[-1].last_offset:
            return
        self.applied(
            row.producer_id,
            row.producer_epoch,
            row.base_sequence,
            row.last_offset,
            row.last_offset - row.base_offset + 1,
            row.max_timestamp,
            now_ms,
        )

    def _take_new(self, producer_id: int, new: Producer, *, is_short: bool) -> None:
        if len(self._producers) >= (FEW_PRODUCERS if is_short else self._max_producers):
            leaves = self._dispensable(new.client, new.used_ms, own_first=is_short)
            if leaves is None:
                return
            forgotten = self._forget(leaves)
            if forgotten.client == new.client:
                new.charged_to = forgotten.charged_to
        elif is_short:
            new.charged_to = FEW
        self._remember(producer_id, new)

    def _dispensable(self, client: str, now_ms: int, *, own_first: bool) -> int | None:
        """Whom to forget for a new producer of this client; None: nobody."""
        idle = self._idle = self._idle or IdleProducers(self._producers)
        own = idle.longest(client)
        if own_first and own is not None:
            return own
        longest_idle = next(iter(self._producers))
        if self._producers[longest_idle].used_ms <= now_ms - SPARED_MS:
            return longest_idle
        if own is not None:
            return own
        greedy = idle.greedy_client()
        return None if greedy is None else idle.longest(greedy)

    def remove_expired(self, now_ms: int) -> int:
        """Forgets producers without a batch for `PRODUCER_ID_EXPIRATION_MS`; the number of them."""
        oldest = now_ms - PRODUCER_ID_EXPIRATION_MS
        # All are looked at: a clock that was set back leaves the order of use and the order of times
        # different.
        expired = [key for key, producer in self._producers.items() if producer.used_ms <= oldest]
        for key in expired:
            self._forget(key)
        return len(expired)

    def snapshot(self, now_ms: int) -> bytes:
        """The state as bytes for a segment's OPEN, expired producers left out. See `idempotence_snapshot`."""
        self.remove_expired(now_ms)
        return idempotence_snapshot.encode(self._producers)

    @classmethod
    def from_snapshot(cls, snapshot: bytes, now_ms: int, *, max_producers: int = MAX_PRODUCERS) -> Self:
        """The state that `snapshot` made, less what has expired since.

        Raises:
            InvalidSnapshot: These are not the bytes of a snapshot, or of a newer version.
        """
        state = cls(max_producers=max_producers)
        state._producers = idempotence_snapshot.decode(snapshot)
        state.remove_expired(now_ms)
        while len(state._producers) > max_producers:
            state._producers.popitem(last=False)
        return state
