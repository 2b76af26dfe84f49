"""Produce (key 0), versions 3 to 13; advertised from 0, as Kafka does.

Behaviour: each partition is checked and appended at once, in request order (`begin`); the answer waits until
every append has the durability that `acks` asks for, or the request's timeout is over. Errors are per
partition. acks=0 is never answered; if an append failed the connection is closed, as Kafka does, so that the
client looks again. Version notes: from 13 topics come by id; before 7 zstd is refused (KIP-110); 8 brings
record errors; 10 the current leader, which is left out (there is one). Errors: acks other than -1, 0, 1 ->
INVALID_REQUIRED_ACKS; unknown topic or partition -> 3 (by id: UNKNOWN_TOPIC_ID); no room in the window ->
NOT_ENOUGH_REPLICAS before anything is appended; not durable in time -> REQUEST_TIMED_OUT: the batch may still
become durable, as in Kafka. Skipped on purpose: transactions (a transactional id is refused by
InitProducerId; here with INVALID_TXN_STATE).
"""

from typing import Any

from gateway.api.registry import Request, Response, api
from gateway.log.appends import Append, Completion
from gateway.log.topic import Topic
from wireproto.kafka.errors import ErrorCode, KafkaError, MalformedRequest
from wireproto.kafka.produce import (
    ProducePartition,
    ProducePartitionResult,
    ProduceRequest,
    ProduceTopic,
    decode_produce,
    encode_produce_response,
)
from wireproto.records.batch import InvalidBatch, fix_max_timestamp, validate_produced

ZSTD_SINCE_VERSION = 7
MAX_TIMESTAMP_FIX_BYTES = 1024 * 1024
"""Inflated size up to which a maximum timestamp that cannot be true is computed from the records; it is done
on the loop, so it must not take long. No known client sends such a batch."""


class PendingProduce:
    """A Produce that took effect. `response` waits for the durability it asked for."""

    __slots__ = ("_broker", "_completion", "_failed", "_request", "_topics")

    def __init__(self, request: Request, broker: Any) -> None:
        self._request = request
        self._broker = broker
        self._completion = Completion()
        self._failed = False
        self._topics: list[tuple[ProduceTopic, list[tuple[int, Append | KafkaError]]]] = []

    def append_all(self) -> None:
        """Check and append every partition of the request."""
        body: ProduceRequest = self._request.body
        for topic in body.topics:
            results: list[tuple[int, Append | KafkaError]] = []
            for partition in topic.partitions:
                outcome: Append | KafkaError
                try:
                    outcome = self._append(topic, partition)
                    outcome.wait_with(self._completion)
                except KafkaError as error:
                    outcome = error
                    self._failed = True
                results.append((partition.index, outcome))
            self._topics.append((topic, results))
        self._broker.deliver()

    def _append(self, wanted: ProduceTopic, data: ProducePartition) -> Append:
        body: ProduceRequest = self._request.body
        if body.acks not in (-1, 0, 1):
            raise KafkaError(
                ErrorCode.INVALID_REQUIRED_ACKS, f"acks {body.acks}: 0, 1 and -1 (all) are allowed"
            )
        topic = self._topic(wanted)
        if not 0 <= data.index < len(topic.partitions):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if body.transactional_id is not None:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, "transactions are not supported")
        records = data.records
        if records is None or not len(records):
            raise KafkaError(ErrorCode.INVALID_RECORD, "a partition without a record batch")
        try:
            header = validate_produced(
                records,
                max_message_bytes=topic.settings.max_message_bytes,
                zstd_allowed=self._request.header.api_version >= ZSTD_SINCE_VERSION,
            )
            if header.max_timestamp < header.base_timestamp:
                header = fix_max_timestamp(records, header, MAX_TIMESTAMP_FIX_BYTES)
        except InvalidBatch as error:
            raise KafkaError(error.code, error.message) from None
        return topic.partitions[data.index].append(header, records, body.acks)

    def _topic(self, wanted: ProduceTopic) -> Topic:
        topics = self._broker.topics
        if wanted.name is not None:
            topic = topics.get(wanted.name)
            missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            topic = topics.by_id(wanted.topic_id)
            missing = ErrorCode.UNKNOWN_TOPIC_ID
        if topic is None:
            raise KafkaError(missing)
        found: Topic = topic
        return found

    async def response(self) -> Response:
        """The answer, once every append is durable as asked, or the request's timeout is over."""
        body: ProduceRequest = self._request.body
        await self._completion.wait(max(0, body.timeout_ms) / 1000, self._broker.timeouts)
        if body.acks == 0:
            if self._failed:
                raise MalformedRequest(
                    "an append with acks=0 failed: the client has to look for the leader again"
                )
            return None
        header = self._request.header
        return encode_produce_response(
            header.api_version,
            header.correlation_id,
            [
                (topic.name, topic.topic_id, [_result(index, outcome) for index, outcome in results])
                for topic, results in self._topics
            ],
        )


def _result(index: int, outcome: Append | KafkaError) -> ProducePartitionResult:
    if isinstance(outcome, KafkaError):
        return ProducePartitionResult(index, outcome.code, error_message=outcome.message or None)
    if not outcome.done:
        return ProducePartitionResult(
            index,
            ErrorCode.REQUEST_TIMED_OUT,
            error_message="appended, but not durable on enough stores within the request's timeout",
        )
    if outcome.error is not ErrorCode.NONE:
        return ProducePartitionResult(index, outcome.error, error_message=outcome.message)
    return ProducePartitionResult(
        index,
        ErrorCode.NONE,
        base_offset=outcome.base_offset,
        log_append_time_ms=outcome.log_append_time_ms,
        log_start_offset=outcome.log_start_offset,
    )


@api(
    key=0, name="Produce", min_version=3, max_version=13, advertised_min=0, begin=True, decoder=decode_produce
)
def begin(request: Request, broker: Any) -> PendingProduce:
    """Append what the request brings; the pending answer."""
    pending = PendingProduce(request, broker)
    pending.append_all()
    return pending
