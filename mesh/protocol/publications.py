"""What a store may show native readers of partitions whose values are native records. Pure.

Rule: a record is shown only when the partition's leader has told that it may be: each piece that it tells is
durable on as many stores as count, and holds no record of a transaction that is still open. What a piece
says is true for good, so an old one can be late, twice or of a leader that is none any more: it shows less
than there is, until the next one comes, and never anything else.

Theory of operation: a leader tells every member of a segment the piece of the partition that lies in it,
again when the piece grows and some times a minute, and which member is to answer. That one answers a FETCH at
once and says how far the partition goes; the others answer when the same is asked again, as by a reader that
had no answer. A piece that nobody tells any more is forgotten after `PIECE_SECONDS`. Nothing of this is on
the disk: whoever leads the partition tells a store that has started.
"""

import math
from bisect import bisect_left, bisect_right, insort_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter

from mesh.protocol.published_address import is_published
from wireproto.dafka.additions import STATUS_DONE, STATUS_NOT_HERE, PublishEntry
from wireproto.dafka.messages import Fetch

PIECE_SECONDS = 40.0
"""How long a piece is shown that nobody tells: leaders tell everything four times as often."""

MAX_PUBLICATIONS = 10_000
"""Partitions of which one store shows something."""

MAX_PIECES = 100_000
"""Pieces that one store shows, of all partitions."""

MAX_ABORTED = 1_000_000
"""Aborted transactions that one store remembers for them."""

MAX_UNANSWERED = 4_096
"""FETCHes that others are to answer, remembered in case they do not; the oldest go first."""

PATIENCE_SECONDS = 0.25
"""How long the store that is to answer has for it, before another one does that is asked again."""

HEAD_SECONDS = 1.0
"""How often readers are told how far a partition goes that has grown within `FRESH_SECONDS`: C's ask for a
record once a second, and only when they hear something."""

FRESH_SECONDS = 10.0
"""After so long without news of a partition readers are told as seldom."""

_LOOKED_BACK = 8
"""Pieces before the one that begins last that may hold an offset, where some of them overlap."""


@dataclass(slots=True)
class Publication:
    """One partition. `start` is its first offset that is there."""

    address: str
    subject: str
    start: int = 0
    head_due: float = 0.0
    """When readers are told of its head again."""
    grown: float = 0.0
    """When it grew."""
    aborted: int = 0
    """Aborted transactions of all pieces."""
    _told: dict[str, tuple[PublishEntry, float]] = field(default_factory=dict)
    """Piece -> the piece, and when it was told last."""
    _order: list[PublishEntry] | None = None

    def __len__(self) -> int:
        return len(self._told)

    @property
    def head(self) -> int:
        """The last offset that may be shown, as far as this store was told; -1 for none."""
        pieces = self._pieces()
        return max((entry.last for entry in pieces[-_LOOKED_BACK:]), default=-1)

    @property
    def answers_at_head(self) -> bool:
        """Whether this store is to say how far the partition goes."""
        pieces = self._pieces()
        return bool(pieces) and pieces[-1].answers

    def known(self, piece: str) -> PublishEntry | None:
        """A piece as it was told last."""
        told = self._told.get(piece)
        return None if told is None else told[0]

    def piece_at(self, offset: int) -> PublishEntry | None:
        """The piece that holds an offset; None: it is not here."""
        pieces = self._pieces()
        place = bisect_right(pieces, offset, key=attrgetter("first"))
        for entry in reversed(pieces[max(0, place - _LOOKED_BACK) : place]):
            if offset <= entry.last:
                return entry
        return None

    def put(self, entry: PublishEntry, now: float) -> None:
        """A piece was told."""
        known = self.known(entry.piece)
        self._told[entry.piece] = entry, now
        self.start = max(self.start, entry.start)
        self.aborted += len(entry.aborted) - (0 if known is None else len(known.aborted))
        if self._order is None or (known is not None and known.first != entry.first):
            self._order = None
        elif known is None:
            insort_right(self._order, entry, key=attrgetter("first"))
        else:
            place = bisect_left(self._order, entry.first, key=attrgetter("first"))
            while self._order[place] is not known:
                place += 1
            self._order[place] = entry

    def renew(self, piece: str, now: float) -> None:
        """A piece that is known, if it is, is told as it was."""
        known = self.known(piece)
        if known is not None:
            self._told[piece] = known, now

    def drop(self, piece: str) -> None:
        """A piece is not shown any more."""
        told = self._told.pop(piece, None)
        if told is not None:
            self.aborted -= len(told[0].aborted)
            self._order = None

    def drop_before(self, told: float) -> None:
        """Nor are those that were told before this."""
        for piece, (_, when) in list(self._told.items()):
            if when < told:
                self.drop(piece)

    def _pieces(self) -> list[PublishEntry]:
        if self._order is None:
            told = sorted(self._told.values(), key=lambda one: (one[0].first, one[1]))
            self._order = [entry for entry, _ in told]
        return self._order


class Publications:
    """Of one store."""

    def __init__(self) -> None:
        self.refused = 0
        """Pieces for which there was no room."""
        self._of: dict[str, Publication] = {}
        self._pieces = 0
        self._aborted = 0
        self._unanswered: dict[tuple[str, str], tuple[int, float]] = {}

    def __len__(self) -> int:
        return len(self._of)

    def __contains__(self, address: str) -> bool:
        return address in self._of

    def get(self, address: str) -> Publication | None:
        return self._of.get(address)

    def heads(self, subject: str) -> list[tuple[str, int]]:
        """(address, head) of exactly this subject."""
        return [
            (one.address, one.head) for one in self._of.values() if one.subject == subject and one.head >= 0
        ]

    def told(self, entry: PublishEntry, now: float) -> int:
        """A leader tells a piece, or with `last` -1 that it is none any more: the status to answer."""
        publication = self._of.get(entry.address)
        if not is_published(entry.address):
            self.refused += 1
            return STATUS_NOT_HERE
        if entry.last < 0:
            if publication is not None:
                self._change(publication, partial(publication.drop, entry.piece))
            return STATUS_DONE
        if publication is not None and publication.subject != entry.subject:
            self._change(publication, partial(publication.drop_before, math.inf))
            publication = None
        if not self._has_room(publication, entry):
            self.refused += 1
            if publication is not None:
                publication.renew(entry.piece, now)
            return STATUS_NOT_HERE
        if publication is None:
            publication = self._of[entry.address] = Publication(entry.address, entry.subject, grown=now)
        before = publication.head
        self._change(publication, partial(publication.put, entry, now))
        if publication.head > before:
            publication.grown = publication.head_due = now
        return STATUS_DONE

    def _has_room(self, publication: Publication | None, entry: PublishEntry) -> bool:
        known = None if publication is None else publication.known(entry.piece)
        aborted = self._aborted + len(entry.aborted) - (0 if known is None else len(known.aborted))
        return (
            (publication is not None or len(self._of) < MAX_PUBLICATIONS)
            and (known is not None or self._pieces < MAX_PIECES)
            and aborted <= MAX_ABORTED
        )

    def _change(self, publication: Publication, change: Callable[[], None]) -> None:
        self._pieces -= len(publication)
        self._aborted -= publication.aborted
        change()
        self._pieces += len(publication)
        self._aborted += publication.aborted
        if not len(publication):
            self._of.pop(publication.address, None)

    def expire(self, now: float) -> None:
        """Forget what nobody has told for long."""
        for publication in list(self._of.values()):
            self._change(publication, partial(publication.drop_before, now - PIECE_SECONDS))

    def heads_due(self, now: float, addresses: Iterable[str] | None = None) -> list[Publication]:
        """The partitions, of these or of all, of which readers are to be told now how far they go."""
        wanted = self._of.values() if addresses is None else map(self._of.get, addresses)
        due = [one for one in wanted if one is not None and now >= one.head_due and one.answers_at_head]
        for one in due:
            one.head_due = now + (HEAD_SECONDS if now < one.grown + FRESH_SECONDS else FRESH_SECONDS)
        return due

    def answers(self, fetch: Fetch, now: float) -> bool:
        """Whether this store answers a FETCH: what is asked for may be shown, and it is this store that is to
        do so, or the same was asked some time before.
        """
        publication = self._of.get(fetch.address)
        piece = None if publication is None else publication.piece_at(fetch.sequence)
        if publication is None or piece is None or publication.subject != fetch.subject:
            return False
        key = fetch.requester, fetch.address
        sequence, since = self._unanswered.pop(key, (-1, 0.0))
        if piece.answers or (sequence == fetch.sequence and now >= since + PATIENCE_SECONDS):
            return True
        self._unanswered[key] = fetch.sequence, since if sequence == fetch.sequence else now
        if len(self._unanswered) > MAX_UNANSWERED:
            del self._unanswered[next(iter(self._unanswered))]
        return False
