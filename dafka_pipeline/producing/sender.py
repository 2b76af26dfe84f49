"""The producers of a task: what they are set to, and how rows go through them.

Without transactions one idempotent producer sends each target partition's rows in order; what is in the
target when it dies is a prefix of them. With transactions each target partition has a producer of its own
whose id fences the one before; what is committed is a prefix.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from typing import Any, Final

from dafka_pipeline.kafka.cluster import TopicPartition
from dafka_pipeline.producing.plan import Plan, Sent
from dafka_pipeline.producing.positions import Position
from dafka_pipeline.producing.rows import Rows
from dafka_pipeline.producing.watch import Watch

PIECE: Final = 1000
"""Records between two looks at the clock and at the watch."""
PIECE_SECONDS: Final = 0.1
"""How long a piece lasts where the rate is limited."""
QUEUE_RECORDS: Final = 100_000
QUEUE_KILOBYTES: Final = 65_536
"""What a task's producer holds at most."""
LARGEST_RECORD: Final = 1_000_000_000
"""librdkafka's own limit of `message.max.bytes`: the server decides what is too large, after compression."""
LINGER_MILLISECONDS: Final = 20
COMMIT_RECORDS: Final = 100_000
COMMIT_SECONDS: Final = 5.0
"""A transaction ends after so many records, or so long."""
ANSWER_SECONDS: Final = 30.0
"""How long the coordinator of transactions may take to answer."""

logger = logging.getLogger("dafka_pipeline.producing")
# A line for each attempt to connect would come from each task; what matters comes as an error.
logger.addHandler(logging.NullHandler())
logger.propagate = False


class Ended(Exception):
    """Sending ended before its end. kind: `later` (what is left can be sent by a next round), or `never`."""

    def __init__(self, kind: str, why: str) -> None:
        super().__init__(why)
        self.kind = kind
        self.why = why


LATER, NEVER = "later", "never"


@dataclass
class Progress:
    """One target partition within a task.

    expected: the offset that the next record must get; None where others write to it, too, or markers lie
        between.
    """

    at: TopicPartition
    last: Position | None
    last_offset: int
    expected: int | None
    records: int = 0
    size_bytes: int = 0
    skipped: int = 0

    def sent(self) -> Sent:
        return Sent(self.records, self.size_bytes, self.skipped, self.last, self.last_offset)


def producer_settings(plan: Plan, batch_bytes: int) -> dict[str, Any]:
    """The settings of a producer; --librdkafka wins where order does not depend on it."""
    return {
        "client.id": "dafka-pipeline",
        "linger.ms": LINGER_MILLISECONDS,
        "queue.buffering.max.messages": QUEUE_RECORDS,
        "queue.buffering.max.kbytes": QUEUE_KILOBYTES,
        "message.max.bytes": LARGEST_RECORD,
        # A record that is larger than this goes in a batch of its own.
        "batch.size": batch_bytes,
        "compression.type": plan.compression,
        **plan.kafka.for_librdkafka(),
        "enable.idempotence": True,
        # A record that the server refuses (too large, say) ends the producer. Otherwise those after it would
        # go on, and since only the last record of a piece is heard of, nobody would know of the hole.
        "enable.gapless.guarantee": True,
        "acks": "all",
        "message.timeout.ms": round(plan.timing.message * 1000),
    }


@dataclass
class Sender:
    """Sends rows through one producer and knows what of them has arrived. Close it.

    soft, until: seconds since 1970 from which on no more is queued, and at which the producer must have
        ended.
    rate: records a second at most; 0 does not limit.
    """

    plan: Plan
    soft: float
    until: float
    rate: float
    settings: dict[str, Any]
    _failure: Any = None
    _began: float = field(default_factory=time.monotonic)
    _records: int = 0

    def __post_init__(self) -> None:
        from confluent_kafka import Producer

        self.producer = Producer({**self.settings, "error_cb": self._on_error}, logger=logger)
        self.watch = Watch(self.producer, self.plan.timing, self.until)

    def send(self, rows: Rows, skip: int, to: Progress) -> bool:
        """Queue the rows from number `skip` on; False when the time for that ended before. Raises Ended."""
        if rows.zero:
            raise Ended(
                NEVER,
                f"a record for {to.at.topic} has the timestamp 0 (1970-01-01), which librdkafka "
                "cannot send: it takes 0 for 'now'",
            )
        piece = self._piece()
        for start in range(skip, len(rows), piece):
            end = min(start + piece, len(rows))
            if time.time() >= self.soft:
                return False
            self._pace(end - start)
            self._queue(rows, start, end, to)
        return True

    def finish(self) -> None:
        """Wait until everything has arrived. Raises Ended."""
        self._wait(lambda: not self.watch.waiting)

    def close(self) -> None:
        self.watch.close()
        # What is queued still would go out while the producer is taken down.
        if self.watch.waiting:
            self.producer.purge(in_queue=True, in_flight=True, blocking=False)

    def _piece(self) -> int:
        return PIECE if self.rate <= 0 else max(1, min(PIECE, int(self.rate * PIECE_SECONDS)))

    def _queue(self, rows: Rows, start: int, end: int, to: Progress) -> None:
        produce, name = self.producer.produce, self.plan.header
        topic, partition = to.at
        headers = rows.all_headers(name, start, end)
        piece = self.watch.queued()
        done = partial(self._on_acknowledged, to, piece, end - start, rows.position(end - 1))
        callbacks = [*repeat(None, end - start - 1), done]
        columns = (rows.values[start:end], rows.keys[start:end], rows.timestamps[start:end], headers)
        try:
            for value, key, timestamp, own, callback in zip(*columns, callbacks, strict=True):
                try:
                    # By position: names cost a tenth of the call.
                    produce(topic, value, key, partition, callback, None, timestamp, own)
                except BufferError:
                    self._produce_later(topic, value, key, partition, callback, None, timestamp, own)
        except Ended:
            raise
        except Exception as error:  # KafkaException, or what a value of a wrong type gives
            raise self._ended(error) from error

    def _produce_later(self, *record: Any) -> None:
        """Give a record to the producer once it has room."""
        while True:
            if len(self.producer) == 0:
                raise self._ended(Ended(NEVER, f"a record is larger than the queue of {QUEUE_KILOBYTES} kB"))
            self._serve()
            try:
                self.producer.produce(*record)
                return
            except BufferError:
                continue

    def _on_acknowledged(
        self, to: Progress, piece: int, count: int, position: Position, error: Any, message: Any
    ) -> None:
        if error is not None:
            self._failure = self._failure or error
            return
        self.watch.acknowledged(piece)
        offset = message.offset()
        if to.expected is not None:
            to.expected += count
            if offset != to.expected - 1:
                self._failure = Ended(NEVER, foreign_text(to.at, offset, to.expected - 1))
                return
        to.last, to.last_offset = position, offset
        to.records += count

    def _on_error(self, error: Any) -> None:
        if error.fatal():
            self._failure = self._failure or error

    def _pace(self, count: int) -> None:
        """Wait until there is time and room for so many more."""
        timing = self.plan.timing
        self._check()
        if self.watch.oldest_seconds() > timing.spread:
            self._wait(lambda: self.watch.oldest_seconds() <= timing.spread)
        if self.rate > 0:
            due = self._began + self._records / self.rate
            self._wait(lambda: time.monotonic() >= due)
        self._records += count

    def _wait(self, done: Callable[[], bool]) -> None:
        while not done():
            self._serve()
        self._check()

    def _serve(self) -> None:
        self.watch.serve(0.01)
        self._check()

    def _check(self) -> None:
        failure = self._failure or self.watch.failure
        if failure is not None:
            raise self._ended(failure)
        if self.watch.check():
            raise Ended(LATER, self.watch.ended)

    def _ended(self, error: Any) -> Ended:
        error = self._cause(error)
        self.watch.end(str(error))
        return ended_by(error)

    def _cause(self, error: Any) -> Any:
        """What a transaction has failed of. librdkafka drops the rest of it, and to hear of that is all that
        the last record of a piece gets.
        """
        from confluent_kafka import KafkaError, KafkaException

        dropped = {KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT}
        if "transactional.id" not in self.settings or not isinstance(error, KafkaError):
            return error
        if error.code() not in dropped:
            return error
        try:
            # Changes nothing while one is open; where that has failed, each call says why.
            self.producer.begin_transaction()
        except KafkaException as exception:
            return exception.args[0]
        return error


def foreign_text(at: TopicPartition, offset: int, expected: int) -> str:
    return (
        f"{at.topic}-{at.partition} gave offset {offset} where {expected} was next: somebody else writes "
        "to it, or a producer that was thought dead was not. Replay again into an empty topic, or allow "
        "others with --append"
    )


def ended_by(error: Any) -> Ended:
    """A failure of librdkafka's, as ours."""
    from confluent_kafka import KafkaError, KafkaException

    if isinstance(error, Ended):
        return error
    if isinstance(error, KafkaException):
        error = error.args[0]
    if not isinstance(error, KafkaError):
        return Ended(NEVER, f"{type(error).__name__}: {error}")
    never = {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.INVALID_RECORD,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.POLICY_VIOLATION,
        KafkaError.UNSUPPORTED_COMPRESSION_TYPE,
        # librdkafka's name for any answer that leaves a batch out for good.
        KafkaError._GAPLESS_GUARANTEE,
        KafkaError._AUTHENTICATION,  # its names for errors on this side of the wire
        KafkaError._INVALID_ARG,
    }
    return Ended(NEVER if error.code() in never else LATER, f"{error.str()} ({error.name()})")
