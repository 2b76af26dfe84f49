"""What one partition knows of its idempotent producers.

Theory of operation. A producer with an id numbers its records per partition: each batch carries the
sequence of its first record, and the next batch goes on where it ended. The partition keeps, per
producer, its epoch and its last five batches (the client has at most five in flight), and so tells apart

* the next batch: accepted;
* one of those five again, sent anew because the answer was lost: a duplicate, answered with its original
  offset;
* anything else: refused, because records before it are missing or because another life of the producer
  has taken over (`sequences`).

A transactional batch opens a transaction of its producer, if none is open; a marker ends it, raises the epoch
and is remembered with the epoch of the coordinator that sent it (`markers`). Which transactions are open, and
up to where all is decided, is in `gateway.log.transactions`; it changes here, batch by batch, whether they
come from a producer or are read back from rows.

The rules are those of ``ProducerAppendInfo`` and ``ProducerStateEntry`` in Kafka's storage module, and were
compared with Kafka 4.3.1 by raw requests. Two things differ on purpose:

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
nobody's: it does not say whose it is. Who has an open transaction is never forgotten, nor does it expire:
a producer that begins one and would not be remembered is refused, for now (`why_no_room`), and so is one
whose client has its share of a partition's open transactions.

Everything here is pure: the caller brings the time. A batch is recorded by `ProducerState.applied` when it is
appended, before it is durable: whoever answers a duplicate must itself wait until the original is durable.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable
from operator import itemgetter
from typing import TYPE_CHECKING, Final, Self

from gateway.common.clients import NOBODY
from gateway.common.shares import Shares
from gateway.log.idempotence import snapshot as idempotence_snapshot
from gateway.log.idempotence.idle import IdleProducers
from gateway.log.idempotence.producer import (
    FEW,
    FEW_PRODUCERS,
    MAX_PRODUCERS,
    NOTHING_OPEN,
    SPARED_MS,
    Batch,
    Producer,
    advance_sequence,
    sequence_after,
)
from gateway.log.idempotence.sequences import Duplicate, check
from gateway.log.transactions.aborted import AbortedTransaction
from gateway.log.transactions.open_transactions import OpenTransactions

if TYPE_CHECKING:
    from wireproto.records.control import EndMarker
    from wireproto.records.row import Row

PRODUCER_ID_EXPIRATION_MS: Final = 86_400_000
"""Milliseconds after its last batch when a producer is forgotten; Kafka's `producer.id.expiration.ms`."""


Keeps = Callable[[int, Producer], bool]
"""Whether the producer with this id is not to be forgotten now."""


def keeps_nobody(_producer_id: int, _producer: Producer) -> bool:
    return False


class ProducerState:
    """The idempotent producers of one partition."""

    __slots__ = ("_charge", "_idle", "_max_producers", "_open_of", "_producers", "keeps", "transactions")

    def __init__(self, *, max_producers: int = MAX_PRODUCERS, keeps: Keeps = keeps_nobody) -> None:
        self.keeps = keeps
        """Who is neither forgotten for others nor expires."""
        # The one heard from longest ago is first.
        self._producers: OrderedDict[int, Producer] = OrderedDict()
        self._max_producers = max_producers
        self._charge: Callable[[str, int], None] | None = None
        self._idle: IdleProducers | None = None
        """From when it is first full."""
        self.transactions = OpenTransactions()
        self._open_of = Shares(max_producers)
        """How many open transactions each client has."""

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
        if self._idle is not None and not producer.has_open:
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

    def active(self, now_ms: int) -> list[tuple[int, Producer]]:
        """(producer id, its standing) of each that is not expired, by id."""
        oldest = now_ms - PRODUCER_ID_EXPIRATION_MS
        return [one for one in sorted(self._producers.items(), key=itemgetter(0)) if _lives(one[1], oldest)]

    def open_transactions(self) -> dict[int, int]:
        """The first offsets of the open transactions, by their producers' ids."""
        return {key: one.first_offset for key, one in self._producers.items() if one.has_open}

    def only_open(self) -> Self:
        """Of these producers those with open transactions, in a state of its own."""
        state = type(self)(max_producers=self._max_producers)
        state._producers = OrderedDict((key, one) for key, one in self._producers.items() if one.has_open)
        state._load_transactions()
        return state

    def has_open_since(self, oldest_ms: int) -> bool:
        """Whether a transaction is open whose producer was not heard after this, ms since 1970."""
        return any(one.has_open and one.used_ms <= oldest_ms for one in self._producers.values())

    def check(
        self, producer_id: int, epoch: int, base_sequence: int, count: int, *, is_transactional: bool = False
    ) -> Duplicate | None:
        """Says whether a batch of `count` records (1 or more) may be appended: None if so, else where it
        already is.

        Changes nothing: the caller appends, then calls `applied`. A batch without a producer id always may.
        Raises KafkaError as `sequences.check`.
        """
        if producer_id < 0:
            return None
        known = self._producers.get(producer_id)
        return check(known, producer_id, epoch, base_sequence, count, is_transactional=is_transactional)

    def why_no_room(self, producer_id: int, now_ms: int, client: str, *, is_short: bool) -> str:
        """Why this producer may not begin a transaction now; "" if it may, or has one."""
        known = self._producers.get(producer_id)
        if known is not None and known.has_open:
            return ""
        if not self._open_of.has_room(client, 1):
            held, of_all = self._open_of.held(client), len(self.transactions)
            return f"{of_all} transactions are open here, {held} of this client: no more may be"
        if (
            known is None
            and self._is_full(is_short=is_short)
            and self._dispensable(client, now_ms, own_first=is_short) is None
        ):
            return f"{len(self._producers)} producers are known here: none can be forgotten for another one"
        return ""

    def expected(self, producer_id: int, epoch: int) -> int | None:
        """The sequence with which this producer goes on in this epoch; None: it is not known, or has begun a
        later one.
        """
        producer = self._producers.get(producer_id)
        if producer is None or producer.epoch > epoch:
            return None
        return 0 if producer.epoch < epoch else sequence_after(producer.last_sequence)

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
        is_transactional: bool = False,
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
            is_transactional: It belongs to a transaction of the producer.
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
            producer = Producer(epoch, now_ms, [batch], client)
            stays = is_transactional or self.keeps(producer_id, producer)
            if not self._take_new(producer_id, producer, is_short=is_short, must_be=stays):
                return
        else:
            self._producers.move_to_end(producer_id)
            producer.append(epoch, batch, now_ms)
        if is_transactional and not producer.has_open:
            self._begin(producer_id, producer, batch.base_offset, client)

    def _begin(self, producer_id: int, producer: Producer, first_offset: int, client: str) -> None:
        """A transaction of this producer is open from now on, by a batch of this client."""
        if self._idle is not None:
            self._idle.remove(producer_id, producer)
        producer.first_offset, producer.opened_by = first_offset, client
        self.transactions.begin(first_offset)
        self._open_of.charge(client, 1)

    def ended(
        self,
        producer_id: int,
        epoch: int,
        marker: "EndMarker",
        offset: int,
        timestamp: int,
        now_ms: int,
    ) -> AbortedTransaction | None:
        """Records a marker that was appended at `offset`; what it has aborted, if that is anything.

        `timestamp`: the marker's, ms. An open transaction is ended whatever the epochs say: who appends looks
        at these before (`markers`). A producer that is not known, and had nothing to be ended, is remembered
        for its epochs as one of the few that a partition may keep, and nobody is forgotten for it: such ids
        can be made up, and what comes late its coordinator refuses as well.
        """
        producer = self._producers.get(producer_id)
        if producer is None:
            if not self._is_full(is_short=True):
                producer = Producer(epoch, now_ms, [])
                producer.charged_to = FEW
                producer.end(epoch, marker.coordinator_epoch, offset, timestamp, now_ms)
                self._remember(producer_id, producer)
            return None
        self._producers.move_to_end(producer_id)
        first_offset = producer.first_offset
        producer.end(max(epoch, producer.epoch), marker.coordinator_epoch, offset, timestamp, now_ms)
        if first_offset == NOTHING_OPEN:
            return None
        self.transactions.end(first_offset, offset)
        self._open_of.charge(producer.opened_by, -1)
        if self._idle is not None:
            self._idle.add(producer_id, producer)
        if marker.is_commit:
            return None
        later_begin = self.transactions.first_open()
        return AbortedTransaction(
            producer_id, first_offset, offset, offset + 1 if later_begin is None else later_begin
        )

    def apply_row(self, row: "Row", now_ms: int) -> AbortedTransaction | None:
        """Records a stored batch from its row, when the state is rebuilt; what it has aborted.

        Rows must come in the order of offsets. One that the state already covers changes nothing, so rows
        may begin before the end of the snapshot. `now_ms` counts as the time of the batch: a row does not
        say when it was appended, and to keep a producer longer than needed is the safe side.
        """
        if row.producer_id < 0:
            return None
        producer = self._producers.get(row.producer_id)
        if producer is not None and row.last_offset <= producer.last_offset:
            return None
        marker = row.marker
        if marker is not None:
            return self.ended(
                row.producer_id, row.producer_epoch, marker, row.last_offset, row.max_timestamp, now_ms
            )
        if row.base_sequence >= 0 and not row.is_control:
            self.applied(
                row.producer_id,
                row.producer_epoch,
                row.base_sequence,
                row.last_offset,
                row.last_offset - row.base_offset + 1,
                row.max_timestamp,
                now_ms,
                is_transactional=row.is_transactional,
            )
        return None

    def _is_full(self, *, is_short: bool) -> bool:
        most = self._max_producers
        return len(self._producers) >= (min(FEW_PRODUCERS, most) if is_short else most)

    def _take_new(self, producer_id: int, new: Producer, *, is_short: bool, must_be: bool) -> bool:
        """Whether the new producer is remembered: one that `must_be` is in any case."""
        if self._is_full(is_short=is_short):
            leaves = self._dispensable(new.client, new.used_ms, own_first=is_short)
            if leaves is not None:
                forgotten = self._forget(leaves)
                if forgotten.client == new.client:
                    new.charged_to = forgotten.charged_to
            elif not must_be:
                return False
        elif is_short:
            new.charged_to = FEW
        self._remember(producer_id, new)
        return True

    def _dispensable(self, client: str, now_ms: int, *, own_first: bool) -> int | None:
        """Whom to forget for a new producer of this client; None: nobody."""
        found = self._longest_unused(client, now_ms, own_first=own_first)
        return None if found is None or self.keeps(found, self._producers[found]) else found

    def _longest_unused(self, client: str, now_ms: int, *, own_first: bool) -> int | None:
        if len(self.transactions) == len(self._producers):
            return None
        idle = self._idle = self._idle or IdleProducers(self._producers)
        own = idle.longest(client)
        if own_first and own is not None:
            return own
        while self._producers[longest_idle := next(iter(self._producers))].has_open:
            self._producers.move_to_end(longest_idle)
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
        expired = [
            key
            for key, producer in self._producers.items()
            if not _lives(producer, oldest) and not self.keeps(key, producer)
        ]
        for key in expired:
            self._forget(key)
        return len(expired)

    def snapshot(self, now_ms: int) -> bytes:
        """The state as bytes for a segment's OPEN, expired producers left out. See `idempotence_snapshot`."""
        self.remove_expired(now_ms)
        return idempotence_snapshot.encode(self._producers)

    @classmethod
    def from_snapshot(
        cls,
        snapshot: bytes,
        now_ms: int,
        *,
        max_producers: int = MAX_PRODUCERS,
        keeps: Keeps = keeps_nobody,
    ) -> Self:
        """The state that `snapshot` made, less what has expired since.

        Raises:
            InvalidSnapshot: These are not the bytes of a snapshot, or of a newer version.
        """
        state = cls(max_producers=max_producers, keeps=keeps)
        state._producers = idempotence_snapshot.decode(snapshot)
        state.remove_expired(now_ms)
        state._load_transactions()
        while len(state._producers) > max_producers:
            longest_idle = next(
                (key for key, one in state._producers.items() if not one.has_open and not keeps(key, one)),
                None,
            )
            if longest_idle is None:
                break
            state._forget(longest_idle)
        return state

    def _load_transactions(self) -> None:
        """Those that are open."""
        having = [producer for producer in self._producers.values() if producer.has_open]
        self.transactions = OpenTransactions(producer.first_offset for producer in having)
        for producer in having:
            self._open_of.charge(producer.opened_by, 1)


def _lives(producer: Producer, oldest: int) -> bool:
    """Whether it was heard after `oldest`, ms since 1970, or has an open transaction."""
    return producer.used_ms > oldest or producer.has_open
