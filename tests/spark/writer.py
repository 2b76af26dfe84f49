"""A producer beside Spark: what it sent, and where that was acknowledged.

Of a batch whose answer was lost, and behind which another one was taken, librdkafka knows that it is in the
log and not where (`rd_kafka_dr_implicit_ack`): its records are acknowledged at offset -1001.
"""

from __future__ import annotations

import itertools
import threading
from typing import Any, Final

from confluent_kafka import Producer

IDEMPOTENT: Final = {"enable.idempotence": True, "linger.ms": 5, "reconnect.backoff.max.ms": 200}
"""Settings of a producer that is back soon after its server."""

Place = tuple[int, int]
"""Partition and offset."""


def is_at(found: Place | None, acked: Place) -> bool:
    """Whether a record is where it was acknowledged."""
    partition, offset = acked
    return found is not None and found[0] == partition and (offset < 0 or found[1] == offset)


class Writer:
    """An idempotent producer that writes at a steady pace and remembers what was acknowledged."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, **IDEMPOTENT})
        self._topic, self._partitions = topic, partitions
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.acked: dict[bytes, Place] = {}
        """Value -> partition and offset; below 0 it is not known which."""
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
