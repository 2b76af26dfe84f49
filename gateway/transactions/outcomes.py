"""What the rules of transactions say to a request: an answer, or something to be written before it is given.

Pure.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, TypeAlias

from gateway.transactions.metadata import NO_EPOCH, NO_PRODUCER_ID, TransactionMetadata
from wireproto.kafka.errors import ErrorCode


class Answer(NamedTuple):
    """What a client is told, with the producer id and epoch that it goes on with."""

    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH


class Write(NamedTuple):
    """Metadata that is to be durable in the log before the answer is given; None is a tombstone."""

    metadata: TransactionMetadata | None
    answer: Answer


class Needs(Enum):
    """What the caller has to get before it asks again."""

    PRODUCER_ID = "a producer id that was never given before"


Outcome: TypeAlias = Answer | Write | Needs

DONE = Answer(ErrorCode.NONE)
BUSY = Answer(ErrorCode.CONCURRENT_TRANSACTIONS)
"""Clients ask again, all of them and every time."""

FENCED = Answer(ErrorCode.PRODUCER_FENCED)
OTHER_PRODUCER = Answer(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
WRONG_STATE = Answer(ErrorCode.INVALID_TXN_STATE)
