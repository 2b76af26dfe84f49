"""PRODUCER_FENCED for clients that do not know it."""

from __future__ import annotations

from wireproto.kafka.errors import ErrorCode


def as_known(error: ErrorCode, *, knows_fenced: bool) -> ErrorCode:
    """The error as a client of this version of the request knows it: before KIP-588 a producer whose epoch is
    old was told just that.
    """
    if error is ErrorCode.PRODUCER_FENCED and not knows_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error
