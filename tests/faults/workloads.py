"""Load whose every record can be judged: the value says who sent it, which one it is, and its own hash."""

from __future__ import annotations

import hashlib
import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import KafkaError, Message, Producer
from kafka.protocol.consumer import ListOffsetsRequest

from tests.clients.stored import stored_records
from tests.differential.wire import Connection, UndecodableError
from tests.faults.history import History, Result, Seen, Sent, Watermark

DIGEST_CHARACTERS = 32
# Errors after which a record is certainly not in the log.
CERTAIN = {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError._QUEUE_FULL, KafkaError.TOPIC_EXCEPTION}
FLUSH_SECONDS = 60.0


def make_value(producer: str, number: int, length: int) -> bytes:
    """`producer|number|digest|` and filler up to `length` bytes; the digest covers all else."""
    seed = hashlib.sha256(f"{producer}|{number}".encode()).hexdigest().encode()
    head = f"{producer}|{number}|".encode()
    room = max(length - len(head) - DIGEST_CHARACTERS - 1, 0)
    filler = (seed * (room // len(seed) + 1))[:room]
    return head + _digest(head + filler) + b"|" + filler


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest()[:DIGEST_CHARACTERS].encode()


def read_value(value: bytes | None) -> tuple[str, int, str]:
    """(producer, number, digest) of a value; the digest is empty when the value was altered."""
    try:
        producer, number, digest, filler = (value or b"").split(b"|", 3)
        whole = _digest(b"|".join([producer, number, filler])) == digest
        return producer.decode(), int(number), digest.decode() if whole else ""
    except ValueError:
        return "?", -1, ""


class Load:
    """An idempotent producer in a thread of its own that never stops sending, and remembers everything."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        history: History,
        *,
        name: str = "p",
        partitions: int = 4,
        sizes: Sequence[int] = (100, 1000, 20_000),
        pause: float = 0.0005,
        seed: int = 1,
        acknowledged: Callable[[int, int], None] = lambda _partition, _number: None,
        **settings: Any,
    ) -> None:
        """`acknowledged` is told the partition and number of each record that is."""
        base = {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 2,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
            "socket.connection.setup.timeout.ms": 2000,
            "message.timeout.ms": 120_000,
            "queue.buffering.max.messages": 2000,
            "log_level": 0,
        }
        self._producer = Producer(base | settings)
        self.name = name
        self._topic, self._history = topic, history
        self._partitions, self._sizes, self._pause = partitions, sizes, pause
        self._random = random.Random(seed)
        self._acknowledged = acknowledged
        self._stop = threading.Event()
        self._number = 0
        self.acked = self.failed = self.unknown = 0
        self.outcomes: dict[int, str] = {}
        """What became of a record: ok, fail or unknown."""
        self._thread = threading.Thread(target=self._run, name=f"load {name}", daemon=True)
        self._thread.start()

    @property
    def sent(self) -> int:
        """Records handed over so far."""
        return self._number

    @property
    def in_flight(self) -> int:
        """Records handed over and not yet acknowledged."""
        return len(self._producer)

    def _run(self) -> None:
        while not self._stop.wait(self._pause):
            try:
                self._send()
            except BufferError:
                self._producer.poll(0.01)
            self._producer.poll(0)

    def _send(self) -> None:
        number, partition = self._number, self._number % self._partitions
        value = make_value(self.name, number, self._random.choice(self._sizes))
        self._producer.produce(
            self._topic,
            value,
            partition=partition,
            on_delivery=lambda error, message: self._done(number, error, message),
        )
        # After the hand-over: a full queue sends nothing. Nobody else can have seen it yet.
        self._history.add(Sent(self.name, number, partition, read_value(value)[2]))
        self._number += 1

    def _done(self, number: int, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acked += 1
            offset = message.offset()
            # librdkafka takes for granted what came before an acknowledged batch, and does not know where.
            self._settle(Result(self.name, number, "ok", -1 if offset is None or offset < 0 else offset))
            self._acknowledged(number % self._partitions, number)
        elif error.code() in CERTAIN:
            self.failed += 1
            self._settle(Result(self.name, number, "fail"))
        else:
            self.unknown += 1
            self._settle(Result(self.name, number, "unknown", why=str(error)))

    def _settle(self, result: Result) -> None:
        self.outcomes[result.number] = result.outcome
        self._history.add(result)

    def wait_for_acks(self, more: int, seconds: float = 60.0) -> None:
        """Until so many more records are acknowledged."""
        goal, deadline = self.acked + more, time.monotonic() + seconds
        while self.acked < goal:
            assert time.monotonic() < deadline, f"{self.acked} acknowledged, {goal} wanted"
            time.sleep(0.002)

    def wait_for_sent(self, count: int, seconds: float = 60.0) -> None:
        """Until so many were handed over in all."""
        deadline = time.monotonic() + seconds
        while self.sent < count:
            assert time.monotonic() < deadline, f"{self.sent} handed over, {count} wanted"
            time.sleep(0.002)

    def wait_for_new_acks(self, count: int, seconds: float = 60.0) -> None:
        """Until what was sent before has its results, and so many that were sent since are acknowledged."""
        settled = self.sent + count
        goal, deadline = self.acked + count, time.monotonic() + seconds
        while self.acked < goal or self.acked + self.failed + self.unknown < settled:
            assert time.monotonic() < deadline, f"{self.acked} acknowledged of {self.sent}"
            time.sleep(0.002)

    def stop(self) -> None:
        """Stops sending and waits until everything sent has its result."""
        self._stop.set()
        self._thread.join()
        left = self._producer.flush(FLUSH_SECONDS)
        assert left == 0, f"{left} records have no result"


class WatermarkWatch:
    """Asks for the high watermarks all the time, over restarts; what it hears goes into the history."""

    def __init__(
        self, bootstrap: str, topic: str, history: History, partitions: int, pause: float = 0.005
    ) -> None:
        self._pause = pause
        self._bootstrap, self._history, self._partitions = bootstrap, history, partitions
        of = ListOffsetsRequest.ListOffsetsTopic
        wanted = [of.ListOffsetsPartition(partition_index=n, timestamp=-1) for n in range(partitions)]
        self._question = ListOffsetsRequest(
            version=5, replica_id=-1, topics=[of(name=topic, partitions=wanted)]
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watermarks", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(0.01):
            try:
                with Connection(self._bootstrap, timeout=10.0) as connection:
                    while not self._stop.wait(self._pause):
                        self._note(connection.ask(self._question))
            except (OSError, UndecodableError):
                continue  # killed in the middle of an answer, or not up yet

    def _note(self, answer: Any) -> None:
        parts = [part for topic in answer.topics for part in topic.partitions if part.error_code == 0]
        self._history.add(*(Watermark(part.partition_index, part.offset) for part in parts))

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


def read_all(bootstrap: str, topic: str, history: History, partitions: int, reader: str = "end") -> int:
    """Reads every partition from its beginning into the history; the number of records."""
    count = 0
    for partition in range(partitions):
        for offset, record in stored_records(bootstrap, topic, partition):
            producer, number, digest = read_value(record.value)
            history.add(Seen(partition, offset, producer, number, digest, reader))
            count += 1
    return count
