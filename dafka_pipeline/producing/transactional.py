"""A producer whose id is its target partition's: starting it ends the one before, and its open
transaction.
"""

from __future__ import annotations

import math
import time
from typing import Any

from dafka_pipeline.kafka.cluster import TopicPartition
from dafka_pipeline.producing.plan import Plan
from dafka_pipeline.producing.rows import Rows
from dafka_pipeline.producing.sender import (
    ANSWER_SECONDS,
    COMMIT_RECORDS,
    COMMIT_SECONDS,
    Ended,
    Progress,
    Sender,
    ended_by,
    producer_settings,
)


def transactional_id(stream: str, at: TopicPartition) -> str:
    return f"{stream}-{at.topic}-{at.partition}"


class TransactionalSender:
    """Sends one target partition's rows in transactions. Close it."""

    def __init__(self, plan: Plan, batch_bytes: int, at: TopicPartition, rate: float, soft: float) -> None:
        settings = producer_settings(plan, batch_bytes)
        settings["transactional.id"] = transactional_id(plan.stream, at)
        settings["transaction.timeout.ms"] = round(plan.timing.message * 2000)
        self._sender = Sender(plan, soft, math.inf, rate, settings)
        self._open = False
        self._since, self._records = 0.0, 0
        try:
            self._call(self._sender.producer.init_transactions, ANSWER_SECONDS)
        except Ended:
            self.close()
            raise

    def send(self, rows: Rows, skip: int, to: Progress) -> bool:
        """As `Sender.send`. Raises Ended."""
        if skip == len(rows):
            return True
        if not self._open:
            self._call(self._sender.producer.begin_transaction)
            self._open, self._since, self._records = True, time.monotonic(), 0
        whole = self._sender.send(rows, skip, to)
        self._records += len(rows) - skip
        if self._records >= COMMIT_RECORDS or time.monotonic() > self._since + COMMIT_SECONDS:
            self.finish()
        return whole

    def finish(self) -> None:
        """Commit what was sent. Raises Ended."""
        if self._open:
            self._sender.finish()
            self._call(self._sender.producer.commit_transaction, ANSWER_SECONDS)
            self._open = False

    def close(self) -> None:
        # An open transaction is left: the next producer of this id ends it, or the server does.
        self._sender.close()

    def _call(self, function: Any, *arguments: Any) -> None:
        from confluent_kafka import KafkaException

        try:
            function(*arguments)
        except KafkaException as error:
            raise ended_by(error) from error
