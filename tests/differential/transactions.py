"""Requests of transactional producers, and one producer's way through its transactions, for cases.

A server chooses producer ids: requests that carry one are built twice (`Side.ask_with_ids`). Epochs are what
the server said last, unless a case says otherwise.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kafka.protocol.admin import DescribeTransactionsRequest
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
    WriteTxnMarkersRequest,
)

from tests.differential.batches import TRANSACTIONAL, Record, batch
from tests.differential.requests import fetch, fetch_partition, produce
from tests.differential.side import SETTLE_SECONDS, Side
from tests.differential.wire import Connection, decode, encode

NO_ERROR, UNKNOWN_TOPIC = 0, 3
NO_ID = NO_EPOCH = -1
STRANGER = 1 << 40  # a producer id that no server has given yet
TIMEOUT_MS = 60_000
SAMPLE_TIME = 1_700_000_000_000
ONE_SEGMENT_MS = str(100 * 365 * 24 * 3_600_000)  # a century
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
COMMIT, ABORT = True, False
RESULTS = {"commit": COMMIT, "abort": ABORT}
# By these versions a client shows that it knows more (KIP-360, KIP-890).
INIT_WITH_ID = 3
ADD_SEVERAL = 4
END_BUMPS = 5
PRODUCE_VERIFIES, PRODUCE_ADDS = 11, 12
COMMIT_WITH_MEMBER = 3
PIPELINED = 500  # requests sent before their answers are read
UNDER_WAY = {"PrepareCommit", "PrepareAbort", "PrepareEpochFence"}

Partitions = Mapping[str, Sequence[int]]
Offsets = Mapping[str, Mapping[int, int | tuple[int, str | None]]]
"""Of each topic's partitions the offset to commit, or the offset and its metadata."""


def own_topic(side: Side, suffix: str, partitions: int = 1, **configs: str) -> str:
    """A topic of this case and version alone, whose records and markers lie in one segment.

    The samples' times are long past and a marker's is now: Kafka begins a segment between them, and a Fetch
    reads from one alone.
    """
    return side.own_topic(suffix, partitions, segment_ms=ONE_SEGMENT_MS, **configs)


def await_deletion(side: Side, topic: str) -> None:
    """Unrecorded: until Metadata knows nothing of a deleted topic.

    Raises:
        TimeoutError: it goes on to.
    """
    of = MetadataRequest.MetadataRequestTopic(topic_id=None, name=topic)
    request = MetadataRequest(version=10, topics=[of], allow_auto_topic_creation=False)
    deadline = time.monotonic() + SETTLE_SECONDS
    with Connection(side.server.bootstrap) as connection:
        while connection.ask(request).topics[0].error_code != UNKNOWN_TOPIC:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{side.server.name} still shows {topic}")
            time.sleep(0.005)


def init_producer_id(
    name: str | None,
    version: int,
    *,
    producer_id: int = NO_ID,
    epoch: int = NO_EPOCH,
    timeout_ms: int = TIMEOUT_MS,
) -> Any:
    """An InitProducerId request; before version 3 it has neither id nor epoch."""
    fields = {"producer_id": producer_id, "producer_epoch": epoch} if version >= INIT_WITH_ID else {}
    return InitProducerIdRequest(
        version=version, transactional_id=name, transaction_timeout_ms=timeout_ms, **fields
    )


def _topics(wanted: Partitions) -> list[Any]:
    one = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
    return [one(name=name, partitions=list(partitions)) for name, partitions in wanted.items()]


def add_partitions(name: str, producer_id: int, epoch: int, wanted: Partitions, *, version: int = 3) -> Any:
    """An AddPartitionsToTxn request as clients send it."""
    return AddPartitionsToTxnRequest(
        version=version,
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=_topics(wanted),
    )


def add_as_broker(
    *transactions: tuple[str, int, int, Partitions], verify: bool = False, version: int = 5
) -> Any:
    """An AddPartitionsToTxn request as brokers send it: of several (name, producer id, epoch, partitions)."""
    one = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
    return AddPartitionsToTxnRequest(
        version=version,
        transactions=[
            one(
                transactional_id=name,
                producer_id=producer_id,
                producer_epoch=epoch,
                verify_only=verify,
                topics=_topics(wanted),
            )
            for name, producer_id, epoch, wanted in transactions
        ],
    )


def add_offsets(name: str, producer_id: int, epoch: int, group: str, *, version: int = 3) -> Any:
    """An AddOffsetsToTxn request."""
    return AddOffsetsToTxnRequest(
        version=version,
        transactional_id=name,
        producer_id=producer_id,
        producer_epoch=epoch,
        group_id=group,
    )


def end(name: str, producer_id: int, epoch: int, committed: bool, *, version: int) -> Any:
    """An EndTxn request."""
    return EndTxnRequest(
        version=version,
        transactional_id=name,
        producer_id=producer_id,
        producer_epoch=epoch,
        committed=committed,
    )


def marker(
    producer_id: int,
    epoch: int,
    committed: bool,
    wanted: Partitions,
    *,
    coordinator_epoch: int = 0,
    transaction_version: int | None = None,
) -> Any:
    """One marker of a WriteTxnMarkers request; `transaction_version` since version 2."""
    one = WriteTxnMarkersRequest.WritableTxnMarker
    topic = one.WritableTxnMarkerTopic
    fields = {} if transaction_version is None else {"transaction_version": transaction_version}
    return one(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=committed,
        topics=[topic(name=name, partition_indexes=list(indexes)) for name, indexes in wanted.items()],
        coordinator_epoch=coordinator_epoch,
        **fields,
    )


def write_markers(*markers: Any, version: int = 1) -> Any:
    """A WriteTxnMarkers request."""
    return WriteTxnMarkersRequest(version=version, markers=list(markers))


def commit_offsets(
    name: str,
    producer_id: int,
    epoch: int,
    group: str,
    wanted: Offsets,
    *,
    version: int = 3,
    generation: int = -1,
    member: str = "",
    instance: str | None = None,
) -> Any:
    """A TxnOffsetCommit request."""
    topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
    fields: dict[str, Any] = {}
    if version >= COMMIT_WITH_MEMBER:
        fields = {"generation_id": generation, "member_id": member, "group_instance_id": instance}

    def one(index: int, offset: int | tuple[int, str | None]) -> Any:
        number, metadata = offset if isinstance(offset, tuple) else (offset, "")
        return topic.TxnOffsetCommitRequestPartition(
            partition_index=index, committed_offset=number, committed_metadata=metadata
        )

    return TxnOffsetCommitRequest(
        version=version,
        transactional_id=name,
        group_id=group,
        producer_id=producer_id,
        producer_epoch=epoch,
        topics=[
            topic(name=name, partitions=[one(*item) for item in offsets.items()])
            for name, offsets in wanted.items()
        ],
        **fields,
    )


def inside(
    *values: bytes,
    producer_id: int,
    epoch: int,
    sequence: int,
    attributes: int = TRANSACTIONAL,
    timestamp: int = SAMPLE_TIME,
) -> bytes:
    """A batch that belongs to a transaction; the timestamp in milliseconds."""
    return batch(
        [Record(value, timestamp=timestamp) for value in values],
        attributes=attributes,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


def read(
    side: Side,
    topic: str,
    label: str,
    *,
    level: int = READ_COMMITTED,
    offset: int = 0,
    version: int = 12,
    partition: int = 0,
    **fields: Any,
) -> Any:
    """Records what a Fetch finds that does not wait."""
    wanted = {topic: [fetch_partition(partition, offset, **fields)]}
    return side.ask(fetch(side, version, wanted, isolation_level=level), label)


def read_both(side: Side, topic: str, label: str, **fields: Any) -> None:
    """As `read`, under both isolations."""
    read(side, topic, f"{label}, read_committed", level=READ_COMMITTED, **fields)
    read(side, topic, f"{label}, read_uncommitted", level=READ_UNCOMMITTED, **fields)


class Producer:
    """A transactional producer of one case and version. All that it asks is recorded.

    `name` is its transactional id; `id` and `epoch` are what the server gave it last.
    """

    def __init__(self, side: Side, suffix: str = "tx", *, timeout_ms: int = TIMEOUT_MS) -> None:
        self.side = side
        self.name = side.own_name(suffix)
        self.id, self.epoch = NO_ID, NO_EPOCH
        self._suffix, self._timeout_ms = suffix, timeout_ms

    def ask(self, build: Callable[[int], Any], label: str) -> Any:
        """Asks with this producer's id."""
        return self.side.ask_with_ids(lambda ids: build(ids[0]), [self.id], self._label(label))

    def init(self, label: str = "", *, version: int = 4) -> Any:
        """InitProducerId, without an id."""
        return self._learn(
            self.side.ask(
                init_producer_id(self.name, version, timeout_ms=self._timeout_ms),
                self._label(label or "init"),
            )
        )

    def resume(self, label: str = "", *, version: int = 4, epoch: int | None = None) -> Any:
        """InitProducerId with its id and epoch (version 3 or more); with an epoch given it learns nothing."""
        at = self.epoch if epoch is None else epoch
        answer = self.ask(
            lambda i: init_producer_id(
                self.name, version, producer_id=i, epoch=at, timeout_ms=self._timeout_ms
            ),
            label or f"resume with epoch {at}",
        )
        return self._learn(answer) if epoch is None else answer

    def add(self, wanted: Partitions, label: str = "", *, version: int = 3, epoch: int | None = None) -> Any:
        """AddPartitionsToTxn as clients send it."""
        at = self.epoch if epoch is None else epoch
        return self.ask(
            lambda i: add_partitions(self.name, i, at, wanted, version=version), label or "add partitions"
        )

    def add_as_broker(
        self,
        wanted: Partitions,
        label: str = "",
        *,
        version: int = 5,
        epoch: int | None = None,
        verify: bool = False,
    ) -> Any:
        """AddPartitionsToTxn of this transaction alone, as a broker sends it."""
        at = self.epoch if epoch is None else epoch
        what = "verify" if verify else "add"
        return self.ask(
            lambda i: add_as_broker((self.name, i, at, wanted), verify=verify, version=version),
            f"{label}, {what}" if label else what,
        )

    def add_group(self, group: str, label: str = "", *, version: int = 3, epoch: int | None = None) -> Any:
        """AddOffsetsToTxn."""
        at = self.epoch if epoch is None else epoch
        return self.ask(
            lambda i: add_offsets(self.name, i, at, group, version=version), label or "add offsets"
        )

    def send(
        self,
        topic: str,
        *values: bytes,
        partition: int = 0,
        sequence: int = 0,
        epoch: int | None = None,
        label: str = "",
        version: int = PRODUCE_VERIFIES,
        name: str | None = "",
        attributes: int = TRANSACTIONAL,
        acks: int = -1,
    ) -> Any:
        """Produce of one batch; `name`: the request's transactional id, its own by default."""
        at = self.epoch if epoch is None else epoch
        whose = self.name if name == "" else name

        def build(producer_id: int) -> Any:
            records = inside(
                *(values or (b"x",)),
                producer_id=producer_id,
                epoch=at,
                sequence=sequence,
                attributes=attributes,
            )
            return produce(
                self.side, version, {topic: {partition: records}}, transactional_id=whose, acks=acks
            )

        return self.ask(build, label or "produce")

    def commit_offsets(
        self,
        group: str,
        wanted: Offsets,
        label: str = "",
        *,
        version: int = 3,
        epoch: int | None = None,
        **who: Any,
    ) -> Any:
        """TxnOffsetCommit."""
        at = self.epoch if epoch is None else epoch
        return self.ask(
            lambda i: commit_offsets(self.name, i, at, group, wanted, version=version, **who),
            label or "commit offsets",
        )

    def end(self, committed: bool, label: str = "", *, version: int = 3, epoch: int | None = None) -> Any:
        """EndTxn; version 5 tells the next transaction's id and epoch."""
        at = self.epoch if epoch is None else epoch
        what = label or ("commit" if committed else "abort")
        answer = self.ask(lambda i: end(self.name, i, at, committed, version=version), what)
        return self._learn(answer) if version >= END_BUMPS else answer

    def finish(self, committed: bool, label: str = "", *, version: int = 3) -> None:
        """EndTxn, and its markers are written."""
        self.end(committed, label, version=version)
        self.settle()

    def mark(
        self, committed: bool, wanted: Partitions, label: str = "", *, version: int = 1, **what: Any
    ) -> Any:
        """WriteTxnMarkers of one marker, past the coordinator, as a tool does."""
        epoch = what.pop("epoch", self.epoch)
        return self.ask(
            lambda i: write_markers(marker(i, epoch, committed, wanted, **what), version=version),
            label or "marker",
        )

    def describe(self, label: str = "") -> Any:
        """DescribeTransactions."""
        request = DescribeTransactionsRequest(version=0, transactional_ids=[self.name])
        return self.side.ask(request, self._label(label or "describe"))

    def wear_out(self, epoch: int) -> None:
        """Unrecorded: asks for epochs until it has this one, many requests at a time.

        Raises:
            RuntimeError: the server does not give one after the other.
        """
        data = encode(init_producer_id(self.name, 4, timeout_ms=self._timeout_ms))
        with Connection(self.side.server.bootstrap) as connection:
            while self.epoch < epoch:
                count = min(epoch - self.epoch, PIPELINED)
                connection.send(data * count)
                for _ in range(count):
                    answer = decode(InitProducerIdRequest.API_KEY, 4, connection.receive() or b"")
                    if (answer.error_code, answer.producer_epoch) != (NO_ERROR, self.epoch + 1):
                        raise RuntimeError(f"after epoch {self.epoch}: {answer}")
                    self._learn(answer)

    def settle(self) -> None:
        """Unrecorded: until what was decided is done, its markers written.

        Raises:
            TimeoutError: it is not.
        """
        self._await(lambda state: state not in UNDER_WAY)

    def await_abort(self) -> None:
        """Unrecorded: until the server has aborted by itself what took too long.

        Raises:
            TimeoutError: it does not.
        """
        self._await(lambda state: state == "CompleteAbort")

    def await_marker(self, topic: str, partition: int) -> None:
        """Unrecorded: until DescribeTransactions does not name the partition any more.

        Raises:
            TimeoutError: it goes on naming it.
        """
        self._poll(lambda found: partition not in _partitions_left(found, topic))

    def _await(self, wanted: Callable[[str], bool]) -> None:
        self._poll(lambda found: wanted(found.transaction_state))

    def _poll(self, enough: Callable[[Any], bool]) -> None:
        request = DescribeTransactionsRequest(version=0, transactional_ids=[self.name])
        deadline = time.monotonic() + SETTLE_SECONDS
        with Connection(self.side.server.bootstrap) as connection:
            while not enough(found := connection.ask(request).transaction_states[0]):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{self.side.server.name}: {self.name} stays as it is: {found}")
                time.sleep(0.005)

    def _learn(self, answer: Any) -> Any:
        if not isinstance(answer, str) and answer.error_code == NO_ERROR:
            self.id = self.side.chosen_producer(answer.producer_id)
            self.epoch = answer.producer_epoch
        return answer

    def _label(self, label: str) -> str:
        """Unique: a producer does the same again and again."""
        return f"{len(self.side.exchanges)} {self._suffix} {label}"


def _partitions_left(found: Any, topic: str) -> set[int]:
    return {number for one in found.topics if one.topic == topic for number in one.partitions}


def begun(side: Side, suffix: str = "tx") -> Producer:
    """A producer with an id and epoch 0, nothing open."""
    producer = Producer(side, suffix)
    producer.init()
    return producer


HIGH_COORDINATOR_EPOCH = 1_000_000


def held(side: Side, suffix: str, topic: str, committed: bool, *, version: int = 3) -> Producer:
    """A producer whose transaction over partition 0 of `topic` is decided and never completed.

    The partition has seen a marker of a much later coordinator, so that it refuses the true one's.
    """
    producer = begun(side, suffix)
    producer.mark(ABORT, {topic: [0]}, "hold", coordinator_epoch=HIGH_COORDINATOR_EPOCH)
    producer.add({topic: [0]})
    producer.end(committed, version=version)
    return producer
