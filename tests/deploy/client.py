"""A client as a program of its own, for hosts where only programs can be: it writes numbers, or reads them.

    python -m tests.deploy.client write BOOTSTRAP TOPIC   until SIGTERM; says how many are acknowledged
    python -m tests.deploy.client read BOOTSTRAP TOPIC    all there is, as JSON: partition -> numbers

The number n goes to partition n % 4.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from types import FrameType

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

PARTITIONS = 4
SAID_EVERY = 100
PAUSE_SECONDS = 0.002
LAST_SECONDS = 120.0


class Writer:
    """An idempotent producer with acks=all that counts what was acknowledged and what was not."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 2,
                "reconnect.backoff.max.ms": 500,
                "message.timeout.ms": int(LAST_SECONDS * 1000),
                "log_level": 0,
            }
        )
        self._topic = topic
        self.sent = self.acked = 0
        self.failures: list[str] = []
        self._stopping = False
        signal.signal(signal.SIGTERM, self._stop)

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self._stopping = True

    def run(self) -> None:
        """Write until a signal; then everything that was sent has its result."""
        while not self._stopping:
            try:
                self._producer.produce(
                    self._topic,
                    str(self.sent).encode(),
                    partition=self.sent % PARTITIONS,
                    on_delivery=self._done,
                )
                self.sent += 1
            except BufferError:
                pass
            self._producer.poll(PAUSE_SECONDS)
        self._producer.flush(LAST_SECONDS)

    def _done(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self.failures.append(str(error))
            return
        self.acked += 1
        if self.acked % SAID_EVERY == 0:
            print(f"acked {self.acked}", flush=True)


def read(bootstrap: str, topic: str) -> dict[int, list[int]]:
    """Every number of the topic, by partition."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False, "log_level": 0}
    )
    found: dict[int, list[int]] = {}
    for partition in range(PARTITIONS):
        place = TopicPartition(topic, partition, 0)
        end = _end_of(consumer, place)
        consumer.assign([place])
        numbers: list[int] = []
        while len(numbers) < end:
            message = consumer.poll(LAST_SECONDS)
            if message is None or message.error():
                raise SystemExit(
                    f"partition {partition}, after {len(numbers)} of {end}: {message and message.error()}"
                )
            assert message.offset() == len(numbers)
            numbers.append(int(message.value() or b""))
        found[partition] = numbers
    consumer.close()
    return found


MOVING = {KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE}


def _end_of(consumer: Consumer, place: TopicPartition) -> int:
    """Asked again while the partition goes to its next leader: librdkafka leaves that to its users here."""
    deadline = time.monotonic() + LAST_SECONDS
    while True:
        try:
            return int(consumer.get_watermark_offsets(place, timeout=LAST_SECONDS)[1])
        except KafkaException as error:
            if error.args[0].code() not in MOVING or time.monotonic() > deadline:
                raise
            time.sleep(PAUSE_SECONDS)


def main(what: str, bootstrap: str, topic: str) -> None:
    if what == "read":
        print(json.dumps(read(bootstrap, topic)))
        return
    writer = Writer(bootstrap, topic)
    writer.run()
    print(
        json.dumps({"sent": writer.sent, "acked": writer.acked, "failures": writer.failures[:3]}), flush=True
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
