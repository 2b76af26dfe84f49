"""A record's position in its stream, as the header says it: `ID|5` or `ID|1700000000000.2.17`. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from dafka_pipeline.failures import UsageFailure

Position = tuple[int, ...]
"""The total order of one target partition's records: compared number by number; all of a stream have the
same length."""

_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def check_stream(stream: str) -> str:
    """The id itself. Raises UsageFailure for one that cannot be a part of a header, a file name and an id."""
    if not _ID.fullmatch(stream):
        raise UsageFailure(
            f"{stream!r} is no id: use up to 100 letters, digits, dots, dashes and underscores, a letter "
            "or digit first."
        )
    return stream


def prefix_of(stream: str) -> bytes:
    """What the values of a stream's position headers begin with."""
    return stream.encode() + b"|"


def position_value(prefix: bytes, position: Position) -> bytes:
    """The header's value of one record."""
    return prefix + b".".join(b"%d" % number for number in position)


def parse_position(prefix: bytes, value: bytes | None) -> Position | None:
    """The position that a header's value says; None where it is no value of this stream."""
    if value is None or not value.startswith(prefix):
        return None
    try:
        return tuple(int(number) for number in value[len(prefix) :].split(b"."))
    except ValueError:
        return None


def own_position(
    headers: Sequence[tuple[str, bytes | None]] | None, name: str, prefix: bytes
) -> Position | None:
    """The position of a record of this stream; None for a foreign record.

    The stream's header is the record's last one: an archived record may have one of the same name from an
    earlier replay, and keeps it.
    """
    if not headers or headers[-1][0] != name:
        return None
    return parse_position(prefix, headers[-1][1])
