"""What a Produce does to the log, partition by partition: checks, and appends.

Each batch is opened before it is appended (`gateway.produce.opening`), unless `--trust-batches` says
otherwise.

A request of a usual size is done without giving up control. Others wait: for room in the log, if no error
could be answered (acks=0); for partitions that are about to serve (`gateway.produce.coming`), and while large
batches are opened, before anything is appended; while those that are compressed anew are opened, each in its
turn; while the records of a large batch with timestamps out of bounds are named; and while others have their
turn. What its client sends on waits meanwhile: order stays.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from math import inf
from typing import TYPE_CHECKING, NamedTuple

import trio

from gateway.cluster.producer_id_owners import MAX_OWNER_CHARS
from gateway.common.costs import (
    HASHED_CHARACTER,
    HEADER,
    LOOKED,
    NAMED_RECORD,
    PRODUCED_BATCH,
    PRODUCED_KIB,
    RECORD,
)
from gateway.common.handlers import Request
from gateway.common.turns import TURN
from gateway.common.work import BREATH
from gateway.configs.effective import EffectiveTopicConfigs
from gateway.log.appends import Append, Completion
from gateway.log.partition import Partition
from gateway.log.topic import Topic
from gateway.produce.coming import LEAST_TIMEOUT_MS, Coming
from gateway.produce.opening import (
    MAX_NAMED_RECORDS,
    Opened,
    Opening,
    elements,
    is_remade,
    is_small,
    open_in_slices,
    open_now,
)
from gateway.produce.times import few_enough, name_in_slices, name_now
from gateway.produce.verification import NO_TRANSACTIONAL_ID, Verification
from gateway.security.acls import CLUSTER_NAME, Operation, ResourceType
from gateway.security.producer_ids import BOUND
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.produce import ProducePartition, ProduceRequest, ProduceTopic
from wireproto.records.batch import (
    BatchHeader,
    InvalidBatch,
    fix_max_timestamp,
    is_transactional,
    validate_produced,
)
from wireproto.records.produced import check_timestamps

if TYPE_CHECKING:
    from gateway.cluster.cluster import Cluster
    from gateway.transactions.verifier import Verifier

ZSTD_SINCE_VERSION = 7

MAX_TIMESTAMP_FIX_BYTES = 1024 * 1024
"""Inflated size up to which a maximum timestamp that cannot be true is computed from the records; it is done
on the loop, so it must not take long. No known client sends such a batch."""

PARTITIONS_A_TURN_COUNT = TURN // PRODUCED_BATCH
"""Partitions of one request that are refused for what they are before others have their turn; batches that
are opened, or large, are fewer."""

ADMIN_CLIENT_ID = "__admin_client"
"""Who calls himself so may append to internal topics (`KafkaApis.handleProduceRequest`), for repairs. Anybody
can: so he needs CLUSTER_ACTION besides, or where everybody may do everything, `--admin-client-writes`."""

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
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
"""Errors that Kafka answers without the partition's log start offset (`ReplicaManager.appendToLocalLog`)."""


class RefusedBatch(KafkaError):
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

    def bare(self) -> RefusedBatch:
        """Itself without the frames that it came through: it is kept until the request is answered, and a
        request may have thousands.
        """
        self.__context__ = None
        return self.with_traceback(None)


class _Unnamed(NamedTuple):
    """A refused batch whose records with timestamps out of `bounds` are too many to be named on the loop."""

    batch: RefusedBatch
    records: memoryview
    bounds: tuple[int, int]


def _cost(records: memoryview | None) -> int:
    """What a batch costs at most that is looked through at once, and appended or refused."""
    if not records:
        return PRODUCED_BATCH
    return PRODUCED_BATCH + (len(records) >> 10) * PRODUCED_KIB + elements(records) * RECORD


class Appending:
    """One request; `append_all` is the whole work.

    `topics` are the outcomes so far, as the answer needs them; `failed`: a batch was refused.
    """

    __slots__ = (
        "_broker",
        "_coming",
        "_completion",
        "_denied",
        "_has_room",
        "_names_left",
        "_now_ms",
        "_opened",
        "_request",
        "_unknown",
        "_unnamed",
        "_verification",
        "_verifier",
        "failed",
        "topics",
    )

    def __init__(
        self, request: Request, broker: Cluster, completion: Completion, verifier: Verifier, coming: Coming
    ) -> None:
        self._request = request
        self._broker = broker
        self._verifier = verifier
        self._coming = coming
        self._completion = completion
        self._now_ms = 0
        self._has_room = True
        self._opened: dict[int, Opened] = {}
        """What came of opening batches, by the id of their data."""
        self._unnamed: _Unnamed | None = None
        self._names_left = MAX_NAMED_RECORDS
        """Records that the answer may still name."""
        self._verification: Verification | None = None
        """Of a request with a transactional id."""
        self._denied: set[int] = set()
        """The topics of the request to which its client may not write, by their ids in memory."""
        self._unknown: set[int] = set()
        """Those whose ids were not known when that was looked at."""
        self.failed = False
        self.topics: list[tuple[ProduceTopic, list[tuple[int, Append | RefusedBatch]]]] = []

    async def append_all(self) -> None:
        """Check and append every partition of the request. A checkpoint only if it waits. Raises NoRoom."""
        body: ProduceRequest = self._request.body
        if not self._request.access.is_unrestricted:
            if await self._is_denied():
                self._refuse_all(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
                return
            await self._deny_topics()
        await self._get_ready()  # of a partition that does not serve yet nothing can be asked
        if body.transactional_id is None:
            await self._append_all()
            return
        verification = self._verification = self._verification_of(body)
        try:
            await self._verify(verification)
            await self._append_all()
        finally:
            verification.close()

    def _verification_of(self, body: ProduceRequest) -> Verification:
        return Verification(body.transactional_id, self._request.header.api_version, self._request.client)

    async def _verify(self, verification: Verification) -> None:
        """Ask whether the batches are part of an open transaction, as far as that is not known."""
        body: ProduceRequest = self._request.body
        for wanted in body.topics:
            topic = self._topic(wanted)
            for data in wanted.partitions:
                if topic is not None and data.records and 0 <= data.index < len(topic.partitions):
                    verification.take(topic.partitions[data.index], data.records)
        if verification.is_needed:
            assert body.transactional_id is not None
            self._request.work.owes(
                self._verifier.cost(body.transactional_id, body.elements, adds=verification.adds)
            )
            await self._request.wait(partial(verification.ask, self._verifier))
            await self._get_ready()  # again: it has waited

    async def _get_ready(self) -> None:
        """Wait for what has to be waited for before anything is appended."""
        body: ProduceRequest = self._request.body
        large = body.elements > BREATH
        has_waited = False
        while True:
            if large:
                await self._charge_look(body.elements * LOOKED)
            wait = self._to_wait_for() or (self._closed_gate() if has_waited else None)
            if wait is None:
                break
            await wait  # what was there before it may be gone when it is over
            has_waited = True

    async def _append_all(self) -> None:
        body: ProduceRequest = self._request.body
        # Judged again only after a wait, and never for the better: the second batch of a producer would
        # overtake the first.
        self._has_room = self._broker.context.window_gate.is_open
        self._now_ms = self._broker.context.now_ms()
        work = self._request.work
        for topic in body.topics:
            results: list[tuple[int, Append | RefusedBatch]] = []
            if topic.partitions:
                self.topics.append((topic, results))
            for data in topic.partitions:
                if work.is_over_with(cost := _cost(data.records)):
                    await self._pause(partial(work.turn, cost))
                while (outcome := self._outcome(topic, data)) is None:
                    await self._pause(partial(self._open_again, topic, data))
                if self._opened:
                    self._opened.pop(id(data), None)  # it may be much larger than what was sent
                if self._unnamed is not None:
                    await self._pause(partial(self._name_records, self._unnamed))
                results.append((data.index, outcome))

    # ----------------------------------------------------------------------------------------------- access

    async def _is_denied(self) -> bool:
        """Whether it has transactional batches, which this client may not append."""
        body: ProduceRequest = self._request.body
        if body.elements > BREATH:
            await self._charge_look(body.elements * LOOKED)
        if not any(is_transactional(data.records) for topic in body.topics for data in topic.partitions):
            return False
        name = body.transactional_id
        return name is None or not self._request.access.may(
            Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name
        )

    async def _deny_topics(self) -> None:
        """Find those to which the client may not write. Whether they exist it is not told. An id that is not
        known now stays so: nobody has looked who may write to that topic.
        """
        access = self._request.access
        for done, wanted in enumerate(self._request.body.topics, 1):
            topic = self._topic(wanted)
            name = wanted.name if topic is None else topic.name
            if name is None:
                self._unknown.add(id(wanted))
            elif not access.may(Operation.WRITE, ResourceType.TOPIC, name):
                self._denied.add(id(wanted))
            if not done % BREATH:
                await self._charge_look(BREATH * LOOKED)

    def _refuse_all(self, code: ErrorCode) -> None:
        body: ProduceRequest = self._request.body
        self.failed = True
        self.topics = [
            (topic, [(data.index, RefusedBatch(code)) for data in topic.partitions])
            for topic in body.topics
            if topic.partitions
        ]

    # ------------------------------------------------------------------------------------------------ waits

    async def _pause(self, wait: Callable[[], Awaitable[None]]) -> None:
        """Wait in the middle of the work: stores are given what was appended so far.

        A request may have gigabytes to append, by what its batches become; so whether there is room is judged
        again. One that wants no answer waits for it.
        """
        self._broker.deliver()
        await self._request.wait(wait)
        gate = self._broker.context.window_gate
        if gate.is_open:
            return
        if self._request.body.acks == 0:
            await self._request.wait_for_room(partial(gate.wait, inf))
        else:
            self._has_room = False

    @property
    def _append_by(self) -> float:
        """When it is to be appended: the other half of the request's time is for that to become durable."""
        return (self._request.arrived + self._completion.deadline) / 2

    def _closed_gate(self) -> Awaitable[None] | None:
        """The gate that was open when the request came may be closed now: to refuse it for that would have
        what is behind it pass at the open gate before it comes again.
        """
        gate, left = self._broker.context.window_gate, self._append_by - trio.current_time()
        return None if gate.is_open or left <= 0 else self._request.wait(partial(gate.wait, left))

    async def _wait_for(self, coming: Sequence[Partition]) -> None:
        """All that wait for one partition go on at the same moment: each in its turn."""
        cost = len(coming) * PRODUCED_BATCH
        await self._charge_look(cost)
        await self._request.wait(partial(self._coming.wait_for, coming, self._append_by))
        await self._request.work.turn(cost)

    async def _charge_look(self, cost: int) -> None:
        """Before all partitions of a large request are looked at: it may be once for each of them."""
        work = self._request.work
        if work.is_over_with(cost):
            await self._request.wait(partial(work.turn, cost))

    def _to_wait_for(self) -> Awaitable[None] | None:
        """What has to be waited for before anything is appended.

        Batches that are compressed anew are opened when it is their turn, one after the other: what they
        become may be a thousand times as large, and counts nowhere until it is appended.
        """
        body: ProduceRequest = self._request.body
        if body.acks == 0 and (room := self._missing_room()) is not None:
            return self._request.wait_for_room(room)
        coming: dict[Partition, None] = {}
        openings: list[Opening] = []
        for wanted in body.topics:
            topic = self._topic(wanted)
            if topic is None or (topic.internal and not self._may_write_internal):
                continue
            settings, partitions, opens = topic.settings, topic.partitions, self._opens(topic)
            for data in wanted.partitions:
                records, index = data.records, data.index
                if not records or not 0 <= index < len(partitions):
                    continue
                if not partitions[index].available and partitions[index].is_coming:
                    coming[partitions[index]] = None
                if opens and not (is_remade(records, settings) or is_small(records, settings)):
                    openings.append(self._opening(data, topic))
        if coming and body.timeout_ms >= LEAST_TIMEOUT_MS:
            return self._wait_for(list(coming))
        if self._opened:
            openings = [one for one in openings if not self._is_open(one.data, one.settings)]
        return self._request.wait(partial(self._open_all, openings)) if openings else None

    def _missing_room(self) -> Callable[[], Awaitable[None]] | None:
        """For acks=0, where no error can be answered: what waits until the log takes the first batch that it
        does not take now.
        """
        if not self._broker.context.window_gate.is_open:
            return partial(self._broker.context.window_gate.wait, inf)
        for wanted in self._request.body.topics:
            topic = self._topic(wanted)
            partitions = () if topic is None else topic.partitions
            for data in wanted.partitions:
                if not 0 <= data.index < len(partitions):
                    continue  # it will be said when it is appended
                found = partitions[data.index]
                size = len(data.records or b"")
                if not found.room_for(size):
                    return partial(found.wait_for_room, size)
        return None

    # ---------------------------------------------------------------------------------------- opened batches

    def _is_open(self, data: ProducePartition, settings: EffectiveTopicConfigs) -> bool:
        """Whether the batch was opened as its topic wants it now: that may have been altered, or made again,
        while a worker was at it.
        """
        opened = self._opened.get(id(data))
        return opened is not None and opened.settings == settings

    def _opens(self, topic: Topic) -> bool:
        """Whether batches for the topic are opened."""
        return not self._broker.settings.trust_batches or topic.internal or topic.settings.opens_batches

    def _opening(self, data: ProducePartition, topic: Topic) -> Opening:
        name = f"{topic.name}-{data.index}"
        return Opening(data, topic.settings, name, self._zstd_allowed, self._names_left)

    async def _open_all(self, openings: Sequence[Opening]) -> None:
        client = self._request.client
        for opening in openings:
            opened = await open_in_slices(opening._replace(names=self._names_left), client)
            self._take_opened(opening, opened)

    async def _open_again(self, wanted: ProduceTopic, data: ProducePartition) -> None:
        """Open the batch of a topic that was altered, or made again, in the middle of the work; or one that
        turned out to be larger than it looked.
        """
        topic = self._topic(wanted)
        if topic is not None:
            await self._open_all([self._opening(data, topic)])

    def _take_opened(self, opening: Opening, opened: Opened) -> None:
        self._opened[id(opening.data)] = opened
        self._names_left -= len(opened.record_errors)

    @property
    def _may_write_internal(self) -> bool:
        if self._request.header.client_id != ADMIN_CLIENT_ID:
            return False
        access = self._request.access
        if access.is_unrestricted:
            return self._broker.settings.admin_client_writes
        return access.sees(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)

    @property
    def _zstd_allowed(self) -> bool:
        return self._request.header.api_version >= ZSTD_SINCE_VERSION

    # --------------------------------------------------------------------------------------- one partition

    def _outcome(self, topic: ProduceTopic, data: ProducePartition) -> Append | RefusedBatch | None:
        """What becomes of one batch. None: it is to be opened first."""
        try:
            append = self._append(topic, data)
        except RefusedBatch as error:
            self.failed = True
            return error.bare()
        if append is not None:
            append.wait_with(self._completion)
        return append

    def _append(self, wanted: ProduceTopic, data: ProducePartition) -> Append | None:
        """None: the batch is to be opened first. Raises RefusedBatch."""
        body: ProduceRequest = self._request.body
        if body.acks not in (-1, 0, 1):
            raise RefusedBatch(
                ErrorCode.INVALID_REQUIRED_ACKS, f"acks {body.acks}: 0, 1 and -1 (all) are allowed"
            )
        partition = self._partition(wanted, data.index)
        if partition.topic.internal and not self._may_write_internal:
            raise RefusedBatch(ErrorCode.INVALID_TOPIC_EXCEPTION)
        records = data.records
        if not records:
            raise RefusedBatch(ErrorCode.INVALID_RECORD, "a partition without a record batch")
        settings = partition.topic.settings
        try:
            opened = self._as_opened(data, partition, records)
            if opened is None:
                return None
            records, header = opened
            if header.producer_id >= BOUND:
                self._check_owner(partition, header)
            if not settings.log_append_time:
                now_ms = self._now_ms
                if (
                    header.base_timestamp < now_ms - settings.timestamp_before_max_ms
                    or header.max_timestamp > now_ms + settings.timestamp_after_max_ms
                ):
                    self._check_times(partition, header, records)
            if header.is_transactional:
                self._verify_one(partition, header)
            if len(records) * 2 < len(self._request.frame):
                # The window and the cache would keep the whole frame in memory, and count only this.
                records = memoryview(bytearray(records))
            return partition.append(
                header,
                records,
                body.acks,
                self._now_ms,
                gateway_has_room=self._has_room,
                client=self._request.client,
            )
        except RefusedBatch:
            raise
        except (InvalidBatch, KafkaError) as error:
            raise RefusedBatch(error.code, error.message, partition.log_start_offset) from None

    def _check_owner(self, partition: Partition, header: BatchHeader) -> None:
        """Whether the producer id is that of who sends this. A transactional producer's is so only inside its
        transactions: a request that brings no such batch may name any transactional id. Raises RefusedBatch.
        """
        body: ProduceRequest = self._request.body
        name, owners = body.transactional_id, self._broker.producer_id_owners
        if header.is_transactional:
            if name is None:
                raise RefusedBatch(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, NO_TRANSACTIONAL_ID)
            if len(name) > MAX_OWNER_CHARS:
                self._request.work.owes(HASHED_CHARACTER * len(name))
            if owners.is_of(header.producer_id, name):
                return
            code, whom = ErrorCode.INVALID_PRODUCER_ID_MAPPING, f"transactional id {name[:100]!r}"
        else:
            principal = self._request.access.principal
            if owners.is_of(header.producer_id, principal):
                return
            code, whom = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, str(principal)
        owners.tell(header.producer_id, whom, f"a batch for {partition.topic.name}-{partition.index}")
        raise RefusedBatch(
            code,
            f"producer id {header.producer_id} was not given to {whom}, and is of use only to whom it was "
            "given (that of a transactional producer only inside its transactions): make a new producer, "
            "which gets an id of its own",
        )

    def _verify_one(self, partition: Partition, header: BatchHeader) -> None:
        """Raises RefusedBatch; it says nothing of where the log begins, as Kafka then does not."""
        verification = self._verification or self._verification_of(self._request.body)
        try:
            verification.check(partition, header)
        except KafkaError as error:
            raise RefusedBatch(error.code, error.message) from None

    def _trusted(self, records: memoryview, settings: EffectiveTopicConfigs) -> BatchHeader:
        """What the batch's header says, with `--trust-batches`. Raises InvalidBatch."""
        header = validate_produced(
            records, max_message_bytes=settings.max_message_bytes, zstd_allowed=self._zstd_allowed
        )
        if header.max_timestamp >= header.base_timestamp:
            return header
        self._request.work.owes(TURN)  # what it takes is a turn by itself
        return fix_max_timestamp(records, header, MAX_TIMESTAMP_FIX_BYTES)

    def _as_opened(
        self, data: ProducePartition, partition: Partition, records: memoryview
    ) -> tuple[memoryview, BatchHeader] | None:
        """The batch (`records` as they were sent) as it is to be appended, and its header; None: it is to be
        opened in slices. Raises RefusedBatch: a record has no key, or the batch cannot be read; InvalidBatch.
        """
        topic = partition.topic
        if not self._opens(topic):
            return records, self._trusted(records, topic.settings)
        opened = self._opened.get(id(data)) if self._is_open(data, topic.settings) else None
        if opened is None:
            opened = open_now(self._opening(data, topic))
            if opened is None:
                return None
            if opened.headers:
                self._request.work.owes(opened.headers * HEADER)
            self._named(len(opened.record_errors))
        if opened.header is None:
            raise RefusedBatch(opened.error, opened.message, partition.log_start_offset, opened.record_errors)
        return opened.records, opened.header

    def _check_times(self, partition: Partition, header: BatchHeader, records: memoryview) -> None:
        """Raises RefusedBatch as Kafka answers it, unless the timestamp is none (-1). The records of a large
        batch are still to be named then (`_unnamed`).
        """
        settings, now_ms = partition.topic.settings, self._now_ms
        before, after = settings.timestamp_before_max_ms, settings.timestamp_after_max_ms
        try:
            check_timestamps(header, now_ms, before_max_ms=before, after_max_ms=after)
        except InvalidBatch as error:
            code = error.code
        else:
            return
        bounds = now_ms - before, now_ms + after
        at_once = few_enough(header, records)
        refused = RefusedBatch(
            code,
            "One or more records have been rejected due to invalid timestamp",
            partition.log_start_offset,
            name_now(records, bounds, self._names_left) if at_once else (),
        )
        self._named(len(refused.record_errors))
        if not at_once:
            self._unnamed = _Unnamed(refused, records, bounds)
        raise refused

    def _named(self, records: int) -> None:
        """So many were named at once: what comes next pays for it."""
        if records:
            self._names_left -= records
            self._request.work.owes(records * NAMED_RECORD)

    async def _name_records(self, unnamed: _Unnamed) -> None:
        self._unnamed = None
        if self._names_left > 0:
            named = await name_in_slices(
                unnamed.records, unnamed.bounds, self._names_left, self._request.client
            )
            self._names_left -= len(named)
            unnamed.batch.record_errors = named

    # -------------------------------------------------------------------------------------------- where to

    def _topic(self, wanted: ProduceTopic) -> Topic | None:
        """The topic, if it is there and the client may write to it."""
        if (self._denied and id(wanted) in self._denied) or (self._unknown and id(wanted) in self._unknown):
            return None
        topics = self._broker.topics
        if wanted.name is not None:
            return topics.get(wanted.name)
        assert wanted.topic_id is not None
        return topics.by_id(wanted.topic_id)

    def _partition(self, wanted: ProduceTopic, index: int) -> Partition:
        topic = self._topic(wanted)
        if topic is None:
            if id(wanted) in self._denied:
                raise RefusedBatch(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            by_id = wanted.name is None
            raise RefusedBatch(ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        partitions = topic.partitions
        if not 0 <= index < len(partitions):
            raise RefusedBatch(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return partitions[index]
