"""What goes through the socket: frames of a JSON object and some bytes, and what they say. Pure.

    frame     4 bytes: the JSON's length; 4 bytes: the length of the bytes; the JSON; the bytes
              (big-endian)

The bytes are the values, one after the other; the JSON has their lengths. Both ends are of one release: who
serves the catalog has started those that use it.

What is asked has a number, which its answer repeats::

    {"id": 7, "do": "transact", "compares": [[key, revision], ...], "puts": [[key, length], ...],
     "deletes": [key, ...], "lease": 0}
    {"id": 8, "do": "grant", "seconds": 6.0}    {"id": 9, "do": "keep", "lease": 5}
    {"id": 10, "do": "revoke", "lease": 5}      {"id": 11, "do": "fresh"}

    {"id": 7, "done": 120}    what the catalog's method gives
    {"id": 7, "compare": key}    {"id": 7, "no_lease": 5}    {"id": 7, "refused": "why"}

What is told without being asked comes in the order in which it happened, and before the answers that say that
it did::

    {"entries": [[key, created, modified, lease, length], ...], "revision": 118, "more": true}
    {"changes": [[revision, key, length or null, lease], ...], "revision": 120}

The first kind is all that there is, in several frames; it comes first, and again where somebody was too slow
to be told of each change.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from gateway.catalog.interface import MAX_TRANSACTION_BYTES, Change, Entry
from gateway.catalog.mirror import Mirror, Plan, Transaction

LENGTHS: Final = struct.Struct(">II")

MAX_JSON_BYTES: Final = 8 * 1024 * 1024
"""Bytes of a frame's JSON: what one commit of many transactions has changed, whose keys are in it."""

MAX_VALUES_BYTES: Final = 64 * 1024 * 1024
"""Bytes of a frame's values: those of the transactions that were committed together."""

PIECE_BYTES: Final = 1024 * 1024
"""About so many bytes of entries go into one frame of all that there is."""


class Malformed(ValueError):
    """What came through the socket is no frame, or not what it should say."""


class Frame(NamedTuple):
    """One of either direction."""

    told: dict[str, Any]
    values: memoryview


def pack(told: dict[str, Any], values: Iterable[bytes] = ()) -> bytes:
    """A frame."""
    text = json.dumps(told, separators=(",", ":")).encode()
    blob = b"".join(values)
    return LENGTHS.pack(len(text), len(blob)) + text + blob


class Frames:
    """Bytes as they come -> frames."""

    def __init__(
        self, max_json_bytes: int = MAX_JSON_BYTES, max_values_bytes: int = MAX_VALUES_BYTES
    ) -> None:
        self._buffer = bytearray()
        self._bounds = max_json_bytes, max_values_bytes

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that are whole now. Raises Malformed."""
        self._buffer += data
        while len(self._buffer) >= LENGTHS.size:
            json_bytes, values_bytes = LENGTHS.unpack_from(self._buffer)
            if json_bytes > self._bounds[0] or values_bytes > self._bounds[1]:
                raise Malformed(f"a frame of {json_bytes} and {values_bytes} bytes")
            size = LENGTHS.size + json_bytes + values_bytes
            if len(self._buffer) < size:
                return
            whole = bytes(self._buffer[:size])
            del self._buffer[:size]
            yield _frame(whole, LENGTHS.size + json_bytes)


def _frame(whole: bytes, values_at: int) -> Frame:
    try:
        told = json.loads(whole[LENGTHS.size : values_at])
    except ValueError as error:
        raise Malformed(str(error)) from None
    if not isinstance(told, dict):
        raise Malformed("a frame without an object")
    return Frame(told, memoryview(whole)[values_at:])


class _Values:
    """A frame's values, taken one after the other."""

    def __init__(self, values: memoryview) -> None:
        self._values = values
        self._at = 0

    def take(self, length: int) -> bytes:
        start, self._at = self._at, self._at + length
        if length < 0 or self._at > len(self._values):
            raise Malformed("a value that is not there")
        return bytes(self._values[start : self._at])


# questions -------------------------------------------------------------------------------------------------

MAX_QUESTION_JSON_BYTES: Final = 2 * MAX_TRANSACTION_BYTES
"""Bytes of a question's JSON: the keys of a transaction, which count twice in its bound, escaped."""


def question(number: int, do: str, **details: Any) -> bytes:
    """What is asked for, but for a transaction."""
    return pack({"id": number, "do": do, **details})


def transaction(number: int, step: Transaction) -> bytes:
    """A transaction that is asked for."""
    told = {
        "id": number,
        "do": "transact",
        "compares": [[one.key, one.mod_revision] for one in step.compares],
        "puts": [[key, len(value)] for key, value in step.puts.items()],
        "deletes": list(step.deletes),
        "lease": step.lease,
    }
    return pack(told, step.puts.values())


def puts_in(frame: Frame) -> dict[str, bytes]:
    """What a transaction puts. Raises Malformed, KeyError, TypeError, ValueError."""
    values = _Values(frame.values)
    return {str(key): values.take(int(length)) for key, length in frame.told["puts"]}


# what is told ----------------------------------------------------------------------------------------------


def all_entries(entries: Sequence[Entry], revision: int) -> Iterator[bytes]:
    """All that there is, in frames."""
    piece: list[Entry] = []
    size = 0
    for entry in entries:
        piece.append(entry)
        size += len(entry.key) + len(entry.value)
        if size >= PIECE_BYTES:
            yield _entries(piece, revision, more=True)
            piece, size = [], 0
    yield _entries(piece, revision, more=False)


def _entries(entries: Sequence[Entry], revision: int, *, more: bool) -> bytes:
    rows = [[one.key, one.create_revision, one.mod_revision, one.lease, len(one.value)] for one in entries]
    return pack({"entries": rows, "revision": revision, "more": more}, (one.value for one in entries))


def entries_in(frame: Frame) -> list[Entry]:
    """Raises Malformed, KeyError, TypeError, ValueError."""
    values = _Values(frame.values)
    return [
        Entry(key, values.take(length), created, modified, lease)
        for key, created, modified, lease, length in frame.told["entries"]
    ]


def changes(plan: Plan) -> bytes:
    """What one commit has changed."""
    rows: list[list[Any]] = []
    for change in plan.changes:
        entry = plan.entries[change.key]
        # Of what the same commit has changed again the lease does not matter: nobody sees it.
        lease = entry.lease if entry is not None and entry.mod_revision == change.revision else 0
        length = None if change.value is None else len(change.value)
        rows.append([change.revision, change.key, length, lease])
    values = (change.value for change in plan.changes if change.value is not None)
    return pack({"changes": rows, "revision": plan.revision}, values)


def plan_in(frame: Frame, mirror: Mirror) -> Plan:
    """The same, as what it does to a mirror. Raises Malformed, KeyError, TypeError, ValueError."""
    values = _Values(frame.values)
    plan = Plan(int(frame.told["revision"]))
    for revision, key, length, lease in frame.told["changes"]:
        value = None if length is None else values.take(length)
        plan.changes.append(Change(revision, key, value))
        if value is None:
            plan.entries[key] = None
            continue
        before = plan.entries[key] if key in plan.entries else mirror.get(key)
        created = revision if before is None else before.create_revision
        plan.entries[key] = Entry(key, value, created, revision, lease)
    return plan
