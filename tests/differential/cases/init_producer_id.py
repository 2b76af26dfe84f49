"""InitProducerId 0-5: without a transactional id any producer's first question; with one, not served yet."""

from __future__ import annotations

from typing import Any

from kafka.protocol.producer import InitProducerIdRequest

from tests.differential.case import case
from tests.differential.side import Side

RESUMING = range(3, 6)


def ask(side: Side, version: int, label: str = "", **fields: Any) -> None:
    values: dict[str, Any] = {"transactional_id": None, "transaction_timeout_ms": 60_000}
    if version >= 3:
        values |= {"producer_id": -1, "producer_epoch": -1}
    side.ask(InitProducerIdRequest(version=version, **(values | fields)), label)


@case(InitProducerIdRequest)
def new(side: Side, version: int) -> None:
    side.settle_producer_ids()
    ask(side, version, "one")
    ask(side, version, "another")


@case(InitProducerIdRequest)
def odd_timeouts(side: Side, version: int) -> None:
    """Nobody looks at the timeout without a transactional id."""
    for timeout in [0, -1, 2**31 - 1]:
        ask(side, version, f"timeout {timeout}", transaction_timeout_ms=timeout)


@case(InitProducerIdRequest)
def empty_transactional_id(side: Side, version: int) -> None:
    ask(side, version, transactional_id="")


@case(InitProducerIdRequest)
def transactional(side: Side, version: int) -> None:
    ask(side, version, transactional_id=side.name("tx"))


@case(InitProducerIdRequest, RESUMING)
def resuming(side: Side, version: int) -> None:
    """An id and epoch brought along (KIP-360) mean something for transactions only."""
    for label, producer_id, epoch in [("both", 4711, 3), ("id only", 4711, -1), ("epoch only", -1, 3)]:
        ask(side, version, label, producer_id=producer_id, producer_epoch=epoch)
