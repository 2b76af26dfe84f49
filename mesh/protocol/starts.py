"""The starts of one store: a nonce for each, and the number of the last commit that each of them made.

A store's database counts its commits. A copy of it that is put back later has fewer of them, and starts that
the original has had are missing from it, or ended earlier: so whoever remembers the nonce of a start and the
number of a commit of it can tell whether a store still has all that it had then (`mesh.protocol.vouching`).
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

NONCE_BYTES = 8
"""A start's nonce: the sixteen hex characters that the store's own requests begin with, as bytes."""

MAX_STARTS = 16384
"""Starts that are kept, the latest. Who remembers an earlier one takes the store for one that never had it.

So many, since a store that cannot serve (its port is taken) is started again and again, and nobody hears of
it: with two seconds for each, that is nine hours.
"""

_START = struct.Struct(f">{NONCE_BYTES}sq")


class Start(NamedTuple):
    """One start, and the number of the last commit that it made; of the one that is under way, as far as the
    disk has it.
    """

    nonce: bytes
    last_commit: int


def pack_starts(starts: Sequence[Start]) -> bytes:
    """As the database keeps them, the latest last."""
    return b"".join([_START.pack(*start) for start in starts])


def unpack_starts(value: bytes) -> tuple[Start, ...]:
    """The reverse of `pack_starts`. Raises struct.error."""
    return tuple(Start(*start) for start in _START.iter_unpack(value))


def begun(starts: Sequence[Start], nonce: bytes, commit: int) -> tuple[Start, ...]:
    """The starts with another one, whose first commit so far has number `commit`; the one before it has ended
    with the commit before that.
    """
    ended = [*starts[:-1], starts[-1]._replace(last_commit=commit - 1)] if starts else []
    return (*ended, Start(nonce, commit))[-MAX_STARTS:]


def last_commit_of(starts: Sequence[Start], nonce: bytes) -> int:
    """The last commit of the start with this nonce; -1 if it is none of these."""
    return next((start.last_commit for start in reversed(starts) if start.nonce == nonce), -1)
