"""Questions about transactions to their coordinators, where those are other gateways: many in one request.

What is to be asked of a gateway while a request is on its way to it goes into the next one
(``AddPartitionsToTxnManager``). So all that is added between two writes of a coordinator's log is in its next
write, and no Produce waits for those before it one by one. What waits is bounded, each client has a share of
that, and clients have turns.

There are three channels: what is only looked up does not wait for what is written, and nobody waits for those
whose transaction has to end first.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Collection
from enum import Enum
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import trio

from gateway.common.shares import Shares
from gateway.peers.failures import PeerFailed
from gateway.peers.question import Question
from gateway.peers.refusals import say_if_refused
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.schemas import REQUEST_CLASSES

if TYPE_CHECKING:
    from gateway.peers.peers import Peers
    from gateway.transactions.metadata import TopicPartition
    from gateway.transactions.verifier import Errors, Producing

ASK_SECONDS: Final = 10.0
"""How long another gateway may take to answer: what it writes takes five seconds at most. Then the producer
is to try again."""

PARTITIONS_A_REQUEST: Final = 2_000
"""Partitions in one request to another gateway, about; one question may have more."""

MAX_WAITING: Final = 40_000
"""Partitions that wait to be asked about, or are, of one gateway; one client may have half of what others
leave. Beyond it producers are to try again."""

BATCHED_SINCE_VERSION: Final = 4

PATIENCE_MS: Final = 20
"""So long another gateway waits for an end of any of the transactions that it is asked about, before it
answers: those that come meanwhile wait for the answer."""

_Request: Any = REQUEST_CLASSES[ApiKey.ADD_PARTITIONS_TO_TXN]
_Transaction: Any = _Request.AddPartitionsToTxnTransaction
_Topic: Any = _Request.AddPartitionsToTxnTopic


class Kind(Enum):
    """By the name of the channel."""

    LOOK = "verification"
    ADD = "addition"
    ADD_WHEN_FREE = "addition when free"


class _Asked:
    """What one request wants to know."""

    __slots__ = ("client", "done", "found", "who")

    def __init__(self, who: Producing, partitions: Collection[TopicPartition], client: str) -> None:
        self.who = who
        self.client = client
        self.found: Errors = dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        """What was answered; this, where nothing was."""
        self.done = trio.Event()


class _Queue:
    """What waits for one gateway, in turns of clients."""

    def __init__(self) -> None:
        self.held = Shares(MAX_WAITING)
        self.is_sending = False
        self._waiting: OrderedDict[str, deque[_Asked]] = OrderedDict()

    def add(self, asked: _Asked) -> None:
        self._waiting.setdefault(asked.client, deque()).append(asked)

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def take(self) -> list[_Asked]:
        """Those of the next request. Of one transactional id there is one: the answer goes by that."""
        some: dict[str, _Asked] = {}
        partitions = 0
        passed: set[str] = set()
        while len(passed) < len(self._waiting):
            client, of_client = next(iter(self._waiting.items()))
            self._waiting.move_to_end(client)
            asked = of_client[0]
            if asked.who.transactional_id in some:
                passed.add(client)
                continue
            if some and partitions + len(asked.found) > PARTITIONS_A_REQUEST:
                break
            some[asked.who.transactional_id] = of_client.popleft()
            partitions += len(asked.found)
            if not of_client:
                del self._waiting[client]
        return list(some.values())


class _Route(NamedTuple):
    node: int
    kind: Kind


class VerificationRoutes:
    """To the other gateways, `peers`; `run` has to run."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._queues: dict[_Route, _Queue] = {}
        self._nursery: trio.Nursery | None = None

    async def run(self) -> None:
        """Ask others, for ever."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            await trio.sleep_forever()

    async def ask(
        self,
        node: int,
        who: Producing,
        partitions: Collection[TopicPartition],
        client: str,
        *,
        when_free: bool = False,
    ) -> Errors:
        """What the coordinator says. Raises KafkaError: COORDINATOR_NOT_AVAILABLE, too much waits."""
        kind = (Kind.ADD_WHEN_FREE if when_free else Kind.ADD) if who.adds else Kind.LOOK
        route = _Route(node, kind)
        queue = self._queues.get(route)
        if queue is None:
            queue = self._queues[route] = _Queue()
        size = max(1, len(partitions))
        if self._nursery is None or not queue.held.has_room(client, size):
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"too much waits for gateway {node}")
        asked = _Asked(who, partitions, client)
        queue.held.charge(client, size)
        queue.add(asked)
        if not queue.is_sending:
            queue.is_sending = True
            self._nursery.start_soon(self._send_all, route, queue)
        await asked.done.wait()
        return asked.found

    async def _send_all(self, route: _Route, queue: _Queue) -> None:
        """Send what waits, one request after the other."""
        try:
            while queue:
                some = queue.take()
                try:
                    question = Question(_request_of(some, route.kind), lowest=BATCHED_SINCE_VERSION)
                    answer = await self._peers.ask(route.node, question, ASK_SECONDS, route.kind.value)
                    say_if_refused(route.node, ApiKey.ADD_PARTITIONS_TO_TXN, answer.error_code)
                    _take(some, answer)
                except PeerFailed:
                    pass  # they are answered as they were made: producers try again
                finally:
                    for asked in some:
                        queue.held.charge(asked.client, -max(1, len(asked.found)))
                        asked.done.set()
        finally:
            queue.is_sending = False
            if self._queues.get(route) is queue and not queue:
                del self._queues[route]


def _request_of(some: list[_Asked], kind: Kind) -> Any:
    transactions = [
        _Transaction(
            transactional_id=asked.who.transactional_id,
            producer_id=asked.who.producer_id,
            producer_epoch=asked.who.producer_epoch,
            verify_only=not asked.who.adds,
            topics=[
                _Topic(name=name, partitions=[index for _, index in places])
                for name, places in groupby(sorted(asked.found), key=itemgetter(0))
            ],
        )
        for asked in some
    ]
    return _Request(transactions=transactions, wait_ms=PATIENCE_MS if kind is Kind.ADD_WHEN_FREE else 0)


def _take(some: list[_Asked], answer: Any) -> None:
    """Note what was answered; what was not asked is passed over."""
    by_id = {asked.who.transactional_id: asked for asked in some}
    for result in answer.results_by_transaction:
        asked = by_id.get(result.transactional_id)
        if asked is None:
            continue
        for topic in result.topic_results:
            for partition in topic.results_by_partition:
                place = topic.name, partition.partition_index
                if place in asked.found:
                    asked.found[place] = ErrorCode(partition.partition_error_code)
