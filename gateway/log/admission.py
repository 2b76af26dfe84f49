"""Whether a partition takes a batch now.

Nothing of a refused batch is in the log. Where its producer will send it again, that is remembered, so that
no later batch overtakes it (`gateway.log.idempotence.refused`).
"""

from typing import TYPE_CHECKING

from gateway.log.idempotence.state import Duplicate
from gateway.log.pending import PendingAppends
from gateway.log.placement import Placement
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.records.header import BatchHeader

if TYPE_CHECKING:
    from gateway.log.context import LogContext
    from gateway.log.partition import Partition


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
        self, header: BatchHeader, size: int, acks: int, gateway_has_room: bool, client: str
    ) -> Duplicate | None:
        """Whether a batch of `size` bytes may be appended now: None if so, where its original is if it is a
        duplicate.

        Raises KafkaError as `Partition.append`.
        """
        partition = self._partition
        if not partition.available:
            partition.asked_for()
            raise self._refusal(header, client, partition.reason, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if self._stores.presence is not None and not self._placement.may_become_durable():
            raise self._refusal(header, client, self._placement.who_is_away())
        if (
            acks == -1
            and (wanted := partition.topic.settings.min_insync_replicas) > 1
            and (too_few := self._placement.why_too_few(wanted))
        ):
            raise self._refusal(header, client, too_few)
        if header.producer_id >= 0:
            duplicate = partition.producers.check(header)
            if duplicate is not None:
                return duplicate
        if not gateway_has_room:
            raise self._refusal(
                header, client, "the stores take records more slowly than producers send them"
            )
        if not self._pending.has_room(size):
            raise self._refusal(header, client, f"{self._pending} wait for the stores already")
        return None

    def _refusal(
        self, header: BatchHeader, client: str, message: str, code: ErrorCode = ErrorCode.NOT_ENOUGH_REPLICAS
    ) -> KafkaError:
        """The error for a batch that will be sent again: no later one of its producer may overtake it."""
        self._partition.producers.refused(header, client)
        return KafkaError(code, message)
