"""The servers under measure, started on empty directories at a given durability."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from tests.bench import ceilings
from tests.bench.ceilings import Ceiling
from tests.peers.apache_kafka import KAFKAS_JVM_OPTIONS, ApacheKafka
from tests.peers.process import family, processor_seconds, status_bytes
from tests.peers.standalone import Standalone

# Kafka's own start script gives its broker this much.
KAFKA_HEAP = "1g"
# How long the first rebalance of a group waits: long enough for a group's members to come, on both.
INITIAL_REBALANCE_DELAY_MS = 500
PROPERTIES = {
    "group.initial.rebalance.delay.ms": f"{INITIAL_REBALANCE_DELAY_MS}",
    # Its default, and ours.
    "offsets.topic.num.partitions": "50",
}


class Cluster(Standalone):
    """`dafka standalone --gateways N` with one store: what it uses is what all its processes use."""

    def _all(self, of: Callable[[int], float]) -> float:
        return sum(map(of, family(self.pid)))

    @property
    def cpu_seconds(self) -> float:
        return self._all(processor_seconds)

    @property
    def rss_bytes(self) -> int:
        return int(self._all(lambda pid: status_bytes(pid, "VmRSS")))

    @property
    def peak_rss_bytes(self) -> int:
        return int(self._all(lambda pid: status_bytes(pid, "VmHWM")))


class Durability(Enum):
    """What stands behind an acknowledgement, and how each server is told."""

    FSYNC = "fsync"
    CACHED = "cached"


Server = ApacheKafka | Standalone | Ceiling


@dataclass(frozen=True)
class Kind:
    """A server as one side of a comparison."""

    title: str
    make: Callable[[Durability], Server]
    """A server that is not started yet; entering it starts it."""
    told: Mapping[Durability, str]
    """How it is told each durability."""
    ceiling: bool = False
    """It is no peer: only produces and waits for them, and promises nothing."""


def apache_kafka(durability: Durability) -> ApacheKafka:
    flush = durability is Durability.FSYNC
    return ApacheKafka(
        heap=KAFKA_HEAP, flush_every_message=flush, properties=PROPERTIES, jvm_options=KAFKAS_JVM_OPTIONS
    )


def dafka(durability: Durability) -> Standalone:
    return Standalone(None, *_arguments(durability))


def gateways(count: int) -> Callable[[Durability], Cluster]:
    """So many, which share one store."""
    return lambda durability: Cluster(
        None, *_arguments(durability), "--gateways", f"{count}", "--stores", "1"
    )


def of_checkout(folder: Path) -> Callable[[Durability], Standalone]:
    """`dafka standalone` of another checkout, under the Python and with the packages of this one."""

    def make(durability: Durability) -> Standalone:
        # -P: what is in the folder of whoever starts it comes before PYTHONPATH otherwise.
        program = (sys.executable, "-P", "-m", "dafka.cli")
        environment = {"PYTHONPATH": str(folder)}
        return Standalone(None, *_arguments(durability), program=program, environment=environment)

    return make


def _arguments(durability: Durability) -> tuple[str, ...]:
    fsync = "always" if durability is Durability.FSYNC else "never"
    return ("--fsync", fsync, "--group-initial-rebalance-delay-ms", f"{INITIAL_REBALANCE_DELAY_MS}")


KAFKAS_DURABILITY = {
    Durability.FSYNC: "log.flush.interval.messages=1 (fsync before each acknowledgement)",
    Durability.CACHED: "its default (acknowledged from the page cache)",
}
OUR_DURABILITY = {
    Durability.FSYNC: "--fsync always (fsync before each acknowledgement)",
    Durability.CACHED: "--fsync never (acknowledged from the page cache)",
}
NO_DURABILITY = dict.fromkeys(Durability, "keeps nothing")

SERVERS: dict[str, Kind] = {
    "kafka": Kind("Apache Kafka", apache_kafka, KAFKAS_DURABILITY),
    "dafka": Kind("dafka standalone", dafka, OUR_DURABILITY),
    "gateways-1": Kind("one gateway, one store", gateways(1), OUR_DURABILITY),
    "gateways-2": Kind("two gateways, one store", gateways(2), OUR_DURABILITY),
    "gateways-4": Kind("four gateways, one store", gateways(4), OUR_DURABILITY),
    "sink": Kind("null sink", lambda _: ceilings.sink(), NO_DURABILITY, ceiling=True),
    "mock": Kind("librdkafka's mock", lambda _: ceilings.mock(), NO_DURABILITY, ceiling=True),
}
