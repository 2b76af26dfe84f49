"""What the gateway counts, and how it is read.

Counting costs nanoseconds: plain integers and lists that only the trio thread changes. Reading them is left
to the scrape. (The prometheus_client's own `inc` and `observe` take a lock each and cost microseconds, for
every request.) A gateway of 20,000 partitions shows a megabyte: `pieces` makes it a little at a time, so that
others have their turns.

Others add what they know: a table of figures with `register`, or one at a time with `gauge`, `counter` and
`histogram`. How a figure is read is a function that is called at the scrape, in the trio thread, and returns
the current value or values.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeAlias, TypeVar

from gateway.common.metrics_text import head, histogram_lines, label_pairs, line, lines

from prometheus_client.platform_collector import PlatformCollector  # isort: skip - after what puts it off
from prometheus_client.process_collector import ProcessCollector  # isort: skip
from prometheus_client.registry import CollectorRegistry  # isort: skip

LATENCY_BOUNDS = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
    30.0,
)  # fmt: skip
"""Upper bounds of the latency buckets in seconds: from an answer out of memory to a Kafka client's own
timeout."""

Value: TypeAlias = float | Mapping[Any, float] | Iterator[tuple[Any, float]]
"""A number, or numbers by the values of the labels (tuples of strings); as an iterator if there may be many:
it is read a little at a time, while others have their turns.
"""

_Source = TypeVar("_Source")


@dataclass(frozen=True, slots=True)
class Figure(Generic[_Source]):
    """One line of a table: something that a part of the process, the source, shows to Prometheus."""

    kind: ClassVar[str]

    name: str
    help: str
    read: Callable[[_Source], Value]
    """Called at each scrape."""

    labels: Sequence[str] = ()


class Gauge(Figure[_Source]):
    """A value that goes up and down."""

    __slots__ = ()
    kind = "gauge"


class Counter(Figure[_Source]):
    """A value that only grows; its name ends in `_total`."""

    __slots__ = ()
    kind = "counter"


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


MEASURED: Final = 16
"""Of so many requests of an API one is measured by stages: each reading of a clock costs all of them."""


class ApiStats:
    """Requests of one API: how many, bytes in and out, time from whole request to ready answer. Of some:
    `queued` until the work on it began, `worked` from there on.
    """

    __slots__ = ("latency", "name", "queued", "request_bytes", "requests", "response_bytes", "worked")

    def __init__(self, name: str) -> None:
        self.name = name
        self.requests = 0
        self.request_bytes = 0
        self.response_bytes = 0
        self.latency = Histogram()
        self.queued = Histogram()
        self.worked = Histogram()


class Described(NamedTuple):
    """What a metric is, for who reads of it."""

    name: str
    kind: str
    help: str
    labels: Sequence[str]


class Metrics:
    """The metrics of one process; `with_clients` of Kafka, or without."""

    def __init__(self, *, with_process: bool = True, with_clients: bool = True) -> None:
        self.apis: dict[int, ApiStats] = {}
        self.connections_open = 0
        self.connections_accepted = 0
        self.connections_refused: dict[tuple[str, ...], float] = {}
        self.connections_closed: dict[tuple[str, ...], float] = {}
        self._families: list[Callable[[], Iterable[str]]] = []
        self._described: dict[str, Described] = {}
        self._process: CollectorRegistry | None = None
        if with_process:
            self._process = CollectorRegistry()
            ProcessCollector(registry=self._process)
            PlatformCollector(registry=self._process)
        self._with_clients = with_clients
        if with_clients:
            self.register(_CONNECTIONS, self)

    def api(self, key: int, name: str) -> ApiStats:
        """The counters of one API, made at the first call."""
        if key not in self.apis:
            self.apis[key] = ApiStats(name)
        return self.apis[key]

    def connection_closed(self, reason: str) -> None:
        """Counts a closed connection. `reason` is one of a few words of ours, never a client's."""
        self.connections_closed[reason,] = self.connections_closed.get((reason,), 0) + 1

    def connection_refused(self, reason: str) -> None:
        """Counts a connection that found no place. `reason` is one of a few words of ours."""
        self.connections_refused[reason,] = self.connections_refused.get((reason,), 0) + 1

    def register(self, figures: Iterable[Figure[_Source]], source: _Source) -> None:
        """Adds the figures of a table, all of one source."""
        for figure in figures:
            described = Described(figure.name, figure.kind, figure.help, figure.labels)
            self._add(described, partial(_family, figure, source))

    def gauge(self, name: str, text: str, read: Callable[[], Value], labels: Sequence[str] = ()) -> None:
        """Adds a value that goes up and down. `read` is called at each scrape."""
        self.register([Gauge(name, text, lambda _: read(), labels)], None)

    def counter(self, name: str, text: str, read: Callable[[], Value], labels: Sequence[str] = ()) -> None:
        """Adds a value that only grows; `name` ends in `_total`. `read` is called at each scrape."""
        self.register([Counter(name, text, lambda _: read(), labels)], None)

    def histogram(self, name: str, text: str, histogram: Histogram) -> None:
        """Adds a histogram that others `observe` into."""

        def family() -> Iterator[str]:
            yield head(name, text, "histogram") + histogram_lines(name, "", histogram)

        self._add(Described(name, "histogram", text, ()), family)

    def pieces(self) -> Iterator[str]:
        """Everything in Prometheus' text format, in pieces that take about a millisecond or less to make."""
        if self._process is not None:
            from prometheus_client import generate_latest

            yield generate_latest(self._process).decode()
        for family in self._families:
            yield from family()
        if self._with_clients or self.apis:
            yield from self._of_apis()

    def text(self) -> bytes:
        """All of it at once."""
        return "".join(self.pieces()).encode()

    def described(self) -> Sequence[Described]:
        """Every metric that is here, besides those of Python and the process itself."""
        of_apis = [Described(name, "counter", text, ("api",)) for name, text, _ in _OF_APIS]
        of_apis.append(Described(_LATENCY, "histogram", _LATENCY_TEXT, ("api",)))
        of_apis.append(Described(_STAGES, "histogram", _STAGES_TEXT, ("api", "stage")))
        return [*self._described.values(), *(of_apis if self._with_clients else ())]

    def _add(self, described: Described, family: Callable[[], Iterable[str]]) -> None:
        if described.name in self._described:
            raise ValueError(f"metric {described.name} is registered twice")
        self._described[described.name] = described
        self._families.append(family)

    def _of_apis(self) -> Iterator[str]:
        apis = [(label_pairs(("api",), (stats.name,)), stats) for stats in self.apis.values()]
        for name, text, read in _OF_APIS:
            yield head(name, text, "counter")
            yield "".join(line(name, labels, read(stats)) for labels, stats in apis)
        yield head(_LATENCY, _LATENCY_TEXT, "histogram")
        for labels, stats in apis:
            yield histogram_lines(_LATENCY, labels, stats.latency)
        yield head(_STAGES, _STAGES_TEXT, "histogram")
        for stats in self.apis.values():
            for stage, histogram in (("queue", stats.queued), ("work", stats.worked)):
                if histogram.total:
                    pairs = label_pairs(("api", "stage"), (stats.name, stage))
                    yield histogram_lines(_STAGES, pairs, histogram)


def _family(figure: Figure[_Source], source: _Source) -> Iterator[str]:
    yield head(figure.name, figure.help, figure.kind)
    value = figure.read(source)
    if isinstance(value, Mapping):
        yield from lines(figure.name, figure.labels, iter(value.items()))
    elif isinstance(value, Iterator):
        yield from lines(figure.name, figure.labels, value)
    else:
        yield line(figure.name, "", value)


_LATENCY: Final = "dafka_request_seconds"
_LATENCY_TEXT: Final = "From the whole request to its answer ready to be sent."

_STAGES: Final = "dafka_request_stage_seconds"
_STAGES_TEXT: Final = (
    f"Of one request in {MEASURED}: from the whole request to the beginning of the work on it (queue), and "
    "from there to its answer ready to be sent (work)."
)

_OF_APIS: Final[Sequence[tuple[str, str, Callable[[ApiStats], float]]]] = (
    ("dafka_requests_total", "Requests answered.", lambda stats: stats.requests),
    ("dafka_request_bytes_total", "Bytes of these requests.", lambda stats: stats.request_bytes),
    ("dafka_response_bytes_total", "Bytes of their answers.", lambda stats: stats.response_bytes),
)
"""What is counted of each API."""

_CONNECTIONS: Final[Sequence[Figure[Metrics]]] = (
    Gauge("dafka_connections", "Connections of Kafka clients.", lambda own: own.connections_open),
    Counter(
        "dafka_connections_accepted_total", "Connections accepted.", lambda own: own.connections_accepted
    ),
    Counter(
        "dafka_connections_refused_total",
        "Connections closed at once: there were as many as allowed, or the gateway is suspended.",
        lambda own: own.connections_refused,
        ("reason",),
    ),
    Counter(
        "dafka_connections_closed_total",
        "Connections closed, by reason.",
        lambda own: own.connections_closed,
        ("reason",),
    ),
)
"""What is shown of Kafka clients, besides the requests of each API."""
