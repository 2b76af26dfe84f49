"""An idempotent producer, kafka-python's; for its arguments and lines see `tests.faults.senders`."""

import sys
import threading
from functools import partial

from kafka import KafkaProducer
from kafka.producer.future import RecordMetadata

_printing = threading.Lock()


def main(bootstrap: str, topic: str, timeout_ms: int) -> None:
    producer = KafkaProducer(
        bootstrap_servers=bootstrap.split(","),
        enable_idempotence=True,
        acks="all",
        linger_ms=2,
        delivery_timeout_ms=timeout_ms,
        max_block_ms=timeout_ms,
        request_timeout_ms=10_000,
        reconnect_backoff_max_ms=200,
        metadata_max_age_ms=5_000,
    )
    for line in sys.stdin:
        number, partition, value = line.rstrip("\n").split("\t", 2)
        sent = producer.send(topic, value.encode(), partition=int(partition))
        sent.add_callback(partial(_acknowledged, number))
        sent.add_errback(partial(_failed, number))
    producer.flush()
    producer.close()


def _acknowledged(number: str, told: RecordMetadata) -> None:
    _say(f"{number}\t{told.offset}")


def _failed(number: str, error: Exception) -> None:
    _say(f"{number}\terror\t{error!r}".replace("\n", " "))


def _say(line: str) -> None:
    with _printing:
        print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
