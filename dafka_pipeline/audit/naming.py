"""What a user calls a side: a Kafka by its address, an archive by its directory, perhaps at a version.
Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from dafka_pipeline.failures import UsageFailure

_ADDRESS: Final = re.compile(r"^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):\d{1,5}$")
_VERSION: Final = re.compile(r"^(.+)@(\d+)$")
KAFKA: Final = "kafka:"
ARCHIVE: Final = "archive:"


@dataclass(frozen=True)
class Named:
    """A side as it was given: `bootstrap` of a Kafka, or `archive` and its `version` (None: the newest)."""

    bootstrap: str = ""
    archive: str = ""
    version: int | None = None


def named(given: str, exists: Callable[[str], bool]) -> Named:
    """What `HOST:PORT[,...]`, `DIR`, `DIR@VERSION` or a URI means; `kafka:` or `archive:` before it decides.

    exists: whether there is a directory of a name.
    Raises UsageFailure for what is both, or neither.
    """
    if given.startswith(KAFKA):
        rest = given.removeprefix(KAFKA)
        if not _is_address(rest):
            raise UsageFailure(f"{given}: {rest!r} is no HOST:PORT[,HOST:PORT...].")
        return Named(bootstrap=rest)
    if given.startswith(ARCHIVE):
        return _archive(given.removeprefix(ARCHIVE), exists)
    if not given:
        raise UsageFailure("A side is HOST:PORT, a directory or a URI, and not an empty text.")
    if not _is_address(given):
        return _archive(given, exists)
    if exists(given):
        raise UsageFailure(
            f"{given} is an address, and there is a directory of that name: write {KAFKA}{given} or "
            f"{ARCHIVE}{given}."
        )
    return Named(bootstrap=given)


def _is_address(text: str) -> bool:
    return all(_ADDRESS.match(one.strip()) for one in text.split(","))


def _archive(text: str, exists: Callable[[str], bool]) -> Named:
    at = _VERSION.match(text)
    if at is None or exists(text):
        return Named(archive=text)
    return Named(archive=at[1], version=int(at[2]))
