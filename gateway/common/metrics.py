"""What the gateway counts, and how it is read.

Counting costs nanoseconds: plain integers and lists that only the trio thread changes. Reading them is left
to the scrape, when `collect` makes Prometheus samples of them. (The prometheus_client's own `inc` and
`observe` take a lock each and cost microseconds, for every request.)

Others add what they know: a table of figures with `register`, or one at a time with `gauge`, `counter` and
`histogram`. How a figure is read is a function that is called at the scrape, in the trio thread, and returns
the current value or values.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Final, Generic, TypeAlias, TypeVar

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

LATENCY_BOUNDS = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
    30.0,
)  # fmt: skip
"""Upper bounds of the latency buckets in seconds: from an answer out of memory to a Kafka client's own
timeout."""

Value: TypeAlias = float | Mapping[Any, float]
"""A number, or numbers by the values of the labels (tuples of strings)."""

_Source = TypeVar("_Source")


@dataclass(frozen=True, slots=True)
class Figure(Generic[_Source]):
    """One line of a table: something that a part of the process, the source, shows to Prometheus."""

    family: ClassVar[type[GaugeMetricFamily | CounterMetricFamily]]

    name: str
    help: str
    read: Callable[[_Source], Value]
    """Called at each scrape."""

    labels: Sequence[str] = ()


class Gauge(Figure[_Source]):
    """A value that goes up and down."""

    __slots__ = ()
    family = GaugeMetricFamily


class Counter(Figure[_Source]):
    """A value that only grows; its name ends in `_total`."""

    __slots__ = ()
    family = CounterMetricFamily


class Histogram:
    """How often which duration (or size) was seen."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float] = LATENCY_BOUNDS) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def cumulative(self) -> list[tuple[str, float]]:
        """(upper bound, observations up to it) as Prometheus wants them, +Inf last."""
        seen = 0
        buckets: list[tuple[str, float]] = []
        for bound, count in zip([*map(str, self.bounds), "+Inf"], self.counts, strict=True):
            seen += count
            buckets.append((bound, seen))
        return buckets


class ApiStats:
    """Requests of one API: how many, bytes in and out, time from whole request to ready answer."""

    __slots__ = ("latency", "name", "request_bytes", "requests", "response_bytes")

    def __init__(self, name: str) -> None:
        self.name = name
        self.requests = 0
        self.request_bytes = 0
        self.response_bytes = 0
        self.latency = Histogram()


class Metrics(Collector):
    """The metrics of one process, and the registry that is scraped; `with_clients` of Kafka, or without."""

    def __init__(self, *, with_process: bool = True, with_clients: bool = True) -> None:
        self.apis: dict[int, ApiStats] = {}
        self.connections_open = 0
        self.connections_accepted = 0
        self.connections_refused = 0
        self.connections_closed: dict[tuple[str, ...], float] = {}
        self._families: list[Callable[[], Metric]] = []
        self._names: set[str] = set()
        self.registry = CollectorRegistry()
        if with_process:
            ProcessCollector(registry=self.registry)
            PlatformCollector(registry=self.registry)
        if with_clients:
            self.register(_CONNECTIONS, self)
        self.registry.register(self)

    def api(self, key: int, name: str) -> ApiStats:
        """The counters of one API, made at the first call."""
        if key not in self.apis:
            self.apis[key] = ApiStats(name)
        return self.apis[key]

    def connection_closed(self, reason: str) -> None:
        """Counts a closed connection. `reason` is one of a few words of ours, never a client's."""
        self.connections_closed[reason,] = self.connections_closed.get((reason,), 0) + 1

    def register(self, figures: Iterable[Figure[_Source]], source: _Source) -> None:
        """Adds the figures of a table, all of one source."""
        for figure in figures:
            self._add(figure.name, partial(_family, figure, source))

    def gauge(self, name: str, text: str, read: Callable[[], Value], labels: Sequence[str] = ()) -> None:
        """Adds a value that goes up and down. `read` is called at each scrape."""
        self.register([Gauge(name, text, lambda _: read(), labels)], None)

    def counter(self, name: str, text: str, read: Callable[[], Value], labels: Sequence[str] = ()) -> None:
        """Adds a value that only grows; `name` ends in `_total`. `read` is called at each scrape."""
        self.register([Counter(name, text, lambda _: read(), labels)], None)

    def histogram(self, name: str, text: str, histogram: Histogram) -> None:
        """Adds a histogram that others `observe` into."""

        def family() -> Metric:
            metric = HistogramMetricFamily(name, text)
            metric.add_metric([], histogram.cumulative(), histogram.total)
            return metric

        self._add(name, family)

    def collect(self) -> Iterable[Metric]:
        for family in self._families:
            yield family()
        yield from self._api_families()

    def describe(self) -> Iterable[Metric]:
        """Nothing: without it, registering would call `collect`, and with it every `read`."""
        return []

    def text(self) -> bytes:
        """Everything in Prometheus' text format."""
        return generate_latest(self.registry)

    def _add(self, name: str, family: Callable[[], Metric]) -> None:
        if name in self._names:
            raise ValueError(f"metric {name} is registered twice")
        self._names.add(name)
        self._families.append(family)

    def _api_families(self) -> Iterable[Metric]:
        labels = ("api",)
        requests = CounterMetricFamily("dafka_requests_total", "Requests answered.", labels=labels)
        received = CounterMetricFamily("dafka_request_bytes_total", "Bytes of these requests.", labels=labels)
        sent = CounterMetricFamily("dafka_response_bytes_total", "Bytes of their answers.", labels=labels)
        latency = HistogramMetricFamily(
            "dafka_request_seconds", "From the whole request to its answer ready to be sent.", labels=labels
        )
        for stats in self.apis.values():
            name = [stats.name]
            requests.add_metric(name, stats.requests)
            received.add_metric(name, stats.request_bytes)
            sent.add_metric(name, stats.response_bytes)
            latency.add_metric(name, stats.latency.cumulative(), stats.latency.total)
        return (requests, received, sent, latency)


def _family(figure: Figure[_Source], source: _Source) -> Metric:
    family = figure.family(figure.name, figure.help, labels=figure.labels)
    value = figure.read(source)
    if isinstance(value, Mapping):
        for label_values, number in value.items():
            family.add_metric(label_values, number)
    else:
        family.add_metric([], value)
    return family


_CONNECTIONS: Final[Sequence[Figure[Metrics]]] = (
    Gauge("dafka_connections", "Connections of Kafka clients.", lambda own: own.connections_open),
    Counter(
        "dafka_connections_accepted_total", "Connections accepted.", lambda own: own.connections_accepted
    ),
    Counter(
        "dafka_connections_refused_total",
        "Connections closed at once, because there were as many as allowed.",
        lambda own: own.connections_refused,
    ),
    Counter(
        "dafka_connections_closed_total",
        "Connections closed, by reason.",
        lambda own: own.connections_closed,
        ("reason",),
    ),
)
"""What is shown of Kafka clients, besides the requests of each API."""
