"""Broker configs that were set while a gateway ran (KIP-226): of this node, and of all nodes of the cluster.

The catalog keeps them. The node's own come before the cluster's, and both before what the gateway was started
with (`kafka.server.DynamicBrokerConfig`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from gateway.catalog import keys
from gateway.catalog.interface import MAX_VALUE_BYTES, Compare, CompareFailed
from wireproto.kafka.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from gateway.catalog.interface import Catalog


class DynamicConfigs:
    """Values as they were given, by config name; they were checked when they were set."""

    def __init__(self, catalog: Catalog, node_id: int) -> None:
        self._catalog = catalog
        self._keys = {keys.broker_configs_key(node): node for node in (node_id, None)}
        self._revisions: dict[str, int] = {}
        """Of the keys, as they were read last."""
        self.node: dict[str, str] = {}
        self.cluster: dict[str, str] = {}
        for key in self._keys:
            self.read(key)

    @property
    def in_force(self) -> dict[str, str]:
        """What holds for this node."""
        return {**self.cluster, **self.node}

    async def alter(self, node: int | None, change: Callable[[Mapping[str, str]], dict[str, str]]) -> None:
        """Change what the catalog has for this node (its id) or for the cluster (None); `read` takes it.

        Raises KafkaError: INVALID_CONFIG, the configs are too large together; NOT_CONTROLLER, somebody else
        has changed them; or what `change` raises.
        """
        before = self.cluster if node is None else self.node
        configs = change(before)
        if configs == before:
            return
        key = keys.broker_configs_key(node)
        record = keys.pack(configs)
        if len(record) > MAX_VALUE_BYTES:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"the broker configs take {len(record)} bytes together, more than {MAX_VALUE_BYTES}",
            )
        try:
            await self._catalog.transact([Compare(key, self._revisions[key])], {key: record})
        except CompareFailed:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "another gateway has changed these configs") from None

    def read(self, key: str) -> bool:
        """Take what the catalog has under this key; whether it is one of these, and was changed."""
        entry = self._catalog.get(key)
        revision = 0 if entry is None else entry.mod_revision
        if key not in self._keys or self._revisions.get(key) == revision:
            return False
        self._revisions[key] = revision
        configs = {} if entry is None else dict(keys.unpack(entry.value))
        if self._keys[key] is None:
            self.cluster = configs
        else:
            self.node = configs
        return True
