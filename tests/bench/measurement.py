"""What a figure gives, and what it is given."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.bench.servers import Server

# A hundredth of a figure's records still makes a figure.
SMALLEST_RUN = 1000
# And so does a moment of load.
SHORTEST_SECONDS = 0.2


@dataclass(frozen=True)
class Measurement:
    """`goal` bounds the ratio to Kafka: at least so much of it where more is better, at most where less is.

    A goal in the unit itself (seconds, MB) is given by `limit`.
    """

    metric: str
    unit: str
    value: float
    more_is_better: bool
    goal: float | None = None
    limit: float | None = None


@dataclass(frozen=True)
class Context:
    """A server just started, the seconds from its exec to its first Metadata answer, and the scale."""

    server: Server
    first_metadata_seconds: float
    scale: float

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


Measure = Callable[[Context], Iterator[Measurement]]
