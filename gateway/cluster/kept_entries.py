"""Which of the catalog's entries stores keep a copy of, and how that is cut into messages. Pure.

Kept is what nobody else knows: stores learn of segments by OPEN, CLOSE and DELETE, and say of them what they
have themselves. So segments and the notes about them (`/segments/`, `/closing/`, `/compacting/`, `/dropped/`,
`/left-over/`, `/replacing/`) are not kept; who leads what (`/slots/`, `/preferred/`) is decided anew. A log
that has no segment has its end and its producers in `/partitions/` and `/producers/`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.catalog import keys
from wireproto.dafka.additions import PIECE_BYTES
from wireproto.dafka.fields import MAX_LIST_ENTRIES

if TYPE_CHECKING:
    from gateway.catalog.interface import Change

KEPT_PREFIXES: Final = (
    keys.TOPICS,
    keys.PARTITIONS,
    keys.BROKER_CONFIGS,
    keys.PRODUCERS,
    keys.PRODUCER_IDS,
    keys.LEADER_EPOCH,
    keys.STORES,
    keys.TOMBSTONES,
    keys.LINEAGE,
    keys.LIVES,
    keys.LIVES_BEFORE,
    keys.FEATURES,
    keys.ACLS,
    keys.QUOTAS,
    keys.SCRAM,
    keys.SCRAM_SECRET,
    keys.TOKENS,
    keys.NATIVE,
)
"""What the keys begin with."""


QUIET_PREFIXES: Final = (keys.STORE_LIVES,)
"""What a gateway notes because its stores have written: no news by itself, or the catalog and the stores
would keep each other busy for ever. It is told with the next news."""


class Changes(NamedTuple):
    """What goes from sequence `base` to `sequence`."""

    base: int
    sequence: int
    puts: Mapping[str, bytes]
    deletes: Sequence[str]


def in_pieces(entries: Iterable[tuple[str, bytes]]) -> Iterator[dict[str, bytes]]:
    """The entries in as many messages as it takes, one at least."""
    piece: dict[str, bytes] = {}
    size = 0
    for key, value in entries:
        if piece and (size + len(key) + len(value) > PIECE_BYTES or len(piece) == MAX_LIST_ENTRIES):
            yield piece
            piece, size = {}, 0
        piece[key] = value
        size += len(key) + len(value)
    yield piece


def changes_in_pieces(changes: Iterable[Change], base: int, sequence: int) -> list[Changes] | None:
    """The changes after `base`, all up to `sequence`, in pieces that end with a transaction each.

    None if a transaction is too large for one: then the whole copy is sent anew.
    """
    pieces: list[Changes] = []
    values: dict[str, bytes | None] = {}
    size, last = 0, base
    for revision, its in _transactions(changes):
        its_size = sum(len(key) + len(value or b"") for key, value in its.items())
        if its_size > PIECE_BYTES or len(its) > MAX_LIST_ENTRIES:
            return None
        if size + its_size > PIECE_BYTES or len(values) + len(its) > MAX_LIST_ENTRIES:
            pieces.append(_piece(base, last, values))
            values, size, base = {}, 0, last
        values |= its
        size += its_size
        last = revision
    pieces.append(_piece(base, sequence, values))
    return pieces


def _transactions(changes: Iterable[Change]) -> Iterator[tuple[int, dict[str, bytes | None]]]:
    """(revision, what it left of the keys that are kept) of those that changed some."""
    revision, values = -1, dict[str, bytes | None]()
    for change in changes:
        if change.key.startswith(KEPT_PREFIXES):
            if change.revision != revision and values:
                yield revision, values
                values = {}
            revision = change.revision
            values[change.key] = change.value
    if values:
        yield revision, values


def _piece(base: int, sequence: int, values: Mapping[str, bytes | None]) -> Changes:
    puts = {key: value for key, value in values.items() if value is not None}
    return Changes(base, sequence, puts, tuple(key for key, value in values.items() if value is None))
