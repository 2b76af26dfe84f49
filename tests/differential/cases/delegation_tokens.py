"""Delegation tokens where there is no secret to make them with: who is told what of it."""

from __future__ import annotations

from typing import Any

from tests.differential.case import as_each
from tests.differential.samples import sample
from tests.differential.side import Side
from wireproto.kafka.messages import (
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)


@as_each(CreateDelegationTokenRequest)
def created(side: Side, version: int) -> None:
    side.ask(sample(side, CreateDelegationTokenRequest.API_KEY, version), "one")


@as_each(RenewDelegationTokenRequest)
def renewed(side: Side, version: int) -> None:
    side.ask(RenewDelegationTokenRequest(version=version, hmac=b"nobody's", renew_period_ms=-1), "of nobody")


@as_each(ExpireDelegationTokenRequest)
def expired(side: Side, version: int) -> None:
    asked = ExpireDelegationTokenRequest(version=version, hmac=b"nobody's", expiry_time_period_ms=-1)
    side.ask(asked, "of nobody")


@as_each(DescribeDelegationTokenRequest)
def described(side: Side, version: int) -> None:
    asked: dict[str, list[Any] | None] = {"all": None, "none": []}
    for label, owners in asked.items():
        side.ask(DescribeDelegationTokenRequest(version=version, owners=owners), label)
