"""Patience with a Kafka that is away: jobs wait for it and go on where they were."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from dafka_pipeline.failures import KafkaAway, Stopped
from dafka_pipeline.running.report import Report
from dafka_pipeline.running.stopping import Stop

FIRST_WAIT_SECONDS: Final = 0.5
LONGEST_WAIT_SECONDS: Final = 5.0
"""Between two tries: a Kafka that is back is noticed within this."""
REMIND_SECONDS: Final = 60.0
"""How often it is said again that the job waits."""
KNOCK_SECONDS: Final = 2.0
"""How long a broker may take to accept a connection before it counts as still away."""

T = TypeVar("T")


def patiently(
    ask: Callable[[], T],
    stop: Stop,
    report: Report,
    patience_seconds: float | None,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> T:
    """The answer of `ask`, asked again while it raises KafkaAway.

    It is asked again only once a broker accepts connections: until then the call could not be answered, and
    would only hold up the end of the job.

    patience_seconds: how long Kafka may be away; None: for ever.
    Raises KafkaAway when the patience is over, Stopped when the end is asked for meanwhile.
    """
    try:
        return ask()
    except KafkaAway as away:
        first = away
    began = clock()
    report.waiting(f"{first} {_how_long(patience_seconds)}")
    said = began
    last = first
    for wait in waits():
        left = None if patience_seconds is None else began + patience_seconds - clock()
        if left is not None and left <= 0:
            raise last
        if stop.sleep(wait if left is None else min(wait, left)):
            raise Stopped("The job was asked to stop while it waited for Kafka.") from last
        if clock() - said >= REMIND_SECONDS:
            said = clock()
            report.waiting(f"Kafka is still away, for {clock() - began:,.0f} seconds now: {last}")
        if last.bootstrap is not None and not somebody_listens(last.bootstrap):
            continue
        try:
            answer = ask()
        except KafkaAway as away:
            last = away
            continue
        report.went_on(f"Kafka answers again, after {clock() - began:,.0f} seconds.")
        return answer
    raise AssertionError("there is always another wait")


def waits() -> Iterator[float]:
    """Seconds between tries, without end: each twice the one before, up to a limit."""
    wait = FIRST_WAIT_SECONDS
    while True:
        yield wait
        wait = min(2 * wait, LONGEST_WAIT_SECONDS)


def somebody_listens(bootstrap: str) -> bool:
    """Whether one of HOST:PORT,... accepts a connection."""
    for address in bootstrap.split(","):
        host, _, port = address.strip().rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=KNOCK_SECONDS):
                return True
        except (OSError, ValueError):
            continue
    return False


def _how_long(patience_seconds: float | None) -> str:
    if patience_seconds is None:
        return "The job waits and goes on when Kafka is back; SIGTERM or Ctrl-C ends it."
    return f"The job waits for {patience_seconds:,.0f} seconds (--patience) and goes on when Kafka is back."
