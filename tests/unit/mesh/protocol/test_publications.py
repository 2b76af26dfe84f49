"""What a store may show of partitions: what leaders told, in whatever order that comes, within bounds."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.protocol import publications
from mesh.protocol.native_resends import OURS
from mesh.protocol.publications import (
    FRESH_SECONDS,
    HEAD_SECONDS,
    PATIENCE_SECONDS,
    PIECE_SECONDS,
    Publications,
)
from mesh.protocol.published_address import is_published, published_address
from wireproto.dafka.additions import STATUS_DONE, STATUS_NOT_HERE, AbortedSpan, PublishEntry
from wireproto.dafka.messages import Fetch

ADDRESS = published_address(bytes(16), 3)
SPAN = AbortedSpan(7, 1, 2)


def piece(
    first: int,
    last: int,
    segment: str = "S",
    *,
    start: int = 0,
    answers: bool = True,
    aborted: tuple[AbortedSpan, ...] = (),
) -> PublishEntry:
    return PublishEntry(
        f"{segment}.{first}", ADDRESS, "t.values", segment, first, last, start, answers, aborted
    )


def fetch(sequence: int, requester: str = "R", subject: str = "t.values") -> Fetch:
    return Fetch(ADDRESS, requester, subject, sequence, 10)


def told(*pieces: PublishEntry) -> Publications:
    found = Publications()
    for number, one in enumerate(pieces):
        assert found.told(one, float(number)) == STATUS_DONE
    return found


def segment_at(found: Publications, offset: int) -> str | None:
    publication = found.get(ADDRESS)
    at = None if publication is None else publication.piece_at(offset)
    return None if at is None else at.segment


def test_an_address_is_one_that_nobody_else_makes() -> None:
    assert is_published(ADDRESS)
    assert ADDRESS == "dafka-topic-" + "0" * 32 + "-3"
    assert ADDRESS.startswith(OURS), "it may be asked for freely"
    assert not is_published("d" + "a" * 31)


def test_each_offset_is_in_the_piece_that_holds_it() -> None:
    found = told(piece(0, 9, "A"), piece(10, 10, "B"), piece(20, 29, "C"))
    assert [segment_at(found, offset) for offset in (0, 9, 10, 11, 19, 20, 29, 30)] == [
        "A", "A", "B", None, None, "C", "C", None,
    ]  # fmt: skip
    assert found.heads("t.values") == [(ADDRESS, 29)]
    assert found.heads("t") == []
    assert found.heads("t.values2") == []


def test_what_took_the_place_of_others_is_asked_first() -> None:
    """A compaction made one segment of two; what was told of them is forgotten later, or comes late."""
    found = told(piece(0, 9, "A"), piece(10, 19, "B"), piece(0, 19, "AB"))
    assert [segment_at(found, offset) for offset in (0, 5, 19)] == ["AB", "AB", "B"]
    found.told(piece(10, -1, "B"), 4.0)
    assert segment_at(found, 19) == "AB"
    found.told(piece(0, 9, "A"), 5.0)
    assert segment_at(found, 15) == "AB"


def test_what_was_told_last_counts() -> None:
    """Only where an operator has accepted a loss does a log end earlier than it did."""
    found = told(piece(0, 9, aborted=(SPAN,)), piece(10, 19, "B"), piece(0, 4))
    publication = found.get(ADDRESS)
    assert publication is not None
    assert (publication.head, publication.aborted) == (19, 0)
    assert [segment_at(found, offset) for offset in (4, 5, 10)] == ["S", None, "B"]


def test_nobody_tells_of_what_natives_publish() -> None:
    found = Publications()
    assert found.told(piece(0, 9)._replace(address="d" + "a" * 31), 0.0) == STATUS_NOT_HERE
    assert len(found) == 0


def test_the_log_start_only_moves_on() -> None:
    found = told(piece(0, 9, start=5), piece(10, 19, "B", start=3))
    publication = found.get(ADDRESS)
    assert publication is not None
    assert publication.start == 5


def test_who_is_to_answer_does_and_another_one_when_asked_again() -> None:
    found = told(piece(0, 9), piece(10, 19, "B", answers=False))
    assert found.answers(fetch(0), 0.0)
    assert not found.answers(fetch(12), 1.0)
    assert not found.answers(fetch(12, "another"), 2.0), "it asks for the first time"
    assert not found.answers(fetch(12), 1.0 + PATIENCE_SECONDS / 2), "the answer may be on its way"
    assert found.answers(fetch(12), 1.0 + PATIENCE_SECONDS)
    assert not found.answers(fetch(12), 3.0), "that was answered: this is a new question"
    assert not found.answers(fetch(13), 5.0), "of something else"
    assert not found.answers(fetch(20), 5.0), "it is not here"
    assert not found.answers(fetch(20), 7.0)
    assert not found.answers(fetch(0, subject="t"), 7.0)


def test_questions_for_others_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publications, "MAX_UNANSWERED", 2)
    found = told(piece(0, 9, answers=False))
    for requester in "abc":
        assert not found.answers(fetch(0, requester), 0.0)
    assert [found.answers(fetch(0, requester), 1.0) for requester in "bca"] == [True, True, False]


def test_what_nobody_tells_is_forgotten() -> None:
    found = Publications()
    found.told(piece(0, 9, "A"), 0.0)
    found.told(piece(10, 19, "B", aborted=(SPAN,)), 5.0)
    found.expire(PIECE_SECONDS)
    assert segment_at(found, 0) == "A"
    found.expire(PIECE_SECONDS + 1)
    assert (segment_at(found, 0), segment_at(found, 10)) == (None, "B")
    found.expire(PIECE_SECONDS + 6)
    assert (len(found), found.get(ADDRESS), ADDRESS in found) == (0, None, False)
    assert (found._pieces, found._aborted) == (0, 0)


def test_another_subject_begins_anew() -> None:
    found = told(piece(0, 9, "A"))
    found.told(piece(10, 19, "B")._replace(subject="u"), 1.0)
    assert (found.heads("t.values"), found.heads("u")) == ([], [(ADDRESS, 19)])
    assert segment_at(found, 0) is None


@dataclass
class Bound:
    name: str
    first: PublishEntry
    refused: PublishEntry
    fits: PublishEntry


OTHER = published_address(bytes(16), 4)
BOUNDS = [
    Bound("MAX_PUBLICATIONS", piece(0, 9), piece(0, 9, "B")._replace(address=OTHER), piece(10, 19, "B")),
    Bound("MAX_PIECES", piece(0, 9), piece(10, 19, "B"), piece(0, 10)),
    Bound("MAX_ABORTED", piece(0, 9), piece(10, 19, "B", aborted=(SPAN, SPAN)), piece(0, 9, aborted=(SPAN,))),
]


@pytest.mark.parametrize("bound", BOUNDS, ids=lambda bound: bound.name)
def test_there_is_room_for_so_much(monkeypatch: pytest.MonkeyPatch, bound: Bound) -> None:
    monkeypatch.setattr(publications, bound.name, 1)
    found = told(bound.first)
    assert found.told(bound.refused, 1.0) == STATUS_NOT_HERE
    assert found.refused == 1
    assert found.told(bound.fits, 2.0) == STATUS_DONE
    assert found.told(bound.refused._replace(last=-1, aborted=()), 3.0) == STATUS_DONE, "it goes"


def test_readers_hear_of_the_head_when_it_grows_and_then_less_and_less() -> None:
    found = told(piece(0, 9))
    assert [one.head for one in found.heads_due(0.0)] == [9]
    assert not found.heads_due(HEAD_SECONDS - 0.1)
    found.told(piece(0, 10), 0.5)
    assert [one.head for one in found.heads_due(0.5)] == [10]
    found.told(piece(0, 10), 0.6)
    assert not found.heads_due(0.6), "nothing new"
    assert found.heads_due(0.5 + HEAD_SECONDS)
    later = 0.5 + FRESH_SECONDS
    assert found.heads_due(later)
    assert not found.heads_due(later + HEAD_SECONDS)
    assert found.heads_due(later + FRESH_SECONDS)


def test_another_store_tells_the_head() -> None:
    found = told(piece(0, 9), piece(10, 19, "B", answers=False))
    assert not found.heads_due(1.0)
    found.told(piece(10, 19, "B"), 2.0)
    assert found.heads_due(2.0)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-1, 12), st.integers(0, 2)), max_size=30))
def test_counts_are_those_of_what_is_there(events: list[tuple[int, int, int]]) -> None:
    found = Publications()
    for now, (number, last, spans) in enumerate(events):
        one = piece(number, max(last, number) if last >= 0 else -1, f"S{number}", aborted=(SPAN,) * spans)
        found.told(one, float(now))
        if now % 7 == 6:
            found.expire(now + PIECE_SECONDS - 5)
        publication = found.get(ADDRESS)
        entries = [] if publication is None else publication._pieces()
        assert found._pieces == len(entries)
        assert found._aborted == sum(len(entry.aborted) for entry in entries)
        assert [entry.first for entry in entries] == sorted(entry.first for entry in entries)
        assert (publication is None) == (not entries)
