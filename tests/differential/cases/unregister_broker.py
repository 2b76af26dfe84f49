"""UnregisterBroker 0: ids that nobody has."""

from __future__ import annotations

from tests.differential.case import case
from tests.differential.side import Side
from wireproto.kafka.messages import UnregisterBrokerRequest


@case(UnregisterBrokerRequest)
def unknown(side: Side, version: int) -> None:
    for number in (0, 2, 99, 1000, 2**31 - 1, -1, -(2**31)):
        side.ask(UnregisterBrokerRequest(version=version, broker_id=number), f"id {number}")
