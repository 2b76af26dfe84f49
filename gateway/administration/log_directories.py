"""What Kafka's log directories are here: each store is one, by its id and name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.cluster.stores import REMOVED

if TYPE_CHECKING:
    from gateway.cluster.stores import StoreEntry, Stores


def log_directories(stores: Stores) -> dict[str, StoreEntry]:
    """The stores that count, by the name of their directory, `store ID (NAME)`."""
    return {
        f"store {stores.name(store.incarnation)}": store for store in stores.entries if store.state != REMOVED
    }
