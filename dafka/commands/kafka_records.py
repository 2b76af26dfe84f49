"""What `dafka produce` and `dafka consume` do with a Kafka topic, given --bootstrap."""

from __future__ import annotations

import datetime as dt
import os
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from dafka.commands.asking import partitions_of, report
from dafka.commands.client_security import Bootstrap
from dafka.commands.cluster import READ_COMMITTED, READ_UNCOMMITTED
from dafka.commands.exits import CommandFailed
from dafka.commands.groups_session import Session
from dafka.commands.kafka_formats import CODECS, line_of, read_record
from dafka.commands.kafka_reader import KafkaReader
from dafka.commands.kafka_writer import KafkaWriter

if TYPE_CHECKING:
    from dafka.commands.cluster import Cluster

READ_BYTES: Final = 64 * 1024
"""Bytes read from standard input at a time."""

MAX_LINE_BYTES: Final = 16 * 1024 * 1024
"""Longest line that becomes a record."""

FOLLOW_MS: Final = 500
"""Milliseconds that a look for new records waits for them: also how soon Ctrl-C is heard."""


ISOLATION_LEVELS: Final = {"read_uncommitted": READ_UNCOMMITTED, "read_committed": READ_COMMITTED}
"""By Kafka's names."""


def produce_records(
    bootstrap: Bootstrap,
    topic: str,
    *,
    how: str,
    separator: str | None,
    key: str | None,
    headers: Sequence[str],
    codec: str,
    acks: str,
    partition: int | None,
) -> None:
    """Standard input into a topic. Raises CommandFailed, KafkaTrouble."""
    fixed = [_header(text) for text in headers]
    with Session(bootstrap) as session:
        writer = KafkaWriter(
            session.cluster,
            topic,
            acks={"all": -1, "1": 1}[acks],
            codec=CODECS.index(codec),
            partition=partition,
        )
        for data in _lines() if how != "raw" else [sys.stdin.buffer.read()]:
            if data is None:
                writer.flush()  # nothing more for the moment: whoever types wants it to be there
                continue
            given = read_record(data, how, separator)
            if given.partition is not None and given.partition >= writer.partitions:
                raise CommandFailed(f"{topic} has no partition {given.partition}: it has {writer.partitions}")
            now = time.time_ns() // 1_000_000 if given.timestamp is None else given.timestamp
            found = given.key if given.key is not None or key is None else key.encode()
            writer.add(
                (found, given.value, [*given.headers, *fixed], now),
                given.partition if partition is None else partition,
            )
        writer.flush()
        if sys.stderr.isatty():
            click.echo(f"{writer.acknowledged} records", err=True)


def _header(text: str) -> tuple[str, bytes | None]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise CommandFailed(f"--header {text}: write NAME=VALUE")
    return name, value.encode()


def _lines() -> Iterator[bytes | None]:
    """The lines of standard input without their ends; None where it may be a while until the next one.

    Raises CommandFailed.
    """
    rest = b""
    while data := os.read(sys.stdin.fileno(), READ_BYTES):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r")
        if len(rest) > MAX_LINE_BYTES:
            raise CommandFailed(f"a line is longer than {MAX_LINE_BYTES} bytes: a record is no larger")
        if len(data) < READ_BYTES:
            yield None
    if rest:
        yield rest


def consume_records(
    bootstrap: Bootstrap,
    topic: str,
    *,
    how: str,
    shown: Sequence[str],
    separator: str,
    start: str,
    partitions: Sequence[int],
    follow: bool,
    max_records: int,
    isolation_level: str = "read_uncommitted",
) -> None:
    """A topic to standard output: up to its end as it was when this began, or on and on until Ctrl-C. With
    read_committed that is where the oldest open transaction begins, and what was aborted is left out.

    Raises CommandFailed, KafkaTrouble, BrokenPipeError.
    """
    with Session(bootstrap) as session:
        (described,) = session.cluster.metadata([topic]).topics
        report("cannot read", [described])
        indexes = partitions_of(described, partitions)
        isolation = ISOLATION_LEVELS[isolation_level]
        ends = session.cluster.offsets(described, session.cluster.LATEST, isolation)
        starts = starts_of(session.cluster, described, start, ends)
        until = None if follow else {(topic, index): ends[index] for index in indexes}
        reader = KafkaReader(session.cluster, {(topic, index): starts[index] for index in indexes}, isolation)
        try:
            _write(reader, until, max_records, lambda record: line_of(record, how, shown, separator))
        except KeyboardInterrupt:
            if not follow:
                raise


def _write(
    reader: KafkaReader, until: dict[tuple[str, int], int] | None, max_records: int, line: Any
) -> None:
    written, out = 0, sys.stdout.buffer
    while until is None or any(reader.positions[where] < end for where, end in until.items()):
        for record in reader.poll(FOLLOW_MS):
            if until is not None and record.offset >= until[record.topic, record.partition]:
                continue
            out.write(line(record))
            written += 1
            if written == max_records:
                out.flush()
                return
        out.flush()


def starts_of(cluster: Cluster, topic: Any, start: str, ends: dict[int, int]) -> dict[int, int]:
    """The offset of each partition that `start` means: beginning, end, offset:N, last:N, time:ISO.

    Raises CommandFailed.
    """
    firsts = cluster.offsets(topic, cluster.EARLIEST)
    word, _, value = start.partition(":")
    if word == "beginning":
        return firsts
    if word == "end":
        return ends
    if word in {"offset", "last"} and value.isascii() and value.isdigit():
        number = int(value)
        wanted = {index: number if word == "offset" else end - number for index, end in ends.items()}
        return {index: min(max(at, firsts[index]), ends[index]) for index, at in wanted.items()}
    if word == "time":
        found = cluster.offsets(topic, milliseconds(value))
        return {index: at if at >= 0 else ends[index] for index, at in found.items()}
    raise CommandFailed(
        f"--from {start}: write beginning, end, offset:N, last:N, or time:2026-11-20T08:00:00+00:00"
    )


def milliseconds(text: str) -> int:
    """A time as Kafka has it: of this machine's zone, unless it says its own. Raises CommandFailed."""
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise CommandFailed(f"{text!r} is no time: write it as 2026-11-20T08:00:00+00:00") from None
    return int((moment if moment.tzinfo else moment.astimezone()).timestamp() * 1000)
