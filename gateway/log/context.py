"""What all partitions of one gateway share: the mesh's two sides, the catalog, the cache, and the workers."""

import time
from typing import TYPE_CHECKING

from gateway.budget import Gate
from gateway.log.closer import Closer
from gateway.log.cold import ColdReader
from gateway.log.opener import Opener
from gateway.log.producer_ids import ProducerIds
from gateway.log.tail_cache import TailCache
from gateway.stores import Stores

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gateway.catalog.interface import Catalog
    from gateway.log.partition import Partition
    from mesh.producer import Producer
    from mesh.reader import Reader


MAX_WINDOW_BYTES = 64 * 1024 * 1024
"""Appended and not yet durable, all partitions together: some hundred milliseconds of a busy disk. Half of
the store's queue, so that the store never refuses what the gateway sent."""


class LogContext:
    """Made once per gateway life. `stores`: the catalog's, or incarnations of some that are always there."""

    def __init__(
        self,
        catalog: "Catalog",
        producer: "Producer",
        reader: "Reader",
        *,
        cluster_id: str,
        stores: "Stores | Sequence[str]",
        tail_cache_bytes: int,
    ) -> None:
        self.catalog = catalog
        self.producer = producer
        self.reader = reader
        self.cluster_id = cluster_id
        self.stores = stores if isinstance(stores, Stores) else Stores.always(catalog, stores)
        self.tail_cache = TailCache(tail_cache_bytes)
        self.opener = Opener(self)
        self.closer = Closer(self)
        self.cold = ColdReader(self)
        self.producer_ids = ProducerIds(catalog)
        self.window_gate = Gate()
        """Closed while the windows of all partitions hold as much as they may: producers' sockets are not
        read."""
        self.recover_again: Callable[[Partition], None] = lambda _partition: None
        """Called with a partition that lost its segment; the recovery sets it."""
        self.segments_dropped: Callable[[], None] = lambda: None
        """Called when segments have left their chains; the deletion sets it."""

    def window_changed(self) -> None:
        """Records were appended or became durable: close or open the gate."""
        held, gate = self.producer.window_bytes, self.window_gate
        if gate.is_open:
            if held > MAX_WINDOW_BYTES:
                gate.close()
        elif held <= MAX_WINDOW_BYTES // 2:
            gate.open()

    def members_for(self, partition: "Partition") -> tuple[str, ...]:
        """The stores that will keep a partition's next segment."""
        topic = partition.topic
        return self.stores.choose(f"{topic.id.hex()}/{partition.index}", topic.replication_factor)

    @staticmethod
    def now_ms() -> int:
        """The wall clock, ms since 1970: for timestamps that people see, never for order."""
        return time.time_ns() // 1_000_000
