"""Transactional workers, librdkafka's; for arguments and lines see `tests.faults.transactions.clients`."""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.faults.transactions.clients import GROUPS, HUNG, INPUTS, KEY_BYTES, PARTITIONS, copies_of
from tests.faults.transactions.history import (
    COPY,
    Acked,
    Begun,
    Closed,
    Ended,
    Ending,
    Event,
    Offsets,
    Operation,
    Polled,
    Sending,
    written,
)

ABORTED: Final = 0.15
MOST_WRITES: Final = 4
MOST_POLLED: Final = 20
POLL_SECONDS: Final = 0.05
ASK_SECONDS: Final = 30.0
INIT_SECONDS: Final = 120.0
HUNG_SECONDS: Final = 45.0

KEY: Final = b"k" * KEY_BYTES

draining = threading.Event()
ending = threading.Event()
_telling = threading.Lock()


class Over(Exception):
    """This producer's life has ended."""

    def __init__(self, why: str, *, fatal: bool) -> None:
        super().__init__(why)
        self.fatal = fatal


def tell(operation: Operation) -> None:
    with _telling:
        sys.stdout.write(written(operation))
        sys.stdout.flush()


def now() -> int:
    return time.monotonic_ns()


def _end_hung() -> None:
    tell(Event("send_offsets_to_transaction hangs", now()))
    os._exit(HUNG)


class Life:
    """A producer and a consumer, from one loss of them to the next."""

    def __init__(self, bootstrap: str, worker: str, life: str, group: str, choice: random.Random) -> None:
        self._name, self._group, self._random = f"{worker}/{life}", group, choice
        self._number = self._readers = 0
        self._acked: list[tuple[str, int, str, int]] = []
        common: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "reconnect.backoff.max.ms": 200,
            "retry.backoff.max.ms": 200,
            "topic.metadata.refresh.interval.ms": 5000,
            "socket.connection.setup.timeout.ms": 2000,
        }
        self._producer = Producer(common | {"transactional.id": worker, "linger.ms": 2})
        self._consumer = Consumer(
            common
            | {
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "session.timeout.ms": 6000,
                "partition.assignment.strategy": "range",
            }
        )

    def run(self) -> None:
        """Until it is told to end. Raises Over."""
        try:
            self._or_over(lambda: self._producer.init_transactions(INIT_SECONDS))
            self._consumer.subscribe([INPUTS], on_assign=self._assigned)
            while not ending.is_set():
                self._transaction()
        finally:
            self._consumer.close()

    def _assigned(self, _consumer: Consumer, _partitions: list[TopicPartition]) -> None:
        self._readers += 1

    def _transaction(self) -> None:
        self._number += 1
        name = f"{self._name}/{self._number}"
        tell(Begun(name, now()))
        self._or_over(self._producer.begin_transaction)
        self._acked = []
        polled: list[tuple[str, int, int, str]] = []
        readers = self._readers
        try:
            self._send(name, self._new_records(name))
            polled = self._poll(name)
            readers = self._readers
            self._send(name, self._copies(name, polled))
            if self._random.random() < ABORTED:
                # It fails for good where librdkafka waits to add partitions again: EndTxn of nothing.
                self._producer.flush(INIT_SECONDS)
                self._abort(name, "at random")
                self._rewind(polled, readers)
                return
            self._send_offsets(name, polled)
            self._commit(name)
        except KafkaException as error:
            told = error.args[0]
            if told.fatal() or not told.txn_requires_abort():
                raise Over(str(told), fatal=told.fatal()) from error
            self._abort(name, str(told))
            self._rewind(polled, readers)

    def _new_records(self, name: str) -> list[tuple[str, int, str]]:
        draw = self._random.randint
        few = min(draw(0, MOST_WRITES), draw(1, MOST_WRITES), draw(1, MOST_WRITES))
        count = 0 if draining.is_set() else few
        return [(INPUTS, self._random.randrange(PARTITIONS), f"{name}/{n}") for n in range(count)]

    def _copies(self, name: str, polled: list[tuple[str, int, int, str]]) -> list[tuple[str, int, str]]:
        topic = copies_of(self._group)
        return [
            (topic, partition, f"{name}/c{n}{COPY}{value}")
            for n, (_, partition, _, value) in enumerate(polled)
        ]

    def _send(self, name: str, records: list[tuple[str, int, str]]) -> None:
        if not records:
            return
        tell(Sending(name, records, now()))
        for topic, partition, value in records:
            self._producer.produce(
                topic, value.encode(), KEY, partition=partition, on_delivery=self._delivered
            )

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            value: Any = message.value()
            offset = message.offset()
            at = -1 if offset is None or offset < 0 else offset
            self._acked.append((str(message.topic()), message.partition() or 0, value.decode(), at))

    def _poll(self, name: str) -> list[tuple[str, int, int, str]]:
        found = []
        for message in self._consumer.consume(MOST_POLLED, POLL_SECONDS):
            if message.error() is None:
                value: Any = message.value()
                place = str(message.topic()), message.partition() or 0, message.offset() or 0
                found.append((*place, value.decode()))
        if found:
            tell(Polled(name, f"{self._group}/{self._name}/{self._readers}", found, now()))
        return found

    def _send_offsets(self, name: str, polled: list[tuple[str, int, int, str]]) -> None:
        if not polled:
            return
        highest = {(topic, partition): offset + 1 for topic, partition, offset, _ in polled}
        offsets = [(topic, partition, offset) for (topic, partition), offset in highest.items()]
        tell(Offsets(name, self._group, offsets, now()))
        wanted = [TopicPartition(*each) for each in offsets]
        # librdkafka waits for ever, whatever its timeout, where the group's coordinator that it knows is gone
        # (its issues 5456 and 5511).
        watch = threading.Timer(HUNG_SECONDS, _end_hung)
        watch.start()
        try:
            self._again(
                lambda: self._producer.send_offsets_to_transaction(
                    wanted, self._consumer.consumer_group_metadata(), ASK_SECONDS
                )
            )
        finally:
            watch.cancel()

    def _commit(self, name: str) -> None:
        tell(Ending(name, commit=True, at=now()))
        try:
            self._again(lambda: self._producer.commit_transaction(ASK_SECONDS))
        except KafkaException as error:
            self._tell_acked(name)
            # Unless an abort follows that is done.
            tell(Ended(name, commit=True, outcome="unknown", at=now(), why=str(error.args[0])))
            raise
        self._tell_acked(name)
        tell(Ended(name, commit=True, outcome="ok", at=now()))

    def _abort(self, name: str, why: str) -> None:
        tell(Ending(name, commit=False, at=now()))
        try:
            self._again(lambda: self._producer.abort_transaction(ASK_SECONDS))
        except KafkaException as error:
            told = error.args[0]
            self._tell_acked(name)
            tell(Ended(name, commit=False, outcome="unknown", at=now(), why=str(told)))
            raise Over(str(told), fatal=told.fatal()) from error
        self._tell_acked(name)
        tell(Ended(name, commit=False, outcome="ok", at=now(), why=why))

    def _tell_acked(self, name: str) -> None:
        if self._acked:
            tell(Acked(name, self._acked, now()))
            self._acked = []

    def _rewind(self, polled: list[tuple[str, int, int, str]], readers: int) -> None:
        """To what the aborted transaction has read, as long as nobody else may have read it meanwhile."""
        if readers != self._readers or not polled:
            return
        first: dict[int, int] = {}
        for _, partition, offset, _ in polled:
            first.setdefault(partition, offset)
        self._readers += 1
        for partition, offset in first.items():
            self._consumer.seek(TopicPartition(INPUTS, partition, offset))

    def _again(self, ask: Any) -> None:
        """Ask until there is an answer that stays."""
        deadline = time.monotonic() + INIT_SECONDS
        while True:
            try:
                ask()
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise
            else:
                return

    def _or_over(self, ask: Any) -> None:
        try:
            self._again(ask)
        except KafkaException as error:
            raise Over(str(error.args[0]), fatal=error.args[0].fatal()) from error


def work(bootstrap: str, worker: str, process_life: str, group: str, choice: random.Random) -> None:
    number = 0
    while not ending.is_set():
        number += 1
        life = f"{process_life}.{number}"
        try:
            Life(bootstrap, worker, life, group, choice).run()
        except Over as over:
            tell(Closed(worker, life, over.fatal, str(over), now()))


def main(bootstrap: str, name: str, life: str, workers: int, seed: int) -> None:
    threads = [
        threading.Thread(
            target=work,
            args=(
                bootstrap,
                f"{name}-{number}",
                life,
                GROUPS[number % len(GROUPS)],
                random.Random(f"{seed} {number}"),
            ),
        )
        for number in range(workers)
    ]
    for thread in threads:
        thread.start()
    for line in sys.stdin:
        if line.strip() == "drain":
            draining.set()
            tell(Event("draining", now()))
    ending.set()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
