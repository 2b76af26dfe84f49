"""Requests of transactional producers, in any version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
)

TIMEOUT_MS = 60_000
BATCHED_SINCE_VERSION = 4


def init(name: str | None, *, version: int = 4, timeout_ms: int = TIMEOUT_MS) -> Any:
    """An InitProducerId request of somebody new."""
    return InitProducerIdRequest(version=version, transactional_id=name, transaction_timeout_ms=timeout_ms)


def add_partitions(
    name: str, producer_id: int, epoch: int, wanted: Mapping[str, Sequence[int]], *, version: int = 3,
    verify_only: bool = False,
) -> Any:  # fmt: skip
    """An AddPartitionsToTxn request: up to version 3 as clients send it, from then on as gateways do."""
    request = AddPartitionsToTxnRequest
    topics = [
        request.AddPartitionsToTxnTopic(name=topic, partitions=list(indexes))
        for topic, indexes in wanted.items()
    ]
    if version < BATCHED_SINCE_VERSION:
        return request(
            version=version,
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=topics,
        )
    one = request.AddPartitionsToTxnTransaction(
        transactional_id=name,
        producer_id=producer_id,
        producer_epoch=epoch,
        verify_only=verify_only,
        topics=topics,
    )
    return request(version=version, transactions=[one])


def add_offsets(name: str, producer_id: int, epoch: int, group: str, *, version: int = 3) -> Any:
    """An AddOffsetsToTxn request."""
    return AddOffsetsToTxnRequest(
        version=version, transactional_id=name, producer_id=producer_id, producer_epoch=epoch, group_id=group
    )


def end(name: str, producer_id: int, epoch: int, *, commit: bool = True, version: int = 3) -> Any:
    """An EndTxn request."""
    return EndTxnRequest(
        version=version,
        transactional_id=name,
        producer_id=producer_id,
        producer_epoch=epoch,
        committed=commit,
    )
