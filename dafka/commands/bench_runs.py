"""The runs of `dafka bench`. Times are of this process's monotonic clock."""

from __future__ import annotations

import io
import os
import struct
import sys
import threading
import time
import uuid
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Final, TextIO

import click

from dafka.commands.asking import report
from dafka.commands.client_security import Bootstrap
from dafka.commands.cluster import Cluster
from dafka.commands.exits import CommandFailed
from dafka.commands.groups_session import Session
from dafka.commands.kafka_client import error_name
from dafka.commands.kafka_formats import CODECS
from dafka.commands.kafka_reader import KafkaReader
from dafka.commands.kafka_writer import NAMES_UNTIL, REQUEST_TIMEOUT_MS, produce_topic
from dafka.commands.tables import print_json
from wireproto.kafka.api_keys import ApiKey
from wireproto.records.batch import read_header
from wireproto.records.builder import build_batch

PERCENTILES: Final = (50, 95, 99, 99.9)
ACKS: Final = {"all": -1, "1": 1}
POLL_MS: Final = 200
PATIENCE_SECONDS: Final = 10.0
"""How long the last records of a run are waited for."""

_STAMP: Final = struct.Struct(">d")


@dataclass
class Outcome:
    """What a run has shown. Latencies are milliseconds by percentile."""

    what: str
    records: int
    bytes: int
    seconds: float
    latencies_ms: dict[str, float] = field(default_factory=dict)

    @property
    def records_per_second(self) -> float:
        return self.records / self.seconds if self.seconds else 0.0

    @property
    def megabytes_per_second(self) -> float:
        return self.bytes / 1e6 / self.seconds if self.seconds else 0.0


def show(outcome: Outcome, as_json: bool) -> None:
    """For people, or for programs."""
    if as_json:
        rates = {
            "records_per_second": outcome.records_per_second,
            "megabytes_per_second": outcome.megabytes_per_second,
        }
        print_json(asdict(outcome) | rates)
        return
    click.echo(
        f"{outcome.what}: {outcome.records} records in {outcome.seconds:.2f} s, "
        f"{outcome.records_per_second:,.0f} records/s, {outcome.megabytes_per_second:.1f} MB/s"
    )
    if outcome.latencies_ms:
        told = "  ".join(f"{name} {value:.2f}" for name, value in outcome.latencies_ms.items())
        click.echo(f"milliseconds: {told}")


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Milliseconds: each percentile is a value that was measured, none lower."""
    if not seconds:
        return {}
    ordered = sorted(seconds)
    found = {f"p{p:g}": ordered[min(len(ordered) - 1, int(len(ordered) * p / 100))] for p in PERCENTILES}
    return {name: round(value * 1000, 3) for name, value in found.items()} | {
        "max": round(ordered[-1] * 1000, 3)
    }


def produce(
    bootstrap: Bootstrap, *, records: int, size: int, batch: int, in_flight: int, codec: str, acks: str,
    partitions: int,
) -> Outcome:  # fmt: skip
    """Write so many records into a topic that is made for it. Raises CommandFailed, KafkaTrouble."""
    now = time.time_ns() // 1_000_000
    made = build_batch([(None, os.urandom(size), (), now)] * batch, codec=CODECS.index(codec))
    requests = -(-records // batch)
    with _topic(bootstrap, partitions) as (session, name):
        leaders = _leaders(session.cluster, name)
        waiting: deque[tuple[float, Any]] = deque()
        latencies: list[float] = []
        begun = time.perf_counter()
        with click.progressbar(length=requests, label="produce", file=_progress()) as bar:
            for number in range(requests):
                index = number % partitions
                client = session.cluster.leader(leaders[index])
                answer = client.begin(
                    ApiKey.PRODUCE,
                    min(client.version(ApiKey.PRODUCE, NAMES_UNTIL), NAMES_UNTIL),
                    transactional_id=None,
                    acks=ACKS[acks],
                    timeout_ms=REQUEST_TIMEOUT_MS,
                    topic_data=[produce_topic(name, index, made)],
                )
                waiting.append((time.perf_counter(), answer))
                if len(waiting) >= in_flight:
                    latencies.append(_settle(*waiting.popleft()))
                    bar.update(1)
            while waiting:
                latencies.append(_settle(*waiting.popleft()))
                bar.update(1)
        seconds = time.perf_counter() - begun
    return Outcome("produce", requests * batch, requests * batch * size, seconds, percentiles(latencies))


def _settle(sent: float, answer: Any) -> float:
    result = answer().responses[0].partition_responses[0]
    if result.error_code:
        raise CommandFailed(f"a batch was refused: {error_name(result.error_code)}")
    return time.perf_counter() - sent


def consume(bootstrap: Bootstrap, *, topic: str, records: int | None) -> Outcome:
    """Read a topic to its end as it is now. Raises CommandFailed, KafkaTrouble."""
    with Session(bootstrap) as session:
        (described,) = session.cluster.metadata([topic]).topics
        report("cannot read", [described])
        starts = session.cluster.offsets(described, Cluster.EARLIEST)
        ends = session.cluster.offsets(described, Cluster.LATEST)
        reader = KafkaReader(session.cluster, {(topic, index): start for index, start in starts.items()})
        wanted = sum(ends.values()) - sum(starts.values())
        wanted = wanted if records is None else min(records, wanted)
        read = size = offsets = 0
        latencies = []
        begun = time.perf_counter()
        with click.progressbar(length=wanted, label="consume", file=_progress()) as bar:
            while offsets < wanted:
                asked = time.perf_counter()
                batches = reader.poll_batches(POLL_MS)
                latencies.append(time.perf_counter() - asked)
                read += sum(read_header(batch).count for *_, batch in batches)
                size += sum(map(len, (batch for *_, batch in batches)))
                before, offsets = offsets, sum(reader.positions.values()) - sum(starts.values())
                bar.update(offsets - before)
        seconds = time.perf_counter() - begun
    return Outcome("consume", read, size, seconds, percentiles(latencies))


def latency(bootstrap: Bootstrap, *, rate: float, seconds: float, size: int, acks: str) -> Outcome:
    """Write and read at once. Raises CommandFailed, KafkaTrouble."""
    count = max(1, int(rate * seconds))
    found: list[float] = []
    failed: list[BaseException] = []
    with _topic(bootstrap, 1) as (session, name):
        begun = time.perf_counter()
        producer = threading.Thread(
            target=_produce_steadily,
            args=(bootstrap, name, count, rate, size, ACKS[acks], failed),
            daemon=True,
        )
        producer.start()
        deadline = time.perf_counter() + count / rate + PATIENCE_SECONDS
        reader = KafkaReader(session.cluster, {(name, 0): 0})
        with click.progressbar(length=count, label="latency", file=_progress()) as bar:
            while len(found) < count and not failed and time.perf_counter() < deadline:
                records = reader.poll(POLL_MS)
                now = time.perf_counter()
                found += [now - _STAMP.unpack_from(record.value or b"")[0] for record in records]
                bar.update(len(records))
        producer.join(PATIENCE_SECONDS)
        took = time.perf_counter() - begun
    if failed:
        raise failed[0]
    if len(found) < count:
        raise CommandFailed(
            f"{count - len(found)} of {count} records did not come within {PATIENCE_SECONDS:g} s"
        )
    return Outcome("end to end", count, count * size, took, percentiles(found))


def _produce_steadily(
    bootstrap: Bootstrap,
    topic: str,
    count: int,
    rate: float,
    size: int,
    acks: int,
    failed: list[BaseException],
) -> None:
    try:
        with Session(bootstrap) as session:
            client = session.cluster.leader(_leaders(session.cluster, topic)[0])
            version = min(client.version(ApiKey.PRODUCE, NAMES_UNTIL), NAMES_UNTIL)
            padding = os.urandom(size - _STAMP.size)
            begun = time.perf_counter()
            for number in range(count):
                time.sleep(max(0.0, begun + number / rate - time.perf_counter()))
                now = time.time_ns() // 1_000_000
                batch = build_batch([(None, _STAMP.pack(time.perf_counter()) + padding, (), now)])
                _settle(
                    0.0,
                    client.begin(
                        ApiKey.PRODUCE,
                        version,
                        transactional_id=None,
                        acks=acks,
                        timeout_ms=REQUEST_TIMEOUT_MS,
                        topic_data=[produce_topic(topic, 0, batch)],
                    ),
                )
    except Exception as error:  # noqa: BLE001 - told by the thread that waits for the records
        failed.append(error)


def _progress() -> TextIO:
    """Where progress is shown, on a terminal; elsewhere nothing is."""
    return sys.stderr if sys.stderr.isatty() else io.StringIO()


def _leaders(cluster: Cluster, name: str) -> dict[int, int]:
    (topic,) = cluster.metadata([name]).topics
    report("cannot use", [topic])
    return {one.partition_index: one.leader_id for one in topic.partitions}


@contextmanager
def _topic(bootstrap: Bootstrap, partitions: int) -> Iterator[tuple[Session, str]]:
    """A topic of the run's own, for as long as that lasts."""
    name = f"dafka-bench-{uuid.uuid4().hex[:12]}"
    with Session(bootstrap) as session:
        answer = session.client.ask(
            ApiKey.CREATE_TOPICS, 7, topics=[(name, partitions, -1, [], [])], timeout_ms=REQUEST_TIMEOUT_MS
        )
        report("cannot create", answer.topics)
        try:
            deadline = time.monotonic() + PATIENCE_SECONDS
            while not _is_led(session.cluster, name) and time.monotonic() < deadline:
                time.sleep(POLL_MS / 1000)
            yield session, name
        finally:
            with Session(bootstrap) as other:
                new = other.client.version(ApiKey.DELETE_TOPICS, 6) >= 6
                named = {"topics": [(name, None)]} if new else {"topic_names": [name]}
                other.client.ask(ApiKey.DELETE_TOPICS, 6, timeout_ms=REQUEST_TIMEOUT_MS, **named)


def _is_led(cluster: Cluster, name: str) -> bool:
    (topic,) = cluster.metadata([name]).topics
    return not topic.error_code and all(one.leader_id >= 0 for one in topic.partitions)
