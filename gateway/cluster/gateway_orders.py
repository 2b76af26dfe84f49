"""What operators have done with the gateways that share a catalog: drained, and forgotten.

A gateway that is **drained** (`/draining/<id>`, put by any gateway for an operator) gives away what it leads,
a slot after the other, and is given nothing, until that is taken back; it stays a broker that clients may
ask for everything else. One that is **removed** is known no more: its record goes, when nobody lives in its
name. The id may be another one's then.

Rule: who is alive is not removed. What is compared says so in that very moment: that there is no key of a
life, and that the record is the one that was looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.catalog import keys
from gateway.catalog.interface import Compare, CompareFailed, unchanged
from gateway.leadership.records import unpack_slot
from wireproto.kafka.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from gateway.catalog.interface import Catalog
    from gateway.cluster.gateways import SharedGateways

DRAINED = b"{}"
"""The value of an order: that it is there says everything."""

IS_ALIVE = "gateway {} is alive: stop it first (it hands over what it leads), and have nobody start it again"


class GatewayRefused(KafkaError):
    """An order is not carried out; the text says why and what to do.

    INVALID_REQUEST: the gateway is alive; BROKER_ID_NOT_REGISTERED: nobody knows it; REQUEST_TIMED_OUT: the
    same works in a moment.
    """


class GatewayOrders:
    """As one of the gateways carries them out."""

    def __init__(self, catalog: Catalog, gateways: SharedGateways) -> None:
        self._catalog = catalog
        self._gateways = gateways

    async def drain(self, number: int) -> None:
        """Have others lead what this gateway leads, from now on. Raises GatewayRefused."""
        key = keys.draining_key(number)
        while self._catalog.get(key) is None:
            compares = [self._record(number), Compare(key, 0)]
            await self._put(compares, {key: DRAINED})

    async def stop_draining(self, number: int) -> None:
        """Have it lead its share again. Raises GatewayRefused."""
        key = keys.draining_key(number)
        while self._catalog.get(key) is not None:
            self._record(number)
            await self._put(unchanged(self._catalog, [key]), {}, [key])

    async def remove(self, number: int) -> None:
        """Forget it. Raises GatewayRefused: nobody knows it, or it is alive."""
        record, draining = keys.gateway_key(number), keys.draining_key(number)
        compare = self._record(number)
        while self._catalog.get(record) is not None:
            alive = keys.alive_key(number)
            if number in self._gateways.living or self._catalog.get(alive) is not None:
                raise GatewayRefused(ErrorCode.INVALID_REQUEST, IS_ALIVE.format(number))
            if any(unpack_slot(slot.value).gateway == number for slot in self._catalog.range(keys.SLOTS)):
                raise GatewayRefused(
                    ErrorCode.REQUEST_TIMED_OUT,
                    f"partitions are still gateway {number}'s, which is gone: others take them in these "
                    "seconds. Try it again",
                )
            compares = [compare, Compare(alive, 0), *unchanged(self._catalog, [draining])]
            deletes = [record] if self._catalog.get(draining) is None else [record, draining]
            await self._put(compares, {}, deletes)
            compare = Compare(record, self._revision(record))

    def _record(self, number: int) -> Compare:
        """Raises GatewayRefused: there is no such gateway."""
        key = keys.gateway_key(number)
        revision = self._revision(key)
        if not revision:
            known = sorted(self._gateways.records())
            raise GatewayRefused(
                ErrorCode.BROKER_ID_NOT_REGISTERED,
                f"there is no gateway {number}; known are {', '.join(map(str, known)) or 'none'} "
                "('dafka gateways list' shows them)",
            )
        return Compare(key, revision)

    def _revision(self, key: str) -> int:
        entry = self._catalog.get(key)
        return 0 if entry is None else entry.mod_revision

    async def _put(
        self, compares: list[Compare], puts: dict[str, bytes], deletes: list[str] | None = None
    ) -> None:
        try:
            await self._catalog.transact(compares, puts, deletes or [])
        except CompareFailed:
            pass  # something is different: looked at again
