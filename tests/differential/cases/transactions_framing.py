"""Bodies cut short or too long, of the APIs that are not served yet; `framing` has them once they are."""

from __future__ import annotations

from kafka.protocol.metadata import MetadataRequest

from tests.differential.case import AWAITED, case
from tests.differential.cases.framing import every_api
from tests.differential.side import Side


@case(MetadataRequest, [9])
def bodies_cut(side: Side, version: int) -> None:
    every_api(side, "cut", AWAITED)


@case(MetadataRequest, [9])
def bodies_halved(side: Side, version: int) -> None:
    every_api(side, "half", AWAITED)


@case(MetadataRequest, [9])
def bodies_empty(side: Side, version: int) -> None:
    every_api(side, "empty", AWAITED)
