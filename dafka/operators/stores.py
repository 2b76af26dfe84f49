"""The gateway's side of `dafka store list|admit|replace|remove` and `dafka mesh status`: what it answers."""

from collections.abc import Mapping
from typing import Any

import trio

from dafka.operators.socket import Handler, OperatorRefused
from gateway.broker import Broker
from gateway.cluster.stores import StoreRefused, Stores
from gateway.log.partition import Partition, PartitionState
from mesh.beacon import Beacon
from mesh.presence import REFUSED_NEXT_STEP

MAX_NAMED_PARTITIONS = 50
"""Partitions that `mesh.status` names one by one; of others it says how many there are."""


REFUSED_SECONDS = 10.0
"""How long after it was last heard of a start that does not count is shown; it answers every second."""


class StoreRequestHandlers:
    """What one gateway does with the requests `stores.*` and `mesh.status`."""

    def __init__(self, stores: Stores, broker: Broker, beacon: Beacon) -> None:
        assert stores.presence is not None
        self._stores = stores
        self._presence = stores.presence
        self._broker = broker
        self._beacon = beacon

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """The handlers, by what a request has as `do`."""
        return {
            "stores.list": self._list,
            "stores.admit": self._admit,
            "stores.remove": self._remove,
            "stores.replace": self._replace,
            "mesh.status": self._status,
        }

    async def _list(self, _request: dict[str, Any]) -> list[dict[str, Any]]:
        """Every store of the catalog, and those that were heard of and are not in it."""
        now = trio.current_time()
        untold = self._broker.context.closer.untold()
        progress = self._broker.replacement.progress
        known = {entry.incarnation for entry in self._stores.entries}
        rows = [
            {
                "id": entry.id,
                "name": entry.name,
                "state": entry.state,
                "unconfirmed_segments": untold.get(entry.incarnation, 0),
                "replacement": str(progress[entry.incarnation]) if entry.incarnation in progress else None,
                **self._seen(entry.incarnation, now),
            }
            for entry in self._stores.entries
        ]
        rows += [
            {
                "id": None,
                "name": seen.name,
                "state": "not admitted",
                "unconfirmed_segments": untold.get(incarnation, 0),
                "replacement": None,
                **self._seen(incarnation, now),
            }
            for incarnation, seen in self._presence.seen.items()
            if incarnation not in known
        ]
        return rows

    def _seen(self, incarnation: str, now: float) -> dict[str, Any]:
        seen = self._presence.seen.get(incarnation)
        refused = self._presence.vouching.refused.get(incarnation)
        return {
            "incarnation": incarnation,
            "live": self._presence.live(incarnation),
            "refused": None
            if refused is None or now - refused.heard > REFUSED_SECONDS
            else f"what answers under its name does not count: {refused.reason}. {REFUSED_NEXT_STEP}",
            "cluster": None if seen is None else seen.cluster_id or None,
            "free_bytes": None if seen is None else seen.free_bytes,
            "silent_seconds": None if seen is None else round(now - seen.last_heard, 1),
        }

    async def _admit(self, request: dict[str, Any]) -> dict[str, Any]:
        incarnation = self._heard_of(str(request.get("store", "")))
        try:
            (entry,) = await self._stores.admit([(incarnation, self._presence.name(incarnation))])
        except StoreRefused as error:
            raise OperatorRefused(str(error)) from None
        return {"id": entry.id, "name": entry.name, "incarnation": entry.incarnation}

    def _heard_of(self, name: str) -> str:
        """The incarnation of the one store that is there under this name. Raises OperatorRefused."""
        seen = self._presence.seen
        found = [
            i for i, store in seen.items() if name == i or (store.name == name and self._presence.live(i))
        ]
        if len(found) == 1:
            return found[0]
        there = ", ".join(sorted(store.name for store in seen.values())) or "none"
        what = "several stores are" if found else "no store was heard of that is"
        raise OperatorRefused(
            f"{what} called {name or '(nothing)'}; heard of: {there}. Name it by its incarnation"
        )

    async def _remove(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            entry = self._stores.find(str(request.get("store", "")))
            await self._stores.remove(entry)
        except StoreRefused as error:
            raise OperatorRefused(str(error)) from None
        return {"id": entry.id, "name": entry.name, "incarnation": entry.incarnation}

    async def _replace(self, request: dict[str, Any]) -> dict[str, Any]:
        """Begin it: the gateway goes on with it by itself, over restarts too."""
        try:
            old = self._stores.find(str(request.get("store", "")))
            new = self._stores.find(str(request.get("by", "")))
            await self._broker.replacement.start(old, new)
        except StoreRefused as error:
            raise OperatorRefused(str(error)) from None
        return {"old": old._asdict(), "new": new._asdict()}

    async def _status(self, request: dict[str, Any]) -> dict[str, Any]:
        """Stores, links, and the partitions that do not serve."""
        leads = self._broker.gateways.leads
        partitions = [one for topic in self._broker.topics.all() for one in topic.partitions if leads(one)]
        troubled = [one for one in partitions if one.state is not PartitionState.READY]
        return {
            "cluster": self._broker.cluster_id,
            "stores": await self._list(request),
            "peers": [
                {
                    "node": peer.node,
                    "endpoint": peer.endpoint,
                    "state": peer.state,
                    "beacon_seconds": round(peer.beacon_age, 1),
                }
                for peer in self._beacon.peers
            ],
            "partitions": len(partitions),
            "ready": len(partitions) - len(troubled),
            "troubled": [_trouble(partition) for partition in troubled[:MAX_NAMED_PARTITIONS]],
        }


def _trouble(partition: Partition) -> dict[str, Any]:
    return {
        "partition": f"{partition.topic.name}-{partition.index}",
        "state": partition.state.value,
        "reason": partition.reason,
    }
