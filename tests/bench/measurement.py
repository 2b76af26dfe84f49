"""What a figure gives, and what it is given."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.bench import generator
from tests.bench.generator import Load
from tests.bench.servers import Durability, Kind, Server
from tests.peers.process import family

# A hundredth of a figure's records still makes a figure.
SMALLEST_RUN = 1000
# And so does a moment of load.
SHORTEST_SECONDS = 0.2

# A server is left alone until it takes less than this share of a processor, or for so long.
IDLE_SHARE = 0.1
LOOK_SECONDS = 0.5
SETTLING_SECONDS = 10.0

# How long a load is measured, at scale 1.
MEASURED_SECONDS = 8.0

PER_GB = "s/GB"
PER_REQUEST = "us/request"
PER_RUN = "s/run"


class NotHere(Exception):
    """This server cannot do what the figure asks; the message says why."""


@dataclass(frozen=True)
class Cost:
    """Processor time beside a value: of the server and of its client, both in `unit`."""

    server: float
    client: float | None
    """None where the client's cannot be told from its start."""
    unit: str


@dataclass(frozen=True)
class Point:
    """The place of a measurement on a curve."""

    growth: str
    """What grows: the curve's x axis, with its unit."""
    x: float
    what: str
    """What is drawn over it."""


@dataclass(frozen=True)
class Measurement:
    """One value of one run of one server."""

    metric: str
    unit: str
    value: float
    more_is_better: bool
    cost: Cost | None = None
    point: Point | None = None
    peak_rss: int | None = None
    """Bytes; of the server, from its start until the figure was done."""


@dataclass
class Usage:
    """Processor seconds of server and client in the `with` block of `Context.used`, once it is left."""

    server: float = 0.0
    client: float = 0.0

    def per_gb(self, size: float) -> Cost:
        return Cost(self.server / size * 1e9, self.client / size * 1e9, PER_GB)

    def per_request(self, count: float) -> Cost:
        return Cost(self.server / count * 1e6, self.client / count * 1e6, PER_REQUEST)


@dataclass(frozen=True)
class Context:
    """A server just started and warmed, the seconds that its first Metadata answer took, and the scale."""

    server: Server
    kind: Kind
    durability: Durability
    first_metadata_seconds: float
    scale: float
    warm_up_seconds: float
    """Processor time of the server, before it is measured."""

    @property
    def bootstrap(self) -> str:
        return self.server.bootstrap

    def scaled(self, records: int) -> int:
        return max(SMALLEST_RUN, int(records * self.scale))

    def seconds(self, seconds: float) -> float:
        return max(SHORTEST_SECONDS, seconds * self.scale)

    def times(self, count: int) -> int:
        """How often something is repeated."""
        return max(1, int(count * self.scale))

    def load(self, role: str, topic: str, **options: Any) -> Load:
        """Run the native generator against the server; see `tests.bench.generator.run`."""
        common = {"Bootstrap": self.bootstrap, "Topic": topic, "Pids": family(self.server.pid)}
        return generator.run(role, **common, **options)

    def timed_load(self, role: str, topic: str, **options: Any) -> Load:
        """The same for a time: a quarter of it to warm up, then what is measured."""
        seconds = self.seconds(MEASURED_SECONDS)
        return self.load(role, topic, WarmUpSeconds=seconds / 4, Seconds=seconds, **options)

    def settle(self) -> None:
        """Wait until the server has done what comes after a load: flushes, compactions, a compiler's work."""
        deadline = time.monotonic() + SETTLING_SECONDS
        while time.monotonic() < deadline:
            before = self.server.cpu_seconds
            time.sleep(LOOK_SECONDS)
            if self.server.cpu_seconds - before <= IDLE_SHARE * LOOK_SECONDS:
                return

    @contextmanager
    def used(self) -> Iterator[Usage]:
        """Note the server's processor seconds, and ours: of this process and of children that have ended."""
        usage = Usage(-self.server.cpu_seconds, -_own_seconds())
        yield usage
        usage.server += self.server.cpu_seconds
        usage.client += _own_seconds()


def per_gb(load: Load, size: int | None = None) -> Cost:
    """Processor seconds for each GB of values: of those that were moved, or of so many bytes."""
    moved = load.bytes if size is None else size
    if not moved:
        raise AssertionError("nothing was moved in the time that was measured: it needs a larger --scale")
    return Cost(load.server_seconds / moved * 1e9, load.client_seconds / moved * 1e9, PER_GB)


def per_request(load: Load) -> Cost:
    """Processor microseconds for each request."""
    count = load.requests
    if not count:
        raise AssertionError("nothing was answered in the time that was measured: it needs a larger --scale")
    return Cost(load.server_seconds / count * 1e6, load.client_seconds / count * 1e6, PER_REQUEST)


def throughput(metric: str, load: Load) -> Measurement:
    """Megabytes of values a second, and what each GB costs."""
    return Measurement(metric, "MB/s", load.bytes / load.seconds / 1e6, True, per_gb(load))


def percentiles(metric: str, load: Load) -> Iterator[Measurement]:
    """Median, 99th and 99.9th percentile, and what each request costs."""
    cost = per_request(load)
    for name, value in (("p50", load.p50), ("p99", load.p99), ("p99.9", load.p999)):
        yield Measurement(f"{metric}, {name}", "us", value, False, cost)


def _own_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


Measure = Callable[[Context], Iterator[Measurement]]


@dataclass(frozen=True)
class Figure:
    """A measure with a name to choose it by."""

    measure: Measure
    warm: bool = True
    """The server is warmed by other work before."""
    ceilings: bool = False
    """The null sink and librdkafka's mock can do it, too."""
    by_name: bool = False
    """Left out where no figure is named: it takes long."""
