"""Requests of Kafka's protocol to the handlers of a gateway life, and their answers: all of it as bytes.

What clients of transactions send is made here, and what gateways ask each other goes the same way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import trio
from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ProduceRequest,
    TxnOffsetCommitRequest,
)

from gateway.cluster.gateways import SharedGateways
from gateway.common.handlers import Request
from gateway.front.registry import load_apis
from gateway.peers.failures import PeerGone, PeerSilent
from wireproto.kafka.asking import decode_answer, frame_request
from wireproto.kafka.headers import parse_request_header

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gateway.peers.question import Question
    from tests.sim.clients import PartitionName
    from tests.sim.gateway_node import Life

APIS = load_apis()

SIZE_BYTES = 4
PRODUCE_TIMEOUT_MS = 10_000

LOST_BETWEEN_GATEWAYS = 0.05
LATE_BETWEEN_GATEWAYS = 0.2
"""Shares of what gateways ask each other, while the world works."""


class Version(NamedTuple):
    """Of each request, as a client of a `transaction.version` sends them."""

    init: int
    produce: int
    commit_offsets: int
    end: int


VERSIONS = {1: Version(4, 11, 4, 4), 2: Version(5, 12, 5, 5)}
ADD_VERSION = 3
OFFSET_FETCH_VERSION = 7


async def ask(life: Life, version: int, request: Any) -> Any:
    """What a handler of this life answers."""
    body = bytes(request.encode(version=version))
    framed = frame_request(request.API_KEY, version, 1, "simulation", body)
    frame = memoryview(bytearray(framed))[SIZE_BYTES:]
    header = parse_request_header(frame)
    api = APIS.lookup(header.api_key)
    assert api is not None, request
    asked = Request(
        header,
        api.decoder(version, frame, header.body_offset),
        frame,
        ("gateway", 1),
        "client",
        trio.Event(),
        arrived=trio.current_time(),
    )
    if api.handler is not None:
        response = await api.handler(asked, life.broker)
    else:
        assert api.begin is not None
        pending = await api.begin(asked, life.broker)
        if not pending.ready:
            over = trio.Event()
            pending.when_ready(over.set)
            await over.wait()
        response = pending.response()
    assert response is not None, "there is an answer to each request here"
    answer = response if isinstance(response, bytes) else b"".join(response)
    return decode_answer(request.API_KEY, version, memoryview(answer)[SIZE_BYTES:])


class SimPeers:
    """In the place of `gateway.peers.peers.Peers`: the other gateways of the world, over links that lose, and
    are late.
    """

    def __init__(self, life: Life) -> None:
        self._life = life
        self._random = life.world.applications.random

    async def ask(self, gateway: int, question: Question, deadline_seconds: float, _channel: str = "") -> Any:
        """Raises PeerFailed."""
        world = self._life.world
        gateways = self._life.broker.gateways
        assert isinstance(gateways, SharedGateways)
        living = gateways.living.get(gateway)
        if living is None:
            raise PeerGone(f"gateway {gateway} is not alive")
        deadline = trio.current_time() + deadline_seconds
        await self._on_the_way()
        other = next((one for one in world.lives if one.life_name == living.life and one.answers), None)
        answers: list[Any] = []
        if other is not None:
            over = trio.Event()

            async def carry_out() -> None:
                answers.append(await ask(other, question.highest, question._request))
                over.set()

            other.nursery.start_soon(carry_out)
            with trio.move_on_at(deadline):
                await over.wait()
        await self._on_the_way()
        if not answers or (world.working and self._random.random() < LOST_BETWEEN_GATEWAYS):
            await trio.sleep(min(0.5, deadline_seconds))  # the connection ends
            raise PeerSilent(f"gateway {gateway} has not answered in time")
        world.reached["questions between gateways"] += 1
        return answers[0]

    async def _on_the_way(self) -> None:
        late = self._life.world.working and self._random.random() < LATE_BETWEEN_GATEWAYS
        await trio.sleep(self._random.uniform(0.0, 1.5) if late else 0.001)


# what clients send ----------------------------------------------------------------------------------------


def init(name: str, timeout_ms: int, producer_id: int = -1, epoch: int = -1) -> Any:
    return InitProducerIdRequest(
        transactional_id=name,
        transaction_timeout_ms=timeout_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
    )


def add_partitions(name: str, producer_id: int, epoch: int, partitions: Iterable[PartitionName]) -> Any:
    """As clients of the older protocol send it."""
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    make = AddPartitionsToTxnRequest
    return make(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=[
            make.AddPartitionsToTxnTopic(name=topic, partitions=some) for topic, some in topics.items()
        ],
    )


def add_offsets(name: str, producer_id: int, epoch: int, group: str) -> Any:
    return AddOffsetsToTxnRequest(
        transactional_id=name, producer_id=producer_id, producer_epoch=epoch, group_id=group
    )


def produce(name: str, partition: PartitionName, content: bytes) -> Any:
    """One batch."""
    topic = ProduceRequest.TopicProduceData
    data = topic.PartitionProduceData(index=partition[1], records=content)
    return ProduceRequest(
        transactional_id=name,
        acks=-1,
        timeout_ms=PRODUCE_TIMEOUT_MS,
        topic_data=[topic(name=partition[0], partition_data=[data])],
    )


def commit_offsets(
    name: str, group: str, producer_id: int, epoch: int, offsets: Mapping[PartitionName, int], metadata: str
) -> Any:
    topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
    one = topic.TxnOffsetCommitRequestPartition
    return TxnOffsetCommitRequest(
        transactional_id=name,
        group_id=group,
        producer_id=producer_id,
        producer_epoch=epoch,
        topics=[
            topic(
                name=place[0],
                partitions=[
                    one(
                        partition_index=place[1],
                        committed_offset=offset,
                        committed_leader_epoch=-1,
                        committed_metadata=metadata,
                    )
                ],
            )
            for place, offset in offsets.items()
        ],
    )


def end(name: str, producer_id: int, epoch: int, *, commit: bool) -> Any:
    return EndTxnRequest(
        transactional_id=name, producer_id=producer_id, producer_epoch=epoch, committed=commit
    )


def fetch_offset(group: str, place: PartitionName, *, stable: bool) -> Any:
    topic = OffsetFetchRequest.OffsetFetchRequestTopic(name=place[0], partition_indexes=[place[1]])
    return OffsetFetchRequest(group_id=group, topics=[topic], require_stable=stable)
