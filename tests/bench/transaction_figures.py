"""Transactions by Java clients: how many are committed, how soon one is seen, what their readers cost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import NamedTuple

from tests.bench import clients
from tests.bench.consume_figures import fill
from tests.bench.measurement import PER_GB, Context, Cost, Figure, Measurement
from tests.bench.produce_figures import check_size, counted, make_topic

PRODUCERS = (1, 10, 100)
PARTITIONS = 10
"""Of the topic that producers share; each of them writes to one."""
PER_TRANSACTIONS = "s/1,000 transactions"


class Shape(NamedTuple):
    """What is in a transaction."""

    words: str
    records: int
    value_bytes: int


SHAPES = {"one": Shape("1 record", 1, 100), "mb": Shape("1 MB", 1_000, 1_000)}
WARM_UP_SECONDS = 6.0
MEASURED_SECONDS = 8.0
QUIET_SECONDS = 30.0
"""How long the last markers may take."""

LATENCY_WARM_UP = 1_500
LATENCY_TRANSACTIONS = 2_000

READ_PARTITIONS = 4
READ_BYTES = 512 << 20
READ_RECORD_BYTES = 1_000
READ_RECORDS = 100
"""Of each transaction in the log that is read."""
READ_ABORT_EVERY = 10
READ_PRODUCERS = 8
PASSES = 3
LEVELS = ("read_uncommitted", "read_committed")


def commits(context: Context, *, shape: Shape, producers: int) -> Iterator[Measurement]:
    """Each producer commits one transaction after the other, as fast as it is answered."""
    topic = "transactions"
    make_topic(context, topic, PARTITIONS)
    warm_up, seconds = context.seconds(WARM_UP_SECONDS), context.seconds(MEASURED_SECONDS)
    numbers = (PARTITIONS, producers, shape.records, shape.value_bytes, 0)
    arguments = (context.bootstrap, topic, *map(str, numbers), "rate", f"{warm_up}", f"{seconds}")
    with clients.java_steps("BenchTransactions", *arguments) as java:
        java.heard()  # it is warm
        used = clients.Used(context.server, java.pid)
        java.go_on()
        transactions, took = map(float, java.heard().split())
        if not transactions:
            raise AssertionError(
                "nothing was committed in the time that was measured: it needs a larger --scale"
            )
        cost = used.until_now(transactions / 1_000, 1, PER_TRANSACTIONS)
        java.go_on()
        ended = int(java.heard())
    # Each transaction has its marker, soon after its end is answered.
    await_size(context, topic, PARTITIONS, ended * (shape.records + 1))
    name = f"transactions of {shape.words}, {counted(producers, 'producer')}"
    yield Measurement(name, "commits/s", transactions / took, True, cost)


def latency(context: Context) -> Iterator[Measurement]:
    """One producer, and a reader of what is committed: transactions of one record, one at a time."""
    topic = "transactions"
    make_topic(context, topic, 1)
    warm_up, transactions = context.times(LATENCY_WARM_UP), context.times(LATENCY_TRANSACTIONS)
    arguments = (context.bootstrap, topic, "100", str(warm_up), str(transactions))
    with clients.java_steps("BenchTransactionLatency", *arguments) as java:
        java.heard()  # it is warm
        for told, names in (
            ("visible", ("commit's call until it is visible", "commit's call until its answer")),
            ("next", ("commit's answer until the next acknowledgement",)),
        ):
            used = clients.Used(context.server, java.pid)
            java.go_on(told)
            found = list(map(float, java.heard().split()))
            cost = used.until_now(transactions / 1_000, 1, PER_TRANSACTIONS)
            for number, name in enumerate(names):
                for percentile, value in zip(("p50", "p99"), found[2 * number :], strict=False):
                    yield Measurement(f"{name}, {percentile}", "us", value, False, cost)


def isolation(context: Context) -> Iterator[Measurement]:
    """Readers of both levels in turn, of a log with transactions (every tenth aborted) and of one without."""
    make_topic(context, "with", READ_PARTITIONS)
    records, seen = fill_with_transactions(context, "with")
    yield from _read(context, "with transactions", "with", records, seen)
    records = fill(context, "without", READ_BYTES, READ_RECORD_BYTES, READ_PARTITIONS)
    yield from _read(context, "without transactions", "without", records, records)


def fill_with_transactions(context: Context, topic: str) -> tuple[int, int]:
    """Records in the log, markers not counted; and those that were committed."""
    transactions = max(READ_PRODUCERS, int(READ_BYTES * context.scale) // (READ_RECORDS * READ_RECORD_BYTES))
    numbers = (READ_PARTITIONS, READ_PRODUCERS, READ_RECORDS, READ_RECORD_BYTES, READ_ABORT_EVERY)
    arguments = (context.bootstrap, topic, *map(str, numbers), "fill", str(transactions))
    committed, aborted = map(int, clients.java_output("BenchTransactions", *arguments).split())
    await_size(context, topic, READ_PARTITIONS, (committed + aborted) * (READ_RECORDS + 1))
    context.settle()
    return (committed + aborted) * READ_RECORDS, committed * READ_RECORDS


def _read(context: Context, log: str, topic: str, records: int, committed: int) -> Iterator[Measurement]:
    """What of the log a reader passes in a second, whether it is given to it or not."""
    size = records * READ_RECORD_BYTES
    seconds = dict.fromkeys(LEVELS, 0.0)
    costs = {level: Cost(0.0, 0.0, PER_GB) for level in LEVELS}
    expected = {"read_uncommitted": records, "read_committed": committed}
    with clients.java_steps("BenchIsolation", context.bootstrap, topic, str(READ_PARTITIONS)) as java:
        java.heard()  # it is warm
        for number in range(PASSES):
            for level in LEVELS[:: 1 if number % 2 else -1]:
                used = clients.Used(context.server, java.pid)
                java.go_on(level)
                found, took = java.heard().split()
                if int(found) != expected[level]:
                    raise AssertionError(f"{level} gave {found} records of {expected[level]}")
                cost, before = used.until_now(PASSES * size / 1e9, 1, PER_GB), costs[level]
                assert cost.client is not None
                assert before.client is not None
                costs[level] = Cost(before.server + cost.server, before.client + cost.client, PER_GB)
                seconds[level] += float(took)
    for level in LEVELS:
        rate = PASSES * size / seconds[level] / 1e6
        yield Measurement(f"{level}, log {log}", "MB/s", rate, True, costs[level])
    growth = seconds["read_committed"] / seconds["read_uncommitted"]
    yield Measurement(f"read_committed over read_uncommitted, log {log}", "x of time", growth, False)


def await_size(context: Context, topic: str, partitions: int, expected: int) -> None:
    """Until the log has so many offsets. Raises AssertionError if it has others, after a while."""
    deadline = time.monotonic() + QUIET_SECONDS
    while clients.log_size(context.bootstrap, topic, partitions) < expected and time.monotonic() < deadline:
        time.sleep(0.2)
    check_size(context, topic, partitions, expected)


FIGURES = {
    **{
        f"transactions-{name}-x{producers}": Figure(partial(commits, shape=shape, producers=producers))
        for (name, shape), producers in product(SHAPES.items(), PRODUCERS)
    },
    "transactions-latency": Figure(latency),
    "transactions-isolation": Figure(isolation),
}
