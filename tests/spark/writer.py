"""A producer beside Spark: what it sent, and where that was acknowledged."""

from __future__ import annotations

import itertools
import threading
from typing import Any

from confluent_kafka import Producer


class Writer:
    """An idempotent producer that writes at a steady pace and remembers what was acknowledged."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        settings = {"enable.idempotence": True, "linger.ms": 5, "reconnect.backoff.max.ms": 200}
        self._producer = Producer({"bootstrap.servers": bootstrap, **settings})
        self._topic, self._partitions = topic, partitions
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.acked: dict[bytes, tuple[int, int]] = {}
        self._thread.start()

    def _run(self) -> None:
        for number in itertools.count():
            if self._stop.wait(0.002):
                return
            partition = number % self._partitions
            self._producer.produce(
                self._topic, b"record %d" % number, partition=partition, on_delivery=self._done
            )
            self._producer.poll(0)

    def _done(self, error: Any, message: Any) -> None:
        assert error is None, error
        self.acked[message.value()] = (message.partition(), message.offset())

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(60) == 0
