"""Whether a partition takes a batch now.

Nothing of a refused batch is in the log. Where its producer will send it again, that is remembered, so that
no later batch overtakes it (`gateway.log.idempotence.refused`).
"""

from typing import TYPE_CHECKING, Final

from gateway.log.idempotence.sequences import Duplicate
from gateway.log.pending import PendingAppends
from gateway.log.placement import Placement
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.records.header import BatchHeader

if TYPE_CHECKING:
    from gateway.log.context import LogContext
    from gateway.log.partition import Partition


ACKS_ALL: Final = -1


class Admission:
    """The admission of batches to one partition."""

    __slots__ = ("_partition", "_pending", "_placement", "_stores")

    def __init__(
        self, context: "LogContext", partition: "Partition", pending: PendingAppends, placement: Placement
    ) -> None:
        self._stores = context.stores
        self._partition = partition
        self._pending = pending
        self._placement = placement

    def admit(
        self, header: BatchHeader, size: int, acks: int, gateway_has_room: bool, now_ms: int, client: str
    ) -> Duplicate | None:
        """Whether a batch of `size` bytes may be appended now: None if so, where its original is if it is a
        duplicate.

        Raises KafkaError as `Partition.append`.
        """
        partition = self._partition
        if not partition.available:
            partition.asked_for()
            raise self._refusal(header, client, partition.reason, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if too_few := self._why_too_few(acks):
            raise self._refusal(header, client, too_few)
        if header.producer_id >= 0:
            duplicate = partition.producers.check(header)
            if duplicate is not None:
                return duplicate
            if header.is_transactional and (full := partition.producers.why_no_room(header, now_ms, client)):
                raise self._refusal(header, client, full)
        if not gateway_has_room:
            raise self._refusal(
                header, client, "the stores take records more slowly than producers send them"
            )
        if not self._pending.has_room(size):
            raise self._refusal(header, client, f"{self._pending} wait for the stores already")
        return None

    def admit_of_coordinator(self, size: int) -> None:
        """Whether a batch of `size` bytes that a coordinator writes, or the gateway itself, may be appended
        now. Raises KafkaError as `Partition.append_marker`: it comes again.
        """
        partition = self._partition
        if partition.is_leaving:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the partition is about to be led elsewhere")
        if not partition.available:
            partition.asked_for()
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, partition.reason)
        if too_few := self._why_too_few(ACKS_ALL):
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, too_few)
        if not self._pending.has_room(size):
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, f"{self._pending} wait for the stores already")

    def _why_too_few(self, acks: int) -> str:
        """Why there are too few stores for a batch with these acks; "" if there are enough."""
        if self._stores.presence is not None and not self._placement.may_become_durable():
            return self._placement.who_is_away()
        if acks == ACKS_ALL:
            wanted = self._partition.topic.settings.min_insync_replicas
            return self._placement.why_too_few(wanted) if wanted > 1 else ""
        return ""

    def _refusal(
        self, header: BatchHeader, client: str, message: str, code: ErrorCode = ErrorCode.NOT_ENOUGH_REPLICAS
    ) -> KafkaError:
        """The error for a batch that will be sent again: no later one of its producer may overtake it."""
        self._partition.producers.refused(header, client)
        return KafkaError(code, message)
