"""The gateway's side of `dafka gateways`: what it answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import trio

from dafka.operators.socket import Handler, OperatorRefused
from gateway.administration.feature_updates import FeatureJudge, prospects, upgrades
from gateway.broker import Broker
from gateway.cluster.feature_levels import FeatureState, supported_by
from gateway.cluster.gateway_orders import GatewayOrders, GatewayRefused
from gateway.cluster.gateways import Living, SharedGateways
from gateway.cluster.preferred_leaders import PreferredLeaders, Wish
from gateway.leadership.records import MAX_GATEWAY_ID, GatewayRecord
from wireproto.kafka.errors import KafkaError

TOPICS_A_TURN: Final = 200
"""Topics whose leaders are counted before others have their turn."""

ALONE: Final = (
    "this gateway has its catalog for itself, so there is no other one to lead anything. Several share one "
    "in etcd (--catalog etcd://..., --gateway-id N), or on one machine (dafka standalone --gateways N)"
)


class GatewayRequestHandlers:
    """What one gateway does with the requests `gateways.*`."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._gateways = broker.gateways
        self._orders = broker.gateway_orders

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """The handlers, by what a request has as `do`."""
        return {
            "gateways.list": self._list,
            "gateways.features": self._features,
            "gateways.upgrade": self._upgrade,
            "gateways.drain": self._drain,
            "gateways.remove": self._remove,
            "gateways.preferred": self._preferred,
            "gateways.share": self._share,
        }

    async def _list(self, _request: dict[str, Any]) -> list[dict[str, Any]]:
        """Every gateway that has ever been there and was not removed."""
        partitions, topics = await self._led()
        if not isinstance(self._gateways, SharedGateways):
            raise OperatorRefused(ALONE)
        living, records = self._gateways.living, self._gateways.records()
        slots = Counter(self._gateways.leaders_of_slots)
        return [
            {
                "id": number,
                "state": _state(living.get(number), partitions[number]),
                "partitions": partitions[number],
                "topics": topics[number],
                "slots": slots[number],
                "asked": number == self._broker.node_id,
                **_told(records.get(number)),
            }
            for number in sorted(living.keys() | records.keys())
        ]

    async def _features(self, _request: dict[str, Any]) -> list[dict[str, Any]]:
        """Each feature: its level, the one that all gateways can, and who keeps it from this release's."""
        await trio.lowlevel.checkpoint()
        features = self._broker.features
        return [
            {"feature": name, "level": one.level, "possible": one.possible, "held_up_by": one.held_up_by}
            for name, one in prospects(features.state(), features.supported).items()
        ]

    async def _upgrade(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        """Raise each feature as far as all gateways can; then as `_features`."""
        features = self._broker.features

        def decide(state: FeatureState) -> dict[str, int]:
            judge = FeatureJudge(state, self._broker.node_id, features.supported)
            return judge.levels(upgrades(state, features.supported))

        try:
            await self._broker.change_features(decide)
        except KafkaError as error:
            raise OperatorRefused(error.message) from None
        await self._broker.remembered()
        return await self._features(request)

    async def _led(self) -> tuple[Counter[int], Counter[int]]:
        """By gateway: partitions, and topics of which it leads some."""
        partitions: Counter[int] = Counter()
        topics: Counter[int] = Counter()
        for done, topic in enumerate(self._broker.topics.all(), 1):
            leaders = self._gateways.leaders(topic)
            partitions.update(leaders)
            topics.update(set(leaders))
            if not done % TOPICS_A_TURN:
                await trio.lowlevel.checkpoint()
        return partitions, topics

    async def _drain(self, request: dict[str, Any]) -> dict[str, Any]:
        number, orders = self._asked_of(request)
        try:
            if request.get("stop") is True:
                await orders.stop_draining(number)
            else:
                await orders.drain(number)
        except GatewayRefused as error:
            raise OperatorRefused(error.message) from None
        return {"id": number}

    async def _remove(self, request: dict[str, Any]) -> dict[str, Any]:
        number, orders = self._asked_of(request)
        try:
            await orders.remove(number)
        except GatewayRefused as error:
            raise OperatorRefused(error.message) from None
        return {"id": number}

    async def _preferred(self, _request: dict[str, Any]) -> list[dict[str, Any]]:
        """Every partition that somebody wants a certain gateway to lead."""
        preferred = self._wishes()
        return [
            {
                "topic": topic.name,
                "partition": index,
                "preferred": gateway,
                "leader": self._gateways.leader(topic.id, index),
                "moving": preferred.moving(topic, index) is not None,
            }
            for topic, index, gateway in preferred.all()
        ]

    async def _share(self, request: dict[str, Any]) -> dict[str, Any]:
        """Nobody wants a certain gateway any more to lead a topic's partitions, or one of them."""
        preferred, name, partition = self._wishes(), request.get("topic"), request.get("partition")
        topic = self._broker.topics.get(name) if isinstance(name, str) else None
        if topic is None:
            raise OperatorRefused(
                f"there is no topic {name!r}: 'dafka topics list' shows those that there are"
            )
        if partition is not None and (type(partition) is not int or partition < 0):
            raise OperatorRefused("a partition is named by its number, 0 to one less than there are")
        indexes = preferred.of_topic(topic.id).keys()
        wishes = [Wish(topic, index, None) for index in indexes if partition in (None, index)]
        try:
            await self._broker.prefer_leaders(wishes)
        except KafkaError as error:
            raise OperatorRefused(error.message) from None
        return {"partitions": len(wishes)}

    def _wishes(self) -> PreferredLeaders:
        if self._orders is None or self._broker.preferred is None:
            raise OperatorRefused(ALONE)
        return self._broker.preferred

    def _asked_of(self, request: dict[str, Any]) -> tuple[int, GatewayOrders]:
        """The gateway that a request is about."""
        number = request.get("gateway")
        if type(number) is not int or not 0 < number <= MAX_GATEWAY_ID:
            raise OperatorRefused(f"a gateway is named by its id, 1 to {MAX_GATEWAY_ID}")
        if self._orders is None:
            raise OperatorRefused(ALONE)
        return number, self._orders


def _state(living: Living | None, partitions: int) -> str:
    if living is None:
        return "gone"
    if living.leaving:
        return "stopping"
    if not living.has_begun:
        return "reaches too few stores"
    if living.draining:
        return "draining" if partitions else "drained"
    return "serves"


def _told(record: GatewayRecord | None) -> dict[str, Any]:
    """What it says of itself."""
    if record is None:
        return {"name": None, "release": None, "listeners": {}, "features": {}}
    listeners = {name: f"{address.host}:{address.port}" for name, address in record.listeners.items()}
    return {
        "name": record.name,
        "release": record.release,
        "listeners": listeners,
        "features": supported_by(record),
    }
