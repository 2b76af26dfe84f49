"""Opening a store's database, and what to say and do when it will not open."""

import logging

from mesh.store.db import StoreFailed
from mesh.store.store import Store, StoreSettings
from mesh.zmq_trio import Context

logger = logging.getLogger(__name__)


def open_store(context: Context, settings: StoreSettings) -> Store:
    """Open a store. Raises StoreFailed, or DataDirectoryRefused for data that cannot be read whole."""
    return Store(context, settings)


__all__ = ["StoreFailed", "open_store"]
