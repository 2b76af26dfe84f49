"""Which quota is for whom: of all that there are, the first that fits (`DefaultQuotaCallback`).

| | quota of | who shares what it gives |
|---|---|---|
| 1 | the user and the client id | these |
| 2 | the user and the default client id | the user's connections with the same client id |
| 3 | the user | all his connections |
| 4 | the default user and the client id | as 2 |
| 5 | the default user and the default client id | as 2 |
| 6 | the default user | as 3 |
| 7 | the client id | all users' connections with it |
| 8 | the default client id | as 7 |

It is looked for by each key: somebody may have his bytes from one entity and his requests from another. A
client without an id (or an empty one) has none of 1, 2, 4, 5, 7 and 8, as in Kafka; where 2 is there for its
user, or 5 but not 3, it falls to 3 and 6.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeAlias, TypeVar

from gateway.quotas.entities import CLIENT_ID, IP, USER, Entity

_Name = TypeVar("_Name", bound=tuple[str | None, ...])

Bucket: TypeAlias = tuple[str, str, str]
"""A key, a user, a client id; "" for all of them."""


class Limit(NamedTuple):
    """So much a second (of a hundred percent, or of whatever the key counts), for all of the bucket."""

    bound: float
    bucket: Bucket


class Table:
    """The quotas of a cluster."""

    def __init__(self, quotas: Mapping[Entity, Mapping[str, float]] = MappingProxyType({})) -> None:
        self._by_entity: dict[Entity, Mapping[str, float]] = {}
        self._of_clients: dict[tuple[str, str | None, str | None], float] = {}
        """By key, user and client id; None for the default, "" where the entity has no such part."""
        self._of_ips: dict[tuple[str, str | None], float] = {}
        self.keys: Counter[str] = Counter()
        """How many entities have each."""
        for entity, values in quotas.items():
            self.put(entity, values)

    def put(self, entity: Entity, values: Mapping[str, float]) -> None:
        """An entity has these and no others."""
        parts = dict(entity)
        before = self._by_entity.pop(entity, {})
        self.keys -= Counter(before.keys())
        self.keys += Counter(values.keys())
        if values:
            self._by_entity[entity] = values
        for key in {*before, *values}:
            if IP in parts:
                _put(self._of_ips, (key, parts[IP]), values.get(key))
            else:
                _put(self._of_clients, (key, parts.get(USER, ""), parts.get(CLIENT_ID, "")), values.get(key))

    def limit(self, key: str, user: str, client_id: str) -> Limit | None:
        """What a client may use; None: as much as it likes."""
        found = self._of_clients
        for (of_user, of_client), named in _places(user, client_id):
            bound = found.get((key, of_user, of_client))
            if bound is not None:
                return Limit(bound, (key, *named))
        return None

    def of_ip(self, key: str, ip: str) -> tuple[float, bool] | None:
        """What an address may use, and whether that is its own quota rather than the default."""
        own = self._of_ips.get((key, ip))
        if own is not None:
            return own, True
        default = self._of_ips.get((key, None))
        return None if default is None else (default, False)


def _put(quotas: dict[_Name, float], name: _Name, bound: float | None) -> None:
    quotas.pop(name, None)
    if bound is not None:
        quotas[name] = bound


def _places(user: str, client_id: str) -> Iterator[tuple[tuple[str | None, str | None], tuple[str, str]]]:
    """Where to look, the first first, and what the bucket is of."""
    if client_id:
        yield (user, client_id), (user, client_id)
        yield (user, None), (user, client_id)
    yield (user, ""), (user, "")
    if client_id:
        yield (None, client_id), (user, client_id)
        yield (None, None), (user, client_id)
    yield (None, ""), (user, "")
    if client_id:
        yield ("", client_id), ("", client_id)
        yield ("", None), ("", client_id)
