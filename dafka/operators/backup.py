"""The gateway's side of `dafka backup`: what there is at one moment, and the batches of its segments.

The moment is one turn of the loop: high watermarks, log starts, chains, epochs, topics and configs are of it.
What takes longer comes after it, from what was kept of that turn: some microseconds for each partition.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import trio

from dafka.operators.alone import check_alone
from dafka.operators.socket import Content, Handler, OperatorRefused
from gateway.broker import Broker
from gateway.catalog import keys
from gateway.cluster.pins import PinEnded, TooManyPins
from gateway.log.partition import Partition, PartitionState
from gateway.log.segment import Segment
from mesh.reader import NotServed
from wireproto.kafka.errors import KafkaError

PIECE_BYTES: Final = 4 * 1024 * 1024
"""Batches that are given at once: in memory until the command has them."""

PIECE_RECORDS: Final = 2048
"""Batches that are given at once, if they are small."""

PARTITIONS_A_TURN: Final = 200
"""Partitions that are told of before other tasks run."""

BEGIN: Final = "backup.begin"
READ: Final = "backup.read"
RELEASE: Final = "backup.release"
END: Final = "backup.end"

PIN_ENDED: Final = "the backup has no pin any more"
"""How a refusal begins after which a backup begins at another moment."""

UNREADABLE: Final = "the segment cannot be read"
"""How a refusal begins that is about one segment."""


class _Moment(NamedTuple):
    """What one partition was. `cut` is the last sequence of each segment that has no end yet."""

    partition: Partition
    serves: bool
    reason: str
    high_watermark: int
    log_start: int
    epochs: list[list[int]]
    segments: list[Segment]
    cut: Mapping[str, int]
    record: bytes | None
    producers: bytes | None


class BackupRequestHandlers:
    """What one gateway does with the requests `backup.*`."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._pins = broker.deletion.pins
        self._segments: dict[str, dict[str, tuple[Partition, Segment]]] = {}
        """Pin -> the segments that were told with it, by address."""

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """The handlers, by what a request has as `do`."""
        return {BEGIN: self._begin, READ: self._read, RELEASE: self._release, END: self._end}

    async def _begin(self, _request: dict[str, Any]) -> Content:
        """Everything but the batches, as JSON lines: the cluster, then each partition."""
        check_alone(self._broker, "a backup")
        now = trio.current_time()
        self._segments = {
            pin: known for pin, known in self._segments.items() if self._pins.is_known(pin, now)
        }
        moments, lines = self._moments(), [self._cluster()]
        try:
            pin = self._pins.take((one.address for each in moments for one in each.segments), now)
        except TooManyPins as error:
            raise OperatorRefused(f"{error}: wait until one has ended, or for a minute") from None
        self._segments[pin] = {
            one.address: (each.partition, one) for each in moments for one in each.segments
        }
        for number, moment in enumerate(moments, 1):
            lines.append(json.dumps(_told(moment)).encode() + b"\n")
            if not number % PARTITIONS_A_TURN:
                await trio.lowlevel.checkpoint()
        return Content({"pin": pin}, lines)

    def _cluster(self) -> bytes:
        """What is no partition's."""
        catalog = self._broker.context.catalog
        entries = {entry.key: keys.unpack(entry.value) for entry in catalog.range(keys.BROKER_CONFIGS)}
        return json.dumps(
            {
                "cluster": self._broker.cluster_id,
                "taken_ms": self._broker.context.now_ms(),
                "leader_epoch": self._broker.context.epoch_counter.highest,
                "producer_ids": self._broker.context.producer_ids.floor,
                "broker_configs": entries,
                "security": {
                    entry.key: base64.b64encode(entry.value).decode()
                    for prefix in keys.OF_SECURITY
                    for entry in catalog.range(prefix)
                },
                "topics": [
                    {
                        "name": topic.name,
                        "id": topic.id.hex(),
                        "partitions": len(topic.partitions),
                        "replication_factor": topic.replication_factor,
                        "configs": topic.configs,
                        **({"maker": topic.maker} if topic.maker else {}),
                    }
                    for topic in self._broker.topics.all()
                ],
            }
        ).encode() + b"\n"  # fmt: skip

    def _moments(self) -> list[_Moment]:
        """In one turn, so nothing here waits."""
        catalog = self._broker.context.catalog
        moments = []
        for topic in self._broker.topics.all():
            for partition in topic.partitions:
                chain = partition.chain
                record = catalog.get(keys.partition_key(topic.id, partition.index))
                producers = catalog.get(keys.producers_key(topic.id, partition.index))
                moments.append(
                    _Moment(
                        partition,
                        partition.state is PartitionState.READY and not partition.withheld,
                        partition.reason,
                        partition.high_watermark,
                        partition.log_start_offset,
                        partition.epochs.to_list(),
                        chain.segments(),
                        {one.segment.address: one.writer.committed for one in chain.open_segments()},
                        None if record is None else record.value,
                        None if producers is None else producers.value,
                    )
                )
        return moments

    async def _read(self, request: dict[str, Any]) -> Content:
        """Batches of a segment, from a sequence on; of its first ones also what its announcement says of
        idempotent producers.
        """
        pin, address = str(request.get("pin")), str(request.get("address"))
        self._use(pin)
        partition, segment = self._segments[pin].get(address, (None, None))
        if partition is None or segment is None:
            raise OperatorRefused(f"segment {address[:64]} was not told with this pin")
        sequence, last = int(request["sequence"]), int(request["last"])
        count = min(last - sequence + 1, PIECE_RECORDS)
        most = min(int(request["bytes"]), PIECE_BYTES)
        context = self._broker.context
        done: dict[str, Any] = {}
        try:
            batches, done["offset"] = await context.cold.read_range(
                partition, segment, int(request["offset"]), sequence, count, most
            )
            if not sequence:
                members = context.stores.live_first(segment.members, address)
                beginning = await context.reader.beginning(members, address, -1)
                done["producers"] = json.loads(beginning.announcement.details)["producers"]
        except (NotServed, KafkaError) as error:
            why = error.message if isinstance(error, KafkaError) else str(error)
            raise OperatorRefused(f"{UNREADABLE}: {why}") from None
        done["sizes"] = [len(batch) for batch in batches]
        return Content(done, [bytes(batch) for batch in batches])

    async def _release(self, request: dict[str, Any]) -> None:
        """These segments need no pin any more."""
        pin, addresses = str(request.get("pin")), list(map(str, request.get("addresses", ())))
        self._use(pin)
        self._pins.release(pin, addresses, trio.current_time())

    async def _end(self, request: dict[str, Any]) -> None:
        """The backup is over."""
        self._pins.end(str(request.get("pin")))
        self._segments.pop(str(request.get("pin")), None)

    def _use(self, pin: str) -> None:
        try:
            self._pins.use(pin, trio.current_time())
        except PinEnded:
            raise OperatorRefused(
                f"{PIN_ENDED}: the gateway was started anew, or nobody asked for a minute"
            ) from None


def _told(moment: _Moment) -> dict[str, Any]:
    partition = moment.partition
    return {
        "topic": partition.topic.name,
        "index": partition.index,
        "serves": moment.serves,
        "reason": "" if moment.serves else moment.reason,
        "high_watermark": moment.high_watermark,
        "log_start": moment.log_start,
        "epochs": moment.epochs,
        "record": None if moment.record is None else keys.unpack(moment.record),
        "producers": base64.b64encode(moment.producers or b"").decode(),
        "segments": [
            json.loads(one.pack()) | {"cut": moment.cut.get(one.address)} for one in moment.segments
        ],
    }
