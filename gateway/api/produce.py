"""Produce (key 0), versions 3 to 13; advertised from 0, as Kafka does.

Behaviour: each partition is checked and appended at once, in request order (`begin`); the answer waits until
every append has the durability that `acks` asks for, or the request's timeout, counted from its arrival, is
over. Errors are per partition. acks=0 is never answered; if an append failed the connection is closed, as
Kafka does, so that the client looks again; but while there is no room such a request waits, and its client
with it.

Version notes: from 13 topics come by id; before 7 zstd is refused (KIP-110); 8 brings record errors; 10 the
current leader, which is left out (there is one).

Errors: acks other than -1, 0, 1 -> INVALID_REQUIRED_ACKS; unknown topic or partition -> 3 (by id:
UNKNOWN_TOPIC_ID); no room in the window, fewer stores there than must keep the batch (whatever acks says:
nothing is visible before they do), or with acks=all fewer than min.insync.replicas -> NOT_ENOUGH_REPLICAS
before anything is appended; not durable in time -> REQUEST_TIMED_OUT, or NOT_ENOUGH_REPLICAS_AFTER_APPEND
when those stores are not there: the batch may still become durable, as in Kafka; under CreateTime, a
timestamp outside of the topic's bounds -> INVALID_TIMESTAMP; an internal topic -> INVALID_TOPIC_EXCEPTION,
unless the client calls itself `__admin_client`; a record without a key on a compacted topic -> INVALID_RECORD
for the batch, with each such record named.

Skipped on purpose: transactions (a transactional id is refused by InitProducerId; here with
INVALID_TXN_STATE).
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import Any

from gateway.api.produce_opening import Opened, Opening, open_all, open_now
from gateway.api.registry import NotNow, Request, Response, api
from gateway.log.appends import Append, Completion
from gateway.log.partition import Partition
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
from wireproto.records.batch import BatchHeader, InvalidBatch, fix_max_timestamp, validate_produced
from wireproto.records.header import NO_TIMESTAMP
from wireproto.records.iteration import iter_records
from wireproto.records.produced import check_timestamps

ZSTD_SINCE_VERSION = 7
MAX_TIMESTAMP_FIX_BYTES = 1024 * 1024
"""Inflated size up to which a maximum timestamp that cannot be true is computed from the records; it is done
on the loop, so it must not take long. No known client sends such a batch."""

MAX_RECORD_ERRORS = 256
"""A batch with a timestamp out of bounds is opened to name its records, on the loop, if it has no more than
so many; beyond it the answer names none."""

MAX_NAMED_RECORDS_BYTES = 64 * 1024
"""And if it is no larger than this when inflated."""

ADMIN_CLIENT_ID = "__admin_client"
"""Who calls himself so may append to internal topics (`KafkaApis.handleProduceRequest`), for repairs."""

NO_LOG_START = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.INVALID_TXN_STATE,
    }
)
"""Errors that Kafka answers without the partition's log start offset (`ReplicaManager.appendToLocalLog`)."""


class _Refused(KafkaError):
    """One partition's batch was refused; what the answer says beside the code."""

    def __init__(
        self,
        code: ErrorCode,
        message: str | None = None,
        log_start_offset: int = -1,
        record_errors: list[tuple[int, str | None]] | None = None,
    ) -> None:
        super().__init__(code, message or "")
        self.said = message
        self.log_start_offset = -1 if code in NO_LOG_START else log_start_offset
        self.record_errors = record_errors or []


class PendingProduce:
    """A Produce that took effect; `ready` when it has the durability it asked for
    (`gateway.api.registry.PendingResponse`).
    """

    __slots__ = ("_broker", "_completion", "_failed", "_request", "_topics")

    def __init__(self, request: Request, broker: Any) -> None:
        self._request = request
        self._broker = broker
        deadline = request.arrived + max(0, request.body.timeout_ms) / 1000
        self._completion = Completion(broker.completions, deadline)
        self._failed = False
        self._topics: list[tuple[ProduceTopic, list[tuple[int, Append | _Refused]]]] = []

    def append_all(self) -> None:
        """Check and append every partition of the request."""
        body: ProduceRequest = self._request.body
        # Judged once: if it closed between two batches of a producer, the second would overtake the first.
        has_room = self._broker.context.window_gate.is_open
        now_ms = self._broker.context.now_ms()
        if body.acks == 0:
            self._check_room(has_room)
        if self._request.opened is None:
            self._open_batches()
        for topic in body.topics:
            results: list[tuple[int, Append | _Refused]] = []
            for data in topic.partitions:
                outcome: Append | _Refused
                try:
                    outcome = self._append(topic, data, has_room, now_ms)
                    outcome.wait_with(self._completion)
                except _Refused as error:
                    outcome = error
                    self._failed = True
                results.append((data.index, outcome))
            if results:
                self._topics.append((topic, results))
        self._broker.deliver()

    def _check_room(self, gateway_has_room: bool) -> None:
        """For acks=0, where no error can be answered. Raises NotNow."""
        if not gateway_has_room:
            raise NotNow(partial(self._broker.context.window_gate.wait, inf))
        body: ProduceRequest = self._request.body
        for topic in body.topics:
            for data in topic.partitions:
                try:
                    found = self._partition(topic, data.index)
                except _Refused:
                    continue  # it will be said when it is appended
                size = len(data.records or b"")
                if not found.room_for(size):
                    raise NotNow(partial(found.wait_for_room, size))

    @property
    def _zstd_allowed(self) -> bool:
        return self._request.header.api_version >= ZSTD_SINCE_VERSION

    def _open_batches(self) -> None:
        """Open those whose topics ask for it. Raises NotNow: nothing is appended before that is done."""
        openings: list[Opening] = []
        for wanted in self._request.body.topics:
            topic = self._topic(wanted)
            if topic is not None and topic.settings.opens_batches:
                openings += [
                    Opening(data, topic.settings, f"{topic.name}-{data.index}")
                    for data in wanted.partitions
                    if data.records
                ]
        if openings:
            self._request.opened = open_now(openings, zstd_allowed=self._zstd_allowed)
            if self._request.opened is None:
                raise NotNow(partial(self._open_in_threads, openings))

    async def _open_in_threads(self, openings: Sequence[Opening]) -> None:
        self._request.opened = await open_all(openings, zstd_allowed=self._zstd_allowed)

    def _topic(self, wanted: ProduceTopic) -> Topic | None:
        topics = self._broker.topics
        found: Topic | None = (
            topics.by_id(wanted.topic_id) if wanted.name is None else topics.get(wanted.name)
        )
        return found

    def _append(self, wanted: ProduceTopic, data: ProducePartition, has_room: bool, now_ms: int) -> Append:
        body: ProduceRequest = self._request.body
        if body.acks not in (-1, 0, 1):
            raise _Refused(
                ErrorCode.INVALID_REQUIRED_ACKS, f"acks {body.acks}: 0, 1 and -1 (all) are allowed"
            )
        partition = self._partition(wanted, data.index)
        if partition.topic.internal and self._request.header.client_id != ADMIN_CLIENT_ID:
            raise _Refused(ErrorCode.INVALID_TOPIC_EXCEPTION)
        if body.transactional_id is not None:
            raise _Refused(ErrorCode.INVALID_TXN_STATE, "transactions are not supported")
        records = data.records
        if not records:
            raise _Refused(ErrorCode.INVALID_RECORD, "a partition without a record batch")
        settings = partition.topic.settings
        if settings.opens_batches and self._request.opened is not None:
            records = self._opened(data, records, partition)
        try:
            header = validate_produced(
                records,
                max_message_bytes=settings.max_message_bytes,
                zstd_allowed=self._zstd_allowed or settings.codec is not None,
            )
            if header.max_timestamp < header.base_timestamp:
                header = fix_max_timestamp(records, header, MAX_TIMESTAMP_FIX_BYTES)
            if not settings.log_append_time and (
                header.base_timestamp < now_ms - settings.timestamp_before_max_ms
                or header.max_timestamp > now_ms + settings.timestamp_after_max_ms
            ):
                self._check_times(partition, header, records, now_ms)
            if len(records) * 2 < len(self._request.frame):
                # The window and the cache would keep the whole frame in memory, and count only this.
                records = memoryview(bytearray(records))
            return partition.append(header, records, body.acks, now_ms, gateway_has_room=has_room)
        except _Refused:
            raise
        except (InvalidBatch, KafkaError) as error:
            raise _Refused(error.code, error.message, partition.log_start_offset) from None

    def _opened(self, data: ProducePartition, records: memoryview, partition: Partition) -> memoryview:
        """The batch as it is to be appended. Raises _Refused: a record has no key, or it cannot be read."""
        opened: Opened | None = self._request.opened.get(id(data))
        if opened is None:
            return records  # the topic was altered while the request waited
        if opened.error is not ErrorCode.NONE:
            raise _Refused(
                opened.error, opened.message, partition.log_start_offset, list(opened.record_errors)
            )
        return opened.records

    @staticmethod
    def _check_times(partition: Partition, header: BatchHeader, records: memoryview, now_ms: int) -> None:
        """Raises _Refused as Kafka answers it, unless the timestamp is none (-1)."""
        settings = partition.topic.settings
        before, after = settings.timestamp_before_max_ms, settings.timestamp_after_max_ms
        try:
            check_timestamps(header, now_ms, before_max_ms=before, after_max_ms=after)
        except InvalidBatch as error:
            raise _Refused(
                error.code,
                "One or more records have been rejected due to invalid timestamp",
                partition.log_start_offset,
                _outside(header, records, now_ms - before, now_ms + after),
            ) from None

    def _partition(self, wanted: ProduceTopic, index: int) -> Partition:
        topic = self._topic(wanted)
        if topic is None:
            by_id = wanted.name is None
            raise _Refused(ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        partitions = topic.partitions
        if not 0 <= index < len(partitions):
            raise _Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return partitions[index]

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

    def _there(self, outcome: Append | _Refused) -> bool:
        """Whether enough of the stores are there that an append waits for."""
        if isinstance(outcome, _Refused) or outcome.done or outcome.writer is None:
            return True
        writer = outcome.writer
        return bool(self._broker.context.stores.enough(writer.members, writer.w))

    def response(self) -> Response:
        """The answer. Raises MalformedRequest when there can be none, for acks=0, and something failed."""
        body: ProduceRequest = self._request.body
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
                (
                    topic.name,
                    topic.topic_id,
                    [_result(index, outcome, self._there(outcome)) for index, outcome in results],
                )
                for topic, results in self._topics
            ],
        )


NOT_IN_TIME = "appended, but not durable on enough stores within the request's timeout"


def _outside(
    header: BatchHeader, records: memoryview, earliest: int, latest: int
) -> list[tuple[int, str | None]]:
    """The records of a small batch whose timestamps are not within these, in Kafka's words."""
    if header.count > MAX_RECORD_ERRORS:
        return []
    allowed = f" The timestamp should be within [{earliest}, {latest}]"
    try:
        return [
            (
                index,
                f"Timestamp {record.timestamp} of message with offset {record.offset} is out of range."
                + allowed,
            )
            for index, record in enumerate(iter_records(records, MAX_NAMED_RECORDS_BYTES))
            if record.timestamp != NO_TIMESTAMP and not earliest <= record.timestamp <= latest
        ]
    except InvalidBatch:
        return []


def _result(index: int, outcome: Append | _Refused, there: bool) -> ProducePartitionResult:
    if isinstance(outcome, _Refused):
        return ProducePartitionResult(
            index,
            outcome.code,
            log_start_offset=outcome.log_start_offset,
            error_message=outcome.said,
            record_errors=outcome.record_errors,
        )
    if not outcome.done:
        code = ErrorCode.REQUEST_TIMED_OUT if there else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ProducePartitionResult(index, code, error_message=NOT_IN_TIME)
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
