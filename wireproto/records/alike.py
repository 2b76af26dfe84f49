"""Records that differ in little, encoded without looking at the rest of them again."""

from collections.abc import Sequence
from typing import TypeAlias

from wireproto.records.builder import nullable_bytes, varint

Header: TypeAlias = tuple[str, bytes]
"""Name and value."""

_NO_ATTRIBUTES_NOR_DELTA = b"\0\0"


class AlikeRecords:
    """Of one batch and all of its base timestamp: with the same key and headers, but for the value of one
    header, which stands behind those `before` and in front of those `after` it.
    """

    __slots__ = ("_after", "_before", "_key")

    def __init__(
        self, key: bytes | None, before: Sequence[Header], header: str, after: Sequence[Header]
    ) -> None:
        self._key = nullable_bytes(key)
        count = varint(len(before) + 1 + len(after))
        self._before = count + b"".join(map(_header, before)) + nullable_bytes(header.encode())
        self._after = b"".join(map(_header, after))

    def encoded(self, offset_delta: int, value: bytes, header_value: bytes) -> bytes:
        """A record as it stands in a batch of format v2, its length in front."""
        body = b"%b%b%b%b%b%b%b%b%b" % (
            _NO_ATTRIBUTES_NOR_DELTA,
            varint(offset_delta),
            self._key,
            varint(len(value)),
            value,
            self._before,
            varint(len(header_value)),
            header_value,
            self._after,
        )
        return varint(len(body)) + body


def _header(header: Header) -> bytes:
    name, value = header
    return nullable_bytes(name.encode()) + nullable_bytes(value)
