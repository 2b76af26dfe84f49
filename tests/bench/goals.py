"""What is aimed at beside Apache Kafka in the same run, and whether a run has reached it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from tests.bench.servers import Durability


class Of(Enum):
    """What is compared with the bound."""

    VALUE = "value"
    """Ours over Kafka's: the median of the pairs' ratios."""
    SERVER = "server's processor"
    """The same of the server's processor time for a GB or a request."""
    OURS = "ours"
    """Our median itself, in the figure's unit."""


@dataclass(frozen=True)
class Goal:
    """A line of the table of goals: every figure whose name matches has to keep the bound."""

    words: str
    pattern: str
    """Of figures' names, from their beginning to their end."""
    of: Of
    bound: float
    at_most: bool
    durability: Durability | None = None
    """None: of both."""

    def is_about(self, durability: Durability, metric: str) -> bool:
        return self.durability in (None, durability) and re.fullmatch(self.pattern, metric) is not None

    def is_kept_by(self, value: float) -> bool:
        return value <= self.bound if self.at_most else value >= self.bound

    @property
    def text(self) -> str:
        """The bound, as the table has it."""
        factor = "" if self.of is Of.OURS else " x"
        return f"{'<=' if self.at_most else '>='} {self.bound:g}{factor}"


_FSYNC, _CACHED = Durability.FSYNC, Durability.CACHED
_PLAIN = r", \d+ partitions?, \d+ producers?, plain"
_TRANSACTIONS = r"transactions of .*, \d+ producers?"
_VISIBLE = r"commit's call until it is visible, p(50|99)"
_ISOLATION = r"read_(un)?committed, log .*"

GOALS = (
    Goal("server CPU per GB, produce 100 B", "produce 100 B" + _PLAIN, Of.SERVER, 0.7, True),
    Goal("server CPU per GB, produce 1 KiB", "produce 1,024 B" + _PLAIN, Of.SERVER, 0.9, True),
    Goal("server CPU per GB, consume hot", r"consume hot, .*", Of.SERVER, 1.0, True),
    Goal("server CPU per GB, consume cold", r"consume cold, .*", Of.SERVER, 1.3, True),
    Goal("produce throughput", r"produce (100|1,024) B" + _PLAIN, Of.VALUE, 1.2, False, _FSYNC),
    Goal("produce throughput", r"produce (100|1,024) B" + _PLAIN, Of.VALUE, 1.0, False, _CACHED),
    Goal("consume throughput, hot", r"consume hot, .*", Of.VALUE, 1.0, False),
    Goal("consume throughput, cold", r"consume cold, .*", Of.VALUE, 0.8, False),
    Goal("synchronous p50 and p99", r"one record at a time, .*, p(50|99)", Of.VALUE, 1.0, True, _FSYNC),
    Goal("synchronous p50 and p99", r"one record at a time, .*, p(50|99)", Of.VALUE, 1.3, True, _CACHED),
    Goal("end to end p50 and p99", r"end to end at .*, p(50|99)", Of.VALUE, 1.0, True),
    Goal("commits of 100 groups", r"commits of 100 groups of 3", Of.VALUE, 1.0, False, _FSYNC),
    Goal("rebalance of 50", r"rebalance of 50 .*", Of.VALUE, 1.0, True, _FSYNC),
    Goal("transactions committed", _TRANSACTIONS, Of.VALUE, 1.0, False, _FSYNC),
    Goal("server CPU per transaction", _TRANSACTIONS, Of.SERVER, 1.0, True, _FSYNC),
    Goal("commit until visible p50 and p99", _VISIBLE, Of.VALUE, 1.0, True, _FSYNC),
    Goal("next transaction p50 and p99", r"commit's answer until .*, p(50|99)", Of.VALUE, 1.0, True, _FSYNC),
    Goal("consume throughput, by isolation level", _ISOLATION, Of.VALUE, 1.0, False, _FSYNC),
    Goal("server CPU per GB, by isolation level", _ISOLATION, Of.SERVER, 1.0, True, _FSYNC),
    Goal("Spark read, sink, trigger", r"Spark .*", Of.VALUE, 0.9, True),
    Goal("first Metadata, s", r"exec to first Metadata", Of.OURS, 0.6, True),
    Goal("RSS idle, MB", r"memory, idle", Of.OURS, 65, True),
    Goal("RSS loaded", r"memory, loaded", Of.VALUE, 0.2, True),
    Goal(
        "10,000 partitions: produce p99 over that of 10",
        r"growth: produce p99, 10,000 partitions over 10",
        *(Of.OURS, 2.0, True),
    ),
    Goal("10,000 partitions: RSS idle, MB", r"growth, 10,000 partitions: memory, idle", Of.OURS, 250, True),
    Goal(
        "10,000 partitions: start after a kill, s",
        r"growth, 10,000 partitions: start after a kill, .*",
        *(Of.OURS, 5.0, True),
    ),
)
