"""A Kafka producer as a program that is killed: an idempotent one, which notes where its records are.

    python -m tests.faults.kafka_sender BOOTSTRAP TOPIC PARTITIONS NAME FILE

It says "ready" once SIGTERM ends it in order: then everything is acknowledged, or it says what is not. Each
acknowledged record becomes a line of the file: partition, offset, value. Values name the life that wrote
them.
"""

from __future__ import annotations

import itertools
import signal
import sys
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from confluent_kafka import Producer

from tests.spark.writer import IDEMPOTENT

PAUSE_SECONDS: Final = 0.005
FLUSH_SECONDS: Final = 120.0


def main(bootstrap: str, topic: str, partitions: int, name: str, path: Path) -> None:
    """Until SIGTERM."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    producer = Producer({"bootstrap.servers": bootstrap, **IDEMPOTENT})
    life = f"kafka {name} {uuid4().hex[:8]}"
    with path.open("a") as file:

        def done(error: Any, message: Any) -> None:
            if error is not None:
                raise SystemExit(f"{message.value()!r}: {error}")
            print(message.partition(), message.offset(), message.value().decode(), file=file)

        print("ready", flush=True)
        for number in itertools.count():
            if signal.sigtimedwait({signal.SIGTERM}, PAUSE_SECONDS) is not None:
                break
            try:
                producer.produce(topic, f"{life} {number}", partition=number % partitions, on_delivery=done)
            except BufferError:  # nothing was acknowledged for long
                producer.poll(0.1)
            producer.poll(0)
            file.flush()
        left = producer.flush(FLUSH_SECONDS)
    if left:
        raise SystemExit(f"{left} records are not acknowledged")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], Path(sys.argv[5]))
