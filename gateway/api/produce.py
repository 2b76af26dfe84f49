"""Produce (key 0), versions 3 to 13; advertised from 0, as Kafka does.

Behaviour: partitions are checked and appended in request order, usually at once (`begin`;
`gateway.produce.appending` says what that waits for); the answer waits until every append has the durability
that `acks` asks for, or the request's timeout (MAX_TIMEOUT_MS at most), counted from its arrival, is over.
Errors are per partition. acks=0 is never answered; if an append failed the connection is closed, as Kafka
does, so that the client looks again; but while there is no room such a request waits, and its client with it.

Version notes: from 13 topics come by id; before 7 zstd is refused (KIP-110); 8 brings record errors; 10 the
current leader of what another gateway leads (KIP-951).

Errors, besides those of a batch that is not what it must be (`wireproto.records.produced`) and of an
idempotent producer's sequence (`gateway.log.idempotence.state`):

* INVALID_REQUIRED_ACKS: acks other than -1, 0, 1;
* UNKNOWN_TOPIC_OR_PARTITION, or by an unknown id UNKNOWN_TOPIC_ID;
* INVALID_TOPIC_EXCEPTION: an internal topic, unless the client calls itself `__admin_client` and the gateway
  was started with `--admin-client-writes`;
* NOT_LEADER_OR_FOLLOWER: the partition is still being recovered (`gateway.produce.coming`), or has failed;
* NOT_ENOUGH_REPLICAS, before anything is appended: no room in the window; fewer stores there than must keep
  the batch (whatever acks says: nothing is visible before they do); or with acks=all, fewer than
  min.insync.replicas;
* REQUEST_TIMED_OUT: not durable in time; NOT_ENOUGH_REPLICAS_AFTER_APPEND when those stores are not there
  either. The batch may still become durable, as in Kafka;
* CLUSTER_AUTHORIZATION_FAILED: the producer id was given to another principal, or to a transactional id
  (`gateway.security.producer_ids`); INVALID_PRODUCER_ID_MAPPING: in a transaction, it was not given to this
  transactional id. Nothing of such a batch is looked at or remembered. Kafka asks nobody;
* INVALID_TIMESTAMP: under CreateTime, a timestamp outside of the topic's bounds;
* INVALID_RECORD for a batch whose records cannot be read (`wireproto.records.walk`), or of which some have no
  key, on a compacted topic: these are named.

Skipped on purpose: transactions (a transactional id is refused by InitProducerId; here with
INVALID_TXN_STATE).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gateway.cluster.told_leaders import ToldLeaders
from gateway.common.error_counts import ErrorCounts
from gateway.common.handlers import Request, Response, api
from gateway.log.appends import Append, Completion
from gateway.produce.appending import Appending, RefusedBatch
from wireproto.kafka.errors import ErrorCode, MalformedRequest
from wireproto.kafka.produce import (
    LEADERS_FROM,
    ProducePartitionResult,
    ProduceRequest,
    decode_few_partitions,
    decode_produce,
    encode_produce_response,
)

if TYPE_CHECKING:
    from gateway.broker import Broker


MAX_TIMEOUT_MS = 300_000
"""Longest that a Produce waits for stores, whatever it asks for: the same as a Fetch for records. Clients ask
for 30 s (`request.timeout.ms`), and give up by themselves after two minutes (`delivery.timeout.ms`)."""


class PendingProduce:
    """A Produce that took effect; `ready` when it has the durability it asked for
    (`gateway.common.handlers.PendingResponse`).
    """

    __slots__ = ("_broker", "_completion", "_request", "appending")

    def __init__(self, request: Request, broker: Broker) -> None:
        self._request = request
        self._broker = broker
        timeout_ms = min(max(0, request.body.timeout_ms), MAX_TIMEOUT_MS)
        deadline = request.arrived + timeout_ms / 1000
        self._completion = Completion(broker.completions, deadline)
        self.appending = Appending(request, broker, self._completion, broker.verifier, broker.coming)

    @property
    def ready(self) -> bool:
        """Every append is durable as asked or failed, or the request's timeout is over."""
        return self._completion.over

    def when_ready(self, call: Callable[[], None]) -> None:
        """Have `call` called once, soon after it has become ready."""
        self._completion.when_over(call)

    def forget(self) -> None:
        """Nobody waits any more."""
        self._completion.forget()

    def _there(self, outcome: Append | RefusedBatch) -> bool:
        """Whether enough of the stores are there that an append waits for."""
        if isinstance(outcome, RefusedBatch) or outcome.done or outcome.writer is None:
            return True
        writer = outcome.writer
        return bool(self._broker.stores.enough(writer.members, writer.w))

    def response(self) -> Response:
        """The answer. Raises MalformedRequest when there can be none, for acks=0, and something failed."""
        body: ProduceRequest = self._request.body
        if body.acks == 0:
            if self.appending.failed:
                raise MalformedRequest(
                    "an append with acks=0 failed: the client has to look for the leader again"
                )
            return None
        header = self._request.header
        errors = self._broker.context.errors
        told = ToldLeaders(self._broker.gateways, self._request.local_address)
        topics = [
            (
                topic.name,
                topic.topic_id,
                [_result(index, outcome, self._there(outcome), errors) for index, outcome in results],
            )
            for topic, results in self.appending.topics
        ]
        if header.api_version >= LEADERS_FROM and self._broker.gateways.others:
            for name, topic_id, results in topics:
                self._tell_leaders(name, topic_id, results, told)
        charges = self._request.charges
        return encode_produce_response(
            header.api_version,
            header.correlation_id,
            topics,
            0 if charges is None else charges.throttle_ms,
            nodes=told.nodes,
        )

    def _tell_leaders(
        self,
        name: str | None,
        topic_id: bytes | None,
        results: Sequence[ProducePartitionResult],
        told: ToldLeaders,
    ) -> None:
        topics = self._broker.topics
        topic = topics.get(name or "") if topic_id is None else topics.by_id(topic_id)
        for result in results:
            if result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                result.current_leader = told.of(topic, result.index)


NOT_IN_TIME = "appended, but not durable on enough stores within the request's timeout"


def _result(
    index: int, outcome: Append | RefusedBatch, there: bool, errors: ErrorCounts
) -> ProducePartitionResult:
    if isinstance(outcome, RefusedBatch):
        errors.count("Produce", outcome.code.name)
        return ProducePartitionResult(
            index,
            outcome.code,
            log_start_offset=outcome.log_start_offset,
            error_message=outcome.said,
            record_errors=outcome.record_errors,
        )
    if not outcome.done:
        code = ErrorCode.REQUEST_TIMED_OUT if there else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        errors.count("Produce", code.name)
        return ProducePartitionResult(index, code, error_message=NOT_IN_TIME)
    if outcome.error is not ErrorCode.NONE:
        errors.count("Produce", outcome.error.name)
        return ProducePartitionResult(index, outcome.error, error_message=outcome.message)
    return ProducePartitionResult(
        index,
        ErrorCode.NONE,
        base_offset=outcome.base_offset,
        log_append_time_ms=outcome.log_append_time_ms,
        log_start_offset=outcome.log_start_offset,
    )


@api(
    key=0,
    name="Produce",
    min_version=3,
    max_version=13,
    advertised_min=0,
    begin=True,
    decoder=decode_few_partitions,
    large_decoder=decode_produce,
)
async def begin(request: Request, broker: Broker) -> PendingProduce:
    """Append what the request brings; the pending answer. Raises NoRoom."""
    pending = PendingProduce(request, broker)
    if request.charges is not None:
        request.charges.produced(len(request.frame), is_answered=request.body.acks != 0)
    try:
        await pending.appending.append_all()
    finally:
        broker.deliver()
    return pending
