"""The work that a server has behind it before it is measured."""

from __future__ import annotations

import time

from tests.bench.consume_figures import forget_pages
from tests.bench.measurement import Context
from tests.bench.produce_figures import make_topic

WARM_UP_SECONDS = 25.0
"""Processor time that a server takes in each of its lives before anything is measured, at any scale. A JVM
becomes fast by it, and not by the time that passes: on a busy machine little of that would be the server's.
"""
SHARES = (("produce", 0.5, 1024), ("consume", 0.25, 1024), ("sync", 0.25, 100))
"""What it does, for which part of that, with values of how many bytes."""
PATIENCE = 10.0
"""How many times as long it may take by the clock."""
STEP_SECONDS = 1.0
PARTITIONS = 4
TOPIC = "warm-up"


def warm(context: Context) -> None:
    """Keep the server busy on a topic of its own until it has used that time, and let it settle."""
    make_topic(context, TOPIC, PARTITIONS)
    deadline = time.monotonic() + PATIENCE * context.warm_up_seconds
    for role, share, size in SHARES:
        until = context.server.cpu_seconds + context.warm_up_seconds * share
        while True:
            context.load(role, TOPIC, Seconds=STEP_SECONDS, RecordBytes=size, Partitions=PARTITIONS)
            if context.server.cpu_seconds >= until or time.monotonic() > deadline:
                break
    # What the warm-up wrote is on the disk, and not in what is measured.
    forget_pages(context.server.directory)
    context.settle()
