"""The gateways that administrators want to lead certain partitions: their preferred leaders, as Kafka calls
the first replica of an assignment (`kafka-reassign-partitions`, KIP-455).

A wish is a key of the catalog (`/preferred/<topic id>/<index>`), and nothing else: the next table has the
partition's slot go there (`gateway.leadership.next_table`), by the same handover as every move, and back
there whenever the gateway has been away. It ends when it is taken back (`dafka gateways share`), with its
topic, or when its gateway is forgotten.

Rule: what moves is the slot, and with it other partitions that are in it. So two partitions of one slot are
never wanted at two gateways: the second wish is refused. Where two gateways have taken one each at the same
moment, every gateway goes by the same one of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from gateway.catalog import keys
from gateway.catalog.interface import Compare, CompareFailed, unchanged
from gateway.leadership.records import BadRecord, pack_preferred, unpack_preferred
from gateway.leadership.slots import NO_PREFERENCES, slot_of
from wireproto.kafka.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from gateway.catalog.interface import Catalog
    from gateway.cluster.gateways import SharedGateways
    from gateway.cluster.topics import Topics
    from gateway.log.topic import Topic

AT_ONCE: Final = 30
"""Wishes in one transaction: each compares its key, its topic's and its gateway's, and all the levels of
features, of 120."""


Needed: TypeAlias = Callable[[], tuple[list[Compare], dict[str, bytes]]]
"""See `gateway.cluster.features.Features.needed`."""


class Wish(NamedTuple):
    """That a gateway, by its id, leads a partition; None: whichever the gateways choose, as before."""

    topic: Topic
    partition: int
    gateway: int | None


class Moving(NamedTuple):
    """A partition that is on its way: the ids of who leads it (`NOBODY`: none), and of who is to."""

    source: int
    target: int


class PreferredLeaders:
    """Those of a cluster, as of the last key that was taken."""

    def __init__(self, catalog: Catalog, topics: Topics, gateways: SharedGateways) -> None:
        self._catalog = catalog
        self._topics = topics
        self._gateways = gateways
        self._by_topic: dict[bytes, dict[int, int]] = {}
        self._by_slot: dict[int, dict[tuple[bytes, int], int]] = {}
        self.load()

    # what is wanted ---------------------------------------------------------------------------------------

    def load(self) -> None:
        """Take all of them anew."""
        self._by_topic, self._by_slot = {}, {}
        for entry in self._catalog.range(keys.PREFERRED):
            self.take(entry.key)

    def take(self, key: str) -> None:
        """This one may be different. What cannot be read is nobody's wish: no record depends on it."""
        try:
            topic_id, index = keys.of_preferred(key)
        except ValueError:
            return
        entry = self._catalog.get(key)
        try:
            gateway = None if entry is None else unpack_preferred(entry.value)
        except BadRecord:
            gateway = None
        of_topic = self._by_topic.setdefault(topic_id, {})
        of_slot = self._by_slot.setdefault(slot_of(topic_id, index), {})
        of_topic.pop(index, None)
        of_slot.pop((topic_id, index), None)
        if gateway is not None:
            of_topic[index] = of_slot[topic_id, index] = gateway
        if not of_topic:
            del self._by_topic[topic_id]

    def of_topic(self, topic_id: bytes) -> Mapping[int, int]:
        """By partition, the ids of the gateways that are to lead them."""
        return self._by_topic.get(topic_id, NO_PREFERENCES)

    def of(self, topic: Topic, index: int) -> int | None:
        """Of one partition."""
        return self.of_topic(topic.id).get(index)

    def all(self) -> Iterator[tuple[Topic, int, int]]:
        """Topic, partition, and the id of the gateway."""
        for topic_id, wishes in list(self._by_topic.items()):
            topic = self._topics.by_id(topic_id)
            if topic is not None:
                yield from ((topic, index, gateway) for index, gateway in sorted(wishes.items()))

    def moving(self, topic: Topic, index: int) -> Moving | None:
        """Where a partition is on its way to; None: it is where it is wanted, or nobody wants it elsewhere,
        or who is to lead it is not there for it.
        """
        target = self.of(topic, index)
        leader = self._gateways.leader(topic.id, index)
        if target is None or target == leader:
            return None
        living = self._gateways.living.get(target)
        first = min(self._by_slot[slot_of(topic.id, index)].items())
        return Moving(leader, target) if living is not None and living.stays and first[1] == target else None

    # what is wanted from now on ---------------------------------------------------------------------------

    async def put(self, wishes: Iterable[Wish], needed: Needed) -> list[KafkaError | None]:
        """Want these, in as few transactions as may be; gives what is against each, in their order.

        INVALID_REPLICA_ASSIGNMENT: its slot is wanted elsewhere already; UNKNOWN_TOPIC_OR_PARTITION: the
        topic was deleted meanwhile. `needed` gives what is compared and put so that all gateways know of
        wishes; raises KafkaError: not all do. What is put is seen by `take`.
        """
        waiting = deque(enumerate(wishes))
        refused: list[KafkaError | None] = [None] * len(waiting)
        asked = frozenset((wish.topic.id, wish.partition) for _, wish in waiting)
        wanted: dict[int, int] = {}
        """By slot: what was asked for already."""
        while waiting:
            some = list(islice(waiting, AT_ONCE))
            taken: list[Wish] = []
            for number, wish in some:
                refused[number] = self._refusal(wish, asked, wanted)
                if refused[number] is None:
                    taken.append(wish)
                    if wish.gateway is not None:
                        wanted[slot_of(wish.topic.id, wish.partition)] = wish.gateway
            try:
                await self._transact(taken, needed)
            except CompareFailed:
                for entry in {keys.preferred_key(wish.topic.id, wish.partition) for wish in taken}:
                    self.take(entry)
                continue  # something is different: looked at again
            for _ in some:
                waiting.popleft()
        return refused

    def _refusal(
        self, wish: Wish, asked: Collection[tuple[bytes, int]], wanted: Mapping[int, int]
    ) -> KafkaError | None:
        topic = wish.topic
        there = self._catalog.get(keys.topic_key(topic.name))
        if there is None or keys.unpack(there.value)["id"] != topic.id.hex():
            return KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic {topic.name} was deleted meanwhile."
            )
        if wish.gateway is None:
            return None
        slot = slot_of(topic.id, wish.partition)
        others = {
            self._name(*other): gateway
            for other, gateway in self._by_slot.get(slot, {}).items()
            if other not in asked and gateway != wish.gateway
        }
        if others:
            name, gateway = min(others.items())
            return _slot_is_taken(
                wish, f"{name}, which is wanted at gateway {gateway}: move that one as well"
            )
        if wanted.get(slot, wish.gateway) != wish.gateway:
            return _slot_is_taken(wish, f"another one of this request, which is to go to {wanted[slot]}")
        return None

    def _name(self, topic_id: bytes, index: int) -> str:
        topic = self._topics.by_id(topic_id)
        return f"{'a deleted topic' if topic is None else topic.name}-{index}"

    async def _transact(self, wishes: Sequence[Wish], needed: Needed) -> None:
        """Raises CompareFailed, and what `needed` raises."""
        wishes = [wish for wish in wishes if self.of(wish.topic, wish.partition) != wish.gateway]
        read = [keys.preferred_key(wish.topic.id, wish.partition) for wish in wishes]
        read += [keys.topic_key(wish.topic.name) for wish in wishes]
        read += [keys.gateway_key(wish.gateway) for wish in wishes if wish.gateway is not None]
        puts = {
            keys.preferred_key(wish.topic.id, wish.partition): pack_preferred(wish.gateway)
            for wish in wishes
            if wish.gateway is not None
        }
        ended = [wish for wish in wishes if wish.gateway is None]
        deletes = [keys.preferred_key(wish.topic.id, wish.partition) for wish in ended]
        if puts or deletes:
            compares = unchanged(self._catalog, dict.fromkeys(read))
            more, marks = needed() if puts else ([], {})
            await self._catalog.transact([*compares, *more], puts | marks, deletes)

    async def forget(self) -> None:
        """End some of the wishes that are over: of topics that were deleted, and of gateways that nobody
        knows any more. Whoever sees a wish has seen its topic, and its gateway's record, come before it.
        """
        if not self._by_topic:
            return
        known = self._gateways.records().keys() | self._gateways.living.keys()
        over = [
            Compare(key, entry.mod_revision)
            for topic_id, wishes in self._by_topic.items()
            for index, gateway in wishes.items()
            if self._topics.by_id(topic_id) is None or gateway not in known
            if (entry := self._catalog.get(key := keys.preferred_key(topic_id, index))) is not None
        ][:AT_ONCE]
        if over:
            try:
                await self._catalog.transact(over, {}, [compare.key for compare in over])
            except CompareFailed:
                pass  # somebody wants something else by now


def _slot_is_taken(wish: Wish, by: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        f"{wish.topic.name}-{wish.partition} is led together with {by}, and both move to one gateway only.",
    )
