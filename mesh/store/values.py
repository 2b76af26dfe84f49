"""How heads, epochs, names and numbers look in RocksDB. The other values are packed by their owners: the
state of an address by `AddressState`, rows by `Row`, what is kept of native addresses by `native_keeping`,
the starts of a store by `starts`; contents are as they came.
"""

import struct
from collections.abc import Sequence

from mesh.protocol.disk import StoreCorrupt

_HEAD = struct.Struct(">qqB")
_EPOCH = struct.Struct(">I")
_NUMBER = struct.Struct(">q")


def pack_epoch(epoch: int, life: str) -> bytes:
    """The highest epoch announced for a log, and the life that did."""
    return _EPOCH.pack(epoch) + life.encode()


def unpack_epoch(log: str, value: bytes | None) -> tuple[int, str]:
    """(epoch, life) of an epoch's value, (-1, "") where there is none. Raises `StoreCorrupt`."""
    if value is None:
        return -1, ""
    try:
        return _EPOCH.unpack_from(value)[0], value[_EPOCH.size :].decode()
    except (ValueError, struct.error) as error:
        raise StoreCorrupt(f"the epoch of log {log} cannot be read: {error}") from None


def pack_number(number: int) -> bytes:
    return _NUMBER.pack(number)


def unpack_number(what: str, value: bytes | None) -> int:
    """The number, 0 where there is none. Raises `StoreCorrupt`."""
    if value is None:
        return 0
    try:
        number: int = _NUMBER.unpack(value)[0]
    except struct.error as error:
        raise StoreCorrupt(f"the {what} cannot be read: {error}") from None
    return number


def pack_names(names: Sequence[str]) -> bytes:
    return "\n".join(names).encode()


def unpack_names(what: str, value: bytes | None) -> tuple[str, ...]:
    """The names, none where there is no value. Raises `StoreCorrupt`."""
    try:
        return tuple((value or b"").decode().split("\n")) if value else ()
    except ValueError as error:
        raise StoreCorrupt(f"the {what} cannot be read: {error}") from None


def pack_head(sequence: int, row: bytes, running_max: int, subject: str) -> bytes:
    """The value of a head: the last sequence, its row, the running maximum timestamp (ms), the subject."""
    return _HEAD.pack(sequence, running_max, len(row)) + row + subject.encode()


def unpack_head(value: bytes | None) -> tuple[int, bytes, int, str]:
    """(head, its row, running maximum timestamp, subject) of a head's value. Raises struct.error."""
    if value is None:
        return -1, b"", -1, ""
    sequence, running_max, size = _HEAD.unpack_from(value)
    end = _HEAD.size + size
    return sequence, value[_HEAD.size : end], running_max, value[end:].decode()
