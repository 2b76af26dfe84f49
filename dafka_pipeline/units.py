"""Sizes and times as people type them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from dafka_pipeline.failures import UsageFailure

_SECONDS: Final = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES: Final = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
}
_NUMBER: Final = re.compile(r"^(\d+(?:\.\d+)?)\s*([A-Za-z]*)$")


def seconds(text: str, flag: str) -> float:
    """`30s`, `5m`, `1h`, `7d`, `250ms`, or a number of seconds. Raises UsageFailure."""
    found = _NUMBER.match(text.strip())
    if found is None or found[2].lower() not in _SECONDS:
        raise UsageFailure(f"{flag} {text}: give a time, e.g. 30s, 5m, 1h or 7d.")
    return float(found[1]) * _SECONDS[found[2].lower()]


def byte_count(text: str, flag: str) -> int:
    """`512MiB`, `1GB`, or a number of bytes. Raises UsageFailure."""
    found = _NUMBER.match(text.strip())
    if found is None or found[2].lower() not in _BYTES:
        raise UsageFailure(f"{flag} {text}: give a size, e.g. 64MiB, 1GB, or a number of bytes.")
    return int(float(found[1]) * _BYTES[found[2].lower()])


def milliseconds(text: str, flag: str) -> int:
    """A moment as Kafka counts it: milliseconds since 1970, or ISO 8601 (UTC where it names no zone)."""
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageFailure(
            f"{flag} {text}: give a time as 2026-01-31T12:00:00Z, or milliseconds since 1970."
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)
