"""The quotas of a cluster: `/quotas/<digest>` of the catalog, in force on each gateway as soon as it follows.

An entity is an entry of its own, so two administrators who change different ones do not meet. Its key is a
digest of what it is, since names may be longer than keys. An entry that cannot be read limits nobody, and
that is said.

The name of an ip's entity may be one of a host (Kafka resolves it). It is resolved once, when it is set, and
what was found is kept: every gateway goes by the same address.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.catalog import keys
from gateway.catalog.interface import CompareFailed, unchanged
from gateway.configs.broker_validation import (
    CONNECTIONS_PER_SECOND,
    MOST_CONNECTIONS,
    MOST_OF_ADDRESS,
    MOST_OF_SOME,
    parse_broker_integer,
)
from gateway.configs.checks import parse_address_counts
from gateway.quotas.alteration import Values, altered
from gateway.quotas.entities import IP, BadQuota, Entity, check_entity, check_value, described, sorted_pairs
from gateway.quotas.places import PlaceLimits, Places
from gateway.security.access import java_address
from wireproto.kafka.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from gateway.catalog.interface import Catalog
    from gateway.quotas.client_quotas import ClientQuotas
    from gateway.quotas.connection_rates import ConnectionRates

logger = logging.getLogger(__name__)

MAX_ENTITIES: Final = 10_000
"""Entities that may have quotas: every gateway has all of them in memory, up to two kilobytes each."""

ENTITIES_AT_ONCE: Final = 50
"""Entities that are changed in one transaction."""


class Kept(NamedTuple):
    """What the catalog has of an entity. `address` is an ip's, "" for the default one and for others."""

    entity: Entity
    quotas: Mapping[str, float]
    address: str = ""


def pack(kept: Kept) -> bytes:
    """The value of an entity."""
    entity = dict(sorted_pairs(kept.entity))
    return keys.pack({"entity": entity, "quotas": kept.quotas, "address": kept.address})


def unpack(value: bytes) -> Kept:
    """Of what `pack` gave. Raises BadQuota."""
    try:
        read = json.loads(value)
        entity: Entity = frozenset(read["entity"].items())
        quotas = {key: float(bound) for key, bound in read["quotas"].items()}
        address = str(read["address"])
        check_entity(entity)
    except (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError) as error:
        raise BadQuota(str(error)) from None
    for key, bound in quotas.items():
        check_value(entity, key, bound)
    return Kept(entity, quotas, address)


def key_of(entity: Entity) -> str:
    """Where the catalog has it."""
    packed = json.dumps(sorted_pairs(entity), separators=(",", ":")).encode()
    return keys.QUOTAS + hashlib.sha256(packed).hexdigest()[:32]


def place_limits(configs: Mapping[str, str]) -> PlaceLimits:
    """What broker configs say of connections; they were checked when they were set."""
    named = {
        "all": MOST_CONNECTIONS,
        "of_address": MOST_OF_ADDRESS,
        "per_second": CONNECTIONS_PER_SECOND,
    }
    numbers = {
        field: parse_broker_integer(name, configs[name]) for field, name in named.items() if name in configs
    }
    counts = parse_address_counts(MOST_OF_SOME, configs.get(MOST_OF_SOME, ""))
    of_some = {java_address(address): count for address, count in counts.items()}
    return PlaceLimits()._replace(**numbers, of_some=of_some)


class Quotas:
    """Those of a cluster, as of the last key that was taken (`gateway.cluster.following`); `clients` and
    `connections` go by them.
    """

    def __init__(self, catalog: Catalog, clients: ClientQuotas, connections: ConnectionRates) -> None:
        self.clients = clients
        self.connections = connections
        self.places = Places()
        self._catalog = catalog
        self._by_key: dict[str, Kept] = {}
        self._of_ips: dict[str, Kept] = {}
        for entry in catalog.range(keys.QUOTAS):
            self.take(entry.key)

    def known_keys(self) -> Iterable[str]:
        """Of all that there are in memory."""
        return list(self._by_key)

    def all(self) -> Iterator[tuple[Entity, Mapping[str, float]]]:
        """Every entity that has quotas, and what they are, as of now."""
        for kept in list(self._by_key.values()):
            yield kept.entity, kept.quotas

    def take(self, key: str) -> None:
        """This one may be different."""
        entry = self._catalog.get(key)
        before = self._by_key.pop(key, None)
        now = None
        if entry is not None:
            try:
                now = self._by_key[key] = unpack(entry.value)
            except BadQuota as error:
                logger.error(
                    "the quotas at %s of the catalog cannot be read, so they limit nobody: %s", key, error
                )
        if before is not None:
            self._apply(key, before._replace(quotas={}))
        if now is not None:
            self._apply(key, now)

    def _apply(self, key: str, kept: Kept) -> None:
        if not any(kind == IP for kind, _ in kept.entity):
            self.clients.put(kept.entity, kept.quotas)
            return
        self._of_ips.pop(key, None)
        if kept.quotas:
            self._of_ips[key] = kept
        self.connections.set(self._by_address, is_on=bool(self._of_ips))

    def _by_address(self) -> dict[Entity, Mapping[str, float]]:
        """Where two names have the same address, the first that was set counts."""
        found: dict[Entity, Mapping[str, float]] = {}
        for kept in self._of_ips.values():
            ((_, name),) = kept.entity
            found.setdefault(frozenset({(IP, None if name is None else kept.address)}), kept.quotas)
        return found

    async def alter(self, changes: Mapping[Entity, Values], addresses: Mapping[Entity, str]) -> None:
        """Make these changes, which were judged; `addresses` are those of ips. Memory is as before until the
        catalog is followed. Raises KafkaError: POLICY_VIOLATION, too many entities would have quotas.
        """
        new = [key_of(entity) for entity, values in changes.items() if any(values.values())]
        if len(self._by_key.keys() | set(new)) > MAX_ENTITIES:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"{MAX_ENTITIES} entities at most may have quotas: remove some, or use defaults",
            )
        left = iter(changes.items())
        while some := dict(islice(left, ENTITIES_AT_ONCE)):
            while not await self._make(some, addresses):
                pass  # changed by somebody else meanwhile

    async def _make(self, changes: Mapping[Entity, Values], addresses: Mapping[Entity, str]) -> bool:
        """Whether it is done; False: what it was made of has changed."""
        puts: dict[str, bytes] = {}
        deletes: list[str] = []
        for entity, values in changes.items():
            key = key_of(entity)
            before = self._there(key)
            after = altered({} if before is None else before.quotas, values)
            address = addresses.get(entity, "")
            if after:
                kept = Kept(entity, after, address)
                if kept != before:
                    puts[key] = pack(kept)
            elif before is not None:
                deletes.append(key)
        if not puts and not deletes:
            return True
        try:
            await self._catalog.transact(unchanged(self._catalog, [*puts, *deletes]), puts, deletes)
        except CompareFailed:
            return False
        logger.info("quotas changed: %s", "; ".join(described(entity) for entity in islice(changes, 10)))
        return True

    def _there(self, key: str) -> Kept | None:
        entry = self._catalog.get(key)
        if entry is None:
            return None
        try:
            return unpack(entry.value)
        except BadQuota:
            return Kept(frozenset(), {})  # whatever it is, it is replaced
