"""What a Produce does to the log, partition by partition: checks, and appends.

It is done in steps, which a request of a usual size takes all at once. Between them others have their turn,
or a worker thread opens batches: before anything is appended, for topics that ask for it; and, of a large
batch with timestamps out of bounds, to name its records. What its client sends on waits meanwhile: order
stays.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from math import inf
from typing import Any

import trio

from gateway.common.handlers import NotNow, Request
from gateway.configs.effective import EffectiveTopicConfigs
from gateway.log.appends import Append, Completion
from gateway.log.partition import Partition
from gateway.log.topic import Topic
from gateway.produce.opening import Opened, Opening, open_all, open_now
from gateway.produce.times import Outside, few_enough, name_in_thread, name_now
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.produce import ProducePartition, ProduceRequest, ProduceTopic
from wireproto.records.batch import BatchHeader, InvalidBatch, fix_max_timestamp, validate_produced
from wireproto.records.produced import check_timestamps

ZSTD_SINCE_VERSION = 7

MAX_TIMESTAMP_FIX_BYTES = 1024 * 1024
"""Inflated size up to which a maximum timestamp that cannot be true is computed from the records; it is done
on the loop, so it must not take long. No known client sends such a batch."""

PARTITIONS_A_TURN_COUNT = 500
"""Partitions of one request that are appended, or refused, before others have their turn: some
milliseconds."""

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


class Refused(KafkaError):
    """One partition's batch was refused; what the answer says beside the code."""

    def __init__(
        self,
        code: ErrorCode,
        message: str | None = None,
        log_start_offset: int = -1,
        record_errors: Sequence[tuple[int, str | None]] = (),
    ) -> None:
        super().__init__(code, message or "")
        self.said = message
        self.log_start_offset = -1 if code in NO_LOG_START else log_start_offset
        self.record_errors = record_errors

    def bare(self) -> "Refused":
        """Itself without the frames that it came through: it is kept until the request is answered, and a
        request may have thousands.
        """
        self.__context__ = None
        return self.with_traceback(None)


class Appending:
    """One request. `steps` gives a NotNow where it cannot go on, and goes on when it is asked again.

    `topics` are the outcomes so far, as the answer needs them; `failed`: a batch was refused.
    """

    __slots__ = (
        "_broker",
        "_completion",
        "_named",
        "_now_ms",
        "_opened",
        "_request",
        "failed",
        "steps",
        "topics",
    )

    def __init__(self, request: Request, broker: Any, completion: Completion) -> None:
        self._request = request
        self._broker = broker
        self._completion = completion
        self._now_ms = 0
        self._opened: dict[int, Opened] = {}
        """What came of opening batches, by the id of their data."""
        self._named: dict[int, Outside] = {}
        """Records with timestamps out of bounds, by the id of their data."""
        self.failed = False
        self.topics: list[tuple[ProduceTopic, list[tuple[int, Append | Refused]]]] = []
        self.steps = self._steps()

    def _steps(self) -> Iterator[NotNow]:
        """The whole work."""
        body: ProduceRequest = self._request.body
        while (not_now := self._before_any()) is not None:
            yield not_now
        # Judged once: if it closed between two batches of a producer, the second would overtake the first.
        has_room = self._broker.context.window_gate.is_open
        self._now_ms = self._broker.context.now_ms()
        done = 0
        for topic in body.topics:
            results: list[tuple[int, Append | Refused]] = []
            if topic.partitions:
                self.topics.append((topic, results))
            for data in topic.partitions:
                while isinstance(outcome := self._outcome(topic, data, has_room), NotNow):
                    yield outcome
                results.append((data.index, outcome))
                done += 1
                if not done % PARTITIONS_A_TURN_COUNT:
                    yield NotNow(trio.lowlevel.checkpoint)

    def _before_any(self) -> NotNow | None:
        """What has to be waited for before anything is appended."""
        if self._request.body.acks == 0 and (not_now := self._no_room()) is not None:
            return not_now
        return self._open_batches(
            [
                Opening(data, topic.settings, f"{topic.name}-{data.index}")
                for wanted in self._request.body.topics
                if (topic := self._topic(wanted)) is not None and topic.settings.opens_batches
                for data in wanted.partitions
                if data.records and not self._is_open(data, topic.settings)
            ]
        )

    def _no_room(self) -> NotNow | None:
        """For acks=0, where no error can be answered."""
        if not self._broker.context.window_gate.is_open:
            return NotNow(partial(self._broker.context.window_gate.wait, inf), for_room=True)
        for topic in self._request.body.topics:
            for data in topic.partitions:
                try:
                    found = self._partition(topic, data.index)
                except Refused:
                    continue  # it will be said when it is appended
                size = len(data.records or b"")
                if not found.room_for(size):
                    return NotNow(partial(found.wait_for_room, size), for_room=True)
        return None

    # ---------------------------------------------------------------------------------------- opened batches

    def _is_open(self, data: ProducePartition, settings: EffectiveTopicConfigs) -> bool:
        """Whether the batch was opened as its topic wants it now: that may have been altered, or made again,
        while a worker was at it.
        """
        opened = self._opened.get(id(data))
        return opened is not None and opened.settings == settings

    def _open_batches(self, openings: Sequence[Opening]) -> NotNow | None:
        """Open these."""
        if not openings:
            return None
        opened = open_now(openings, zstd_allowed=self._zstd_allowed)
        if opened is None:
            return NotNow(partial(self._open_in_threads, openings))
        self._opened |= opened
        return None

    async def _open_in_threads(self, openings: Sequence[Opening]) -> None:
        self._opened |= await open_all(openings, zstd_allowed=self._zstd_allowed)

    @property
    def _zstd_allowed(self) -> bool:
        return self._request.header.api_version >= ZSTD_SINCE_VERSION

    # --------------------------------------------------------------------------------------- one partition

    def _outcome(
        self, topic: ProduceTopic, data: ProducePartition, has_room: bool
    ) -> Append | Refused | NotNow:
        """What becomes of one batch."""
        try:
            append = self._append(topic, data, has_room)
        except Refused as error:
            self.failed = True
            return error.bare()
        except NotNow as not_now:
            return not_now
        append.wait_with(self._completion)
        return append

    def _append(self, wanted: ProduceTopic, data: ProducePartition, has_room: bool) -> Append:
        """Raises Refused, NotNow."""
        body: ProduceRequest = self._request.body
        if body.acks not in (-1, 0, 1):
            raise Refused(ErrorCode.INVALID_REQUIRED_ACKS, f"acks {body.acks}: 0, 1 and -1 (all) are allowed")
        partition = self._partition(wanted, data.index)
        if partition.topic.internal and self._request.header.client_id != ADMIN_CLIENT_ID:
            raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION)
        if body.transactional_id is not None:
            raise Refused(ErrorCode.INVALID_TXN_STATE, "transactions are not supported")
        records = data.records
        if not records:
            raise Refused(ErrorCode.INVALID_RECORD, "a partition without a record batch")
        settings = partition.topic.settings
        if settings.opens_batches:
            records = self._as_opened(data, partition)
        try:
            header = validate_produced(
                records,
                max_message_bytes=settings.max_message_bytes,
                zstd_allowed=self._zstd_allowed or settings.codec is not None,
            )
            if header.max_timestamp < header.base_timestamp:
                header = fix_max_timestamp(records, header, MAX_TIMESTAMP_FIX_BYTES)
            if not settings.log_append_time:
                now_ms = self._now_ms
                if (
                    header.base_timestamp < now_ms - settings.timestamp_before_max_ms
                    or header.max_timestamp > now_ms + settings.timestamp_after_max_ms
                ):
                    self._check_times(partition, header, data, records)
            if len(records) * 2 < len(self._request.frame):
                # The window and the cache would keep the whole frame in memory, and count only this.
                records = memoryview(bytearray(records))
            return partition.append(header, records, body.acks, self._now_ms, gateway_has_room=has_room)
        except Refused:
            raise
        except (InvalidBatch, KafkaError) as error:
            raise Refused(error.code, error.message, partition.log_start_offset) from None

    def _as_opened(self, data: ProducePartition, partition: Partition) -> memoryview:
        """The batch as it is to be appended. Raises Refused: a record has no key, or it cannot be read; and
        NotNow.
        """
        topic = partition.topic
        if not self._is_open(data, topic.settings):
            opening = Opening(data, topic.settings, f"{topic.name}-{data.index}")
            if (not_now := self._open_batches([opening])) is not None:
                raise not_now
        opened = self._opened[id(data)]
        if opened.error is not ErrorCode.NONE:
            raise Refused(opened.error, opened.message, partition.log_start_offset, opened.record_errors)
        return opened.records

    def _check_times(
        self, partition: Partition, header: BatchHeader, data: ProducePartition, records: memoryview
    ) -> None:
        """Raises Refused as Kafka answers it, unless the timestamp is none (-1); and NotNow."""
        settings, now_ms = partition.topic.settings, self._now_ms
        before, after = settings.timestamp_before_max_ms, settings.timestamp_after_max_ms
        try:
            check_timestamps(header, now_ms, before_max_ms=before, after_max_ms=after)
        except InvalidBatch as error:
            code = error.code
        else:
            return
        bounds = now_ms - before, now_ms + after
        outside = self._named.get(id(data))
        if outside is None:
            if not few_enough(header, records):
                raise NotNow(partial(self._name_in_thread, data, records, bounds))
            outside = name_now(records, bounds)
        raise Refused(
            code,
            "One or more records have been rejected due to invalid timestamp",
            partition.log_start_offset,
            outside,
        )

    async def _name_in_thread(
        self, data: ProducePartition, records: memoryview, bounds: tuple[int, int]
    ) -> None:
        self._named[id(data)] = await name_in_thread(records, bounds)

    # -------------------------------------------------------------------------------------------- where to

    def _topic(self, wanted: ProduceTopic) -> Topic | None:
        topics = self._broker.topics
        found: Topic | None = (
            topics.by_id(wanted.topic_id) if wanted.name is None else topics.get(wanted.name)
        )
        return found

    def _partition(self, wanted: ProduceTopic, index: int) -> Partition:
        topic = self._topic(wanted)
        if topic is None:
            by_id = wanted.name is None
            raise Refused(ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        partitions = topic.partitions
        if not 0 <= index < len(partitions):
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return partitions[index]
