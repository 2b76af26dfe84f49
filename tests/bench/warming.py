"""The work that a server has behind it before it is measured."""

from __future__ import annotations

from tests.bench.measurement import Context
from tests.bench.produce_figures import make_topic

WARM_UP_SECONDS = 10.0
"""Of each life of a server, at scale 1: half of it produces 1 KiB, a quarter reads that, a quarter sends one
record at a time. Each load has a quarter of its own time to warm up, besides.
"""
PARTITIONS = 4
TOPIC = "warm-up"


def warm(context: Context) -> None:
    """Keep the server busy for WARM_UP_SECONDS, on a topic of its own."""
    shape = {"Partitions": PARTITIONS}
    make_topic(context, TOPIC, PARTITIONS)
    for role, share, size in (("produce", 0.5, 1024), ("consume", 0.25, 1024), ("sync", 0.25, 100)):
        seconds = context.seconds(WARM_UP_SECONDS * share)
        context.load(role, TOPIC, Seconds=seconds, RecordBytes=size, **shape)
    context.settle()
