"""What one partition takes of its idempotent producers, and what it refuses.

Known are the states of those that have written here (`state`), which each recovery reads back; the producers
of which a batch was refused (`refused`), for some minutes, across recoveries of this life; and for a minute
the transactions that ended since this life leads it (`ended`).
"""

from collections.abc import Callable
from typing import Final

from gateway.common.clients import NOBODY
from gateway.common.marker import Marker
from gateway.common.shares import Shares
from gateway.log.idempotence.ended import EndedAccount, EndedTransactions
from gateway.log.idempotence.guards import Guard, Guards
from gateway.log.idempotence.markers import check_marker
from gateway.log.idempotence.producer import FEW, MAX_PRODUCERS_IN_ALL, NOTHING_OPEN
from gateway.log.idempotence.refused import RefusedAccount, RefusedProducers
from gateway.log.idempotence.sequences import Duplicate
from gateway.log.idempotence.state import Keeps, ProducerState, keeps_nobody
from gateway.log.transactions.aborted import AbortedTransaction
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.records.control import EndMarker
from wireproto.records.header import BatchHeader


class ProducerCount:
    """How many producers the partitions of this gateway keep together, and how many they may: one client's
    are half of what the others leave (`gateway.common.shares`).
    """

    __slots__ = ("_few", "_shares", "ended", "keeps", "refused")

    def __init__(self, clock: Callable[[], float], most: int = MAX_PRODUCERS_IN_ALL) -> None:
        """`clock` is in seconds, and nobody sets it."""
        self._shares = Shares(most)
        self._few = 0
        self.refused: Final = RefusedAccount(clock)
        """Producers of which a batch was refused."""
        self.keeps: Keeps = keeps_nobody
        """Who is not forgotten, of all partitions: set by who goes by what they know of producers."""
        self.ended: Final = EndedAccount()
        """Transactions whose markers came a moment ago."""

    def charge(self, charged_to: str, more: int) -> None:
        """So many more are kept, or fewer: of a client, or of the few that each partition may keep."""
        if charged_to == FEW:
            self._few += more
        else:
            self._shares.charge(charged_to, more)

    @property
    def kept(self) -> int:
        """Producers of all clients."""
        return self._shares.used + self._few

    def is_short(self, client: str) -> bool:
        """There are as many of this client as there may be."""
        return not self._shares.has_room(client, 1)


class PartitionProducers:
    """One partition's idempotent producers. All methods return at once."""

    __slots__ = ("_count", "_ended", "_has_ended", "_refused", "_state", "guards")

    def __init__(self, count: ProducerCount) -> None:
        self._count = count
        self._state = ProducerState()
        self._state.charge_to(count.charge)
        self._refused = RefusedProducers(count.refused)
        self._ended = EndedTransactions(count.ended)
        self.guards = Guards()
        """Of those whose coordinators are being asked."""
        self._has_ended = False

    @property
    def state(self) -> ProducerState:
        """Those that have written here."""
        return self._state

    def begin(self, state: ProducerState, end: int = 0) -> None:
        """The partition was recovered, and ends here: this is what is known of its producers."""
        self._replace(state)
        self._ended.cut(end)

    def _replace(self, state: ProducerState) -> None:
        self._state.charge_to(None)
        self._state = state
        state.keeps = self._count.keeps
        self.guards.void_all()
        state.charge_to(self._count.charge)

    def led_elsewhere(self) -> None:
        """This gateway does not lead the partition for now. Where it does again under the same epoch, markers
        that were sent to it before may still come, and some of them have been here.
        """
        self._replace(ProducerState())

    def led_anew(self) -> None:
        """This gateway leads it under a later epoch: what was sent under an earlier one is refused."""
        self._ended.clear()

    def end(self) -> None:
        """The partition was deleted: nothing is remembered any more."""
        self._replace(ProducerState())
        self._refused.clear()
        self._ended.clear()
        self._has_ended = True

    def check(self, header: BatchHeader) -> Duplicate | None:
        """Whether this batch of an idempotent producer may be appended: None if so, else where it already is.

        Raises KafkaError as `ProducerState.check`, and NOT_ENOUGH_REPLICAS when an earlier batch of the
        producer was refused and is still to come, OUT_OF_ORDER_SEQUENCE_NUMBER when it was for good.
        """
        state = self._state
        producer_id, epoch, sequence = header.producer_id, header.producer_epoch, header.base_sequence
        try:
            duplicate = state.check(
                producer_id, epoch, sequence, header.count, is_transactional=header.is_transactional
            )
        except KafkaError:
            expected = state.expected(producer_id, epoch)
            if expected is not None and self._refused.is_awaited(producer_id, epoch, expected):
                self._refused.check(producer_id, epoch, sequence)
            raise
        if self._refused:
            if duplicate is not None:
                self._refused.accepted(producer_id, epoch, sequence, header.count)
            elif producer_id not in state:
                self._refused.check(producer_id, epoch, sequence)
        return duplicate

    def check_is_new(self, header: BatchHeader) -> None:
        """Whether a batch is behind all that its producer has written here, be there others in between.
        Raises KafkaError: DUPLICATE_SEQUENCE_NUMBER.
        """
        known = self._state.find(header.producer_id)
        if known is None or not known.batches:
            return
        has, comes = (known.epoch, known.last_sequence), (header.producer_epoch, header.base_sequence)
        if comes <= has:
            raise KafkaError(
                ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
                f"producer {header.producer_id} has written up to (epoch, sequence) {has}, and {comes} comes",
            )

    def appended(self, header: BatchHeader, last_offset: int, now_ms: int, client: str = NOBODY) -> None:
        """This batch of an idempotent producer, which `client` sent, is in the log; its last record has
        `last_offset`.
        """
        state, producer_id = self._state, header.producer_id
        if header.is_transactional:
            self.guards.void(producer_id)
        state.applied(
            producer_id,
            header.producer_epoch,
            header.base_sequence,
            last_offset,
            header.count,
            header.max_timestamp,
            now_ms,
            client,
            is_short=producer_id not in state and self._count.is_short(client),
            is_transactional=header.is_transactional,
        )
        if self._refused:
            self._refused.accepted(producer_id, header.producer_epoch, header.base_sequence, header.count)

    def why_no_room(self, header: BatchHeader, now_ms: int, client: str) -> str:
        """Why this transactional batch, which is the next one of its producer, cannot be taken now; "" if it
        can.
        """
        is_short = header.producer_id not in self._state and self._count.is_short(client)
        return self._state.why_no_room(header.producer_id, now_ms, client, is_short=is_short)

    def check_epoch(self, header: BatchHeader, now_ms: int, guard: Guard, client: str) -> None:
        """Whether a transactional batch may be appended that a coordinator writes for this client's producer.
        Raises KafkaError: INVALID_PRODUCER_EPOCH, or NOT_ENOUGH_REPLICAS if as many transactions are open as
        may be, or something has happened to the producer since the guard was taken.
        """
        known = self._state.find(header.producer_id)
        if known is not None and header.producer_epoch < known.epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {header.producer_id} has epoch {header.producer_epoch}, {known.epoch} is known",
            )
        if full := self.why_no_room(header, now_ms, client):
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, full)
        if not self.may_begin(header.producer_id, header.producer_epoch, guard):
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"the state of producer {header.producer_id} changed while its coordinator was asked",
            )

    def may_begin(self, producer_id: int, epoch: int, guard: Guard) -> bool:
        """Whether the transaction is open here, or nothing has happened since the guard was taken."""
        return self.is_open(producer_id, epoch) or self.guards.holds(producer_id, guard)

    def check_marker(self, marker: Marker) -> int | None:
        """Whether a marker may be appended: None if so, else the offset of the one that it repeats. Raises
        KafkaError as `markers.check_marker`.
        """
        if marker.number and (repeated := self._ended.find(marker)) is not None:
            return repeated
        check_marker(self._state.find(marker.producer_id), marker)
        return None

    def ended(self, marker: Marker, offset: int, now_ms: int) -> AbortedTransaction | None:
        """This marker is in the log, at `offset`; what it has aborted, if that is anything."""
        end = EndMarker(marker.is_commit, marker.coordinator_epoch)
        self.guards.void(marker.producer_id)
        if marker.number and not self._has_ended:
            self._ended.add(marker, offset, self._count.refused.clock())
        return self._state.ended(marker.producer_id, marker.producer_epoch, end, offset, now_ms, now_ms)

    def is_known(self, producer_id: int) -> bool:
        """Whether this producer has written here, and was not forgotten."""
        return producer_id in self._state

    def is_open(self, producer_id: int, epoch: int) -> bool:
        """Whether a transaction of this producer in this epoch is open here."""
        known = self._state.find(producer_id)
        return known is not None and known.has_open and known.epoch == epoch

    def first_open(self) -> int:
        """The first offset of the oldest open transaction; -1: none is open."""
        first = self._state.transactions.first_open()
        return NOTHING_OPEN if first is None else first

    @property
    def has_transactions(self) -> bool:
        """Whether a transaction is not decided yet, durably."""
        return bool(self._state.transactions)

    def last_stable_offset(self, high_watermark: int) -> int:
        """Below it everything is decided; what lies below the high watermark is durable."""
        return self._state.transactions.last_stable_offset(high_watermark)

    def refused(self, header: BatchHeader, client: str, *, for_good: bool = False) -> None:
        """This batch of any producer, which `client` sent, was refused and will be sent again, unless that
        was `for_good`: no later one may overtake it.
        """
        if header.producer_id >= 0 and not self._has_ended:
            self._refused.add(
                header.producer_id, header.producer_epoch, header.base_sequence, client, for_good=for_good
            )

    def undecided(self, header: BatchHeader) -> None:
        """This batch, of any producer, was appended, and the partition has failed before it was durable. Kept
        or not, recovery will tell; if not, it must come before what its producer sent later.
        """
        if header.is_control:
            return  # its coordinator sends it again
        written = self._state.find(header.producer_id)
        self.refused(header, NOBODY if written is None else written.client)

    def snapshot(self, now_ms: int) -> bytes:
        """The states as bytes for a segment's OPEN, b"" if there are none."""
        if not self._state.count:
            return b""
        return self._state.snapshot(now_ms)
