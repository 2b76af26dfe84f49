"""What routes see of the gateway, and of the process around it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import trio

from gateway.http.sums import Sums
from gateway.http.trends import Trends
from gateway.http.turns import Turns

if TYPE_CHECKING:
    from gateway.broker import Broker
    from gateway.common.metrics import Metrics
    from gateway.front.server import Server

READS_AT_ONCE = 2
"""Reads of records at once: of each up to `gateway.http.reading.MAX_READ_BYTES` of log is in memory."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the process knows and the gateway does not. Each function answers at once, in the trio thread."""

    role: str = "standalone"
    """"standalone" or "gateway"."""

    version: str = ""
    not_ready_because: Callable[[], str | None] = lambda: None
    is_suspended: Callable[[], bool] = lambda: False
    """Others may have taken what this gateway leads (`gateway.cluster.alive`): no record of it is shown."""

    longest_stretch: Callable[[], float] = lambda: 0.0
    """Seconds that the loop was held up at a time, in the last minute."""

    long_stretches: Callable[[], int] = lambda: 0
    towers: Callable[[], Sequence[dict[str, Any]]] = tuple
    peers: Callable[[], Sequence[dict[str, Any]]] = tuple
    """As the mesh route shows them."""

    own_store: Callable[[], dict[str, Any] | None] = lambda: None
    """`catch_up`, `scrub` and `fsync` of the store in this process, as the mesh route shows them."""


@dataclass(slots=True)
class View:
    """One for each gateway. `kafka` gives the server of Kafka clients, None before it serves."""

    broker: Broker
    metrics: Metrics
    kafka: Callable[[], Server | None]
    surroundings: Surroundings = field(default_factory=Surroundings)
    hide_values: bool = False
    data: bool = False
    """Programs append and read records, too (`--http-data`)."""

    turns: Turns = field(default_factory=Turns)
    reads: trio.CapacityLimiter = field(default_factory=lambda: trio.CapacityLimiter(READS_AT_ONCE))
    streams: int = 0
    """Streams of events that are open."""

    started_ms: int = field(default_factory=lambda: time.time_ns() // 1_000_000)
    sums: Sums = field(init=False)
    trends: Trends = field(init=False)

    def __post_init__(self) -> None:
        self.sums = Sums(self.broker, self.metrics, self.kafka, self.turns)
        self.trends = Trends(self.broker, self.turns)

    async def run(self) -> None:
        """Make sums and trends while somebody looks, for ever."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.sums.run)
            nursery.start_soon(self.trends.run)


def now_ms() -> int:
    """The wall clock, ms since 1970."""
    return time.time_ns() // 1_000_000
