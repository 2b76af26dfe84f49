"""A Kafka consumer as a process that may be killed at any moment:
`python -m tests.faults.kafka_reader BOOTSTRAP TOPIC PARTITIONS FILE`.

Each record becomes a line of the file: partition, offset, and a digest of what it has. A next life goes on
behind the last whole lines, so that a record which is lost, or given again, shows.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

GATHER_SECONDS: Final = 0.2


class Line(NamedTuple):
    """A record that was read."""

    partition: int
    offset: int
    digest: str


def digest_of(value: bytes | None, headers: Iterable[tuple[str, bytes | None]]) -> str:
    """The same of two records just if value and headers are."""
    return hashlib.sha256(repr((value, list(headers))).encode()).hexdigest()[:16]


def lines_of(path: Path) -> Iterator[Line]:
    """The whole lines of a file, none of one that is not there."""
    data = path.read_bytes() if path.exists() else b""
    for line in data[: data.rfind(b"\n") + 1].decode().splitlines():
        partition, offset, digest = line.split()
        yield Line(int(partition), int(offset), digest)


def main(bootstrap: str, topic: str, partitions: int, path: Path) -> None:
    """Read for ever."""
    following = dict.fromkeys(range(partitions), OFFSET_BEGINNING)
    kept = "".join(f"{line.partition} {line.offset} {line.digest}\n" for line in lines_of(path))
    following |= {line.partition: line.offset + 1 for line in lines_of(path)}
    path.write_text(kept)
    consumer = Consumer(_settings(bootstrap))
    consumer.assign([TopicPartition(topic, partition, offset) for partition, offset in following.items()])
    with path.open("a") as file:
        while True:
            for message in consumer.consume(1000, GATHER_SECONDS):
                error = message.error()
                if error is None:
                    digest = digest_of(message.value(), message.headers() or ())
                    file.write(f"{message.partition()} {message.offset()} {digest}\n")
                elif error.code() != KafkaError._ALL_BROKERS_DOWN and not error.retriable():
                    raise SystemExit(f"{error}")
            file.flush()


def _settings(bootstrap: str) -> Mapping[str, Any]:
    return {
        "bootstrap.servers": bootstrap,
        "group.id": "read by offsets of its own",
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "reconnect.backoff.max.ms": 200,
    }


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))
