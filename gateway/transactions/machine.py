"""The state machine of one transactional id.

Pure: requests in; out comes an answer, or what is to be written before the answer is given. Rules:

* what is to be written is **pending** until the caller says `durable` or `failed`: only then what is known
  changes, or nothing does. Whoever asks for a change meanwhile is told CONCURRENT_TRANSACTIONS, and asks
  again;
* so what was answered is what the log has, and an append that has failed fences nobody;
* whoever does not know whether an append has failed says neither: the id is loaded anew from the log;
* a request that needs a new producer id says so (`Needs`), and is made once more with one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gateway.transactions.adding import AddPartitions, add, verify
from gateway.transactions.ending import EndTxn, complete, end, fence, while_pending
from gateway.transactions.initialising import InitProducerId, initialise
from gateway.transactions.metadata import TopicPartition, TransactionMetadata, TransactionState
from gateway.transactions.outcomes import BUSY, DONE, Answer, Needs, Outcome, Write
from wireproto.kafka.errors import ErrorCode


class TransactionMachine:
    """One transactional id. `metadata` is what the log has of it, durably: None for an id that is new.

    `server_version` says the `transaction.version` by which the gateway itself aborts transactions at this
    moment. All times are ms since 1970.
    """

    __slots__ = ("_server_version", "metadata", "pending")

    def __init__(
        self, metadata: TransactionMetadata | None = None, *, server_version: Callable[[], int] = int
    ) -> None:
        self.metadata = metadata
        self.pending: Write | None = None
        """What is on its way to the log."""
        self._server_version = server_version

    # requests ----------------------------------------------------------------------------------------------

    def init_producer_id(
        self,
        request: InitProducerId,
        now_ms: int,
        new_producer_id: int | None = None,
        *,
        keeps_id: bool = True,
    ) -> Outcome:
        """A producer begins, or goes on after an error; `keeps_id` as for `initialise`."""
        if self.pending is not None:
            return BUSY
        version = self._server_version()
        return self._decided(
            initialise(self.metadata, request, now_ms, version, new_producer_id, keeps_id=keeps_id)
        )

    def add_partitions(self, request: AddPartitions, now_ms: int) -> Answer | Write:
        """A producer is about to write to partitions."""
        if self.pending is not None:
            return BUSY
        outcome = self._decided(add(self.metadata, request, now_ms))
        assert not isinstance(outcome, Needs), "adding partitions needs no producer id"
        return outcome

    def verify_partitions(
        self, producer_id: int, producer_epoch: int, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Whether partitions are in a producer's transaction."""
        return verify(self.metadata, producer_id, producer_epoch, partitions)

    def end(self, request: EndTxn, now_ms: int, new_producer_id: int | None = None) -> Outcome:
        """A producer commits or aborts."""
        if self.pending is not None:
            return while_pending(self.metadata, request)
        return self._decided(end(self.metadata, request, now_ms, new_producer_id))

    # what happens by itself --------------------------------------------------------------------------------

    def time_out(self, now_ms: int, new_producer_id: int | None = None) -> Outcome:
        """Abort its transaction, if that has been open for too long; DONE if not."""
        if self.metadata is None or not self.metadata.is_timed_out(now_ms):
            return DONE
        return self.abort(now_ms, new_producer_id)

    def abort(self, now_ms: int, new_producer_id: int | None = None) -> Outcome:
        """Abort its transaction, and fence its producer; DONE if none is open, or something is on its way."""
        if self.pending is not None or self.metadata is None:
            return DONE
        if self.metadata.state is not TransactionState.ONGOING:
            return DONE
        return self._decided(fence(self.metadata, now_ms, self._server_version(), new_producer_id))

    def expire(self, now_ms: int, expiration_ms: int) -> Answer | Write:
        """Forget it, if nobody has used it for so long; DONE if somebody has."""
        if self.pending is not None or self.metadata is None:
            return DONE
        if not self.metadata.is_idle(now_ms, expiration_ms):
            return DONE
        self.pending = Write(None, DONE)
        return self.pending

    def complete(self, now_ms: int) -> Write | None:
        """Every partition has its marker; None if there is nothing to complete."""
        if self.pending is not None or self.metadata is None or not self.metadata.is_prepared:
            return None
        self.pending = Write(complete(self.metadata, now_ms), DONE)
        return self.pending

    # what becomes of that ----------------------------------------------------------------------------------

    def durable(self) -> None:
        """What is pending is in the log, durably."""
        assert self.pending is not None, "nothing is on its way to the log"
        self.metadata, self.pending = self.pending.metadata, None

    def failed(self) -> None:
        """What is pending is not in the log, and never will be."""
        assert self.pending is not None, "nothing is on its way to the log"
        self.pending = None

    def _decided(self, outcome: Outcome) -> Outcome:
        if isinstance(outcome, Write):
            self.pending = outcome
        return outcome
