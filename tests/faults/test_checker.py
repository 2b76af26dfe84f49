"""A checker that has never found anything is not trusted: each promise broken by hand, each seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.checker import check, members_differ
from tests.faults.history import (
    Asked,
    Epoch,
    Event,
    History,
    Led,
    Operation,
    Result,
    Seen,
    Sent,
    Watermark,
)


def sent(number: int, partition: int = 0, producer: str = "p") -> Sent:
    return Sent(producer, number, partition, f"digest {number}")


def acked(number: int, offset: int, producer: str = "p") -> Result:
    return Result(producer, number, "ok", offset)


def seen(
    number: int,
    offset: int,
    partition: int = 0,
    producer: str = "p",
    digest: str | None = None,
    reader: str = "end",
) -> Seen:
    return Seen(partition, offset, producer, number, f"digest {number}" if digest is None else digest, reader)


GOOD: list[Operation] = [
    sent(0),
    sent(1),
    sent(2, partition=1),
    sent(3),
    sent(4),
    acked(0, 0),
    Watermark(0, 1),
    seen(0, 0, reader="tail"),
    Event("killed"),
    acked(1, 1),
    Result("p", 3, "unknown"),
    acked(2, 0),
    Watermark(0, 2),
    Result("p", 4, "fail"),
    Watermark(0, 2),
    Watermark(1, 1),
    seen(1, 1, reader="tail"),
    seen(0, 0),
    seen(1, 1),
    seen(3, 2),
    seen(2, 0, partition=1),
]


def test_a_good_history() -> None:
    assert check(GOOD) == []


def test_an_unknown_record_may_be_missing() -> None:
    assert check([one for one in GOOD if one != seen(3, 2)]) == []


BAD: dict[str, tuple[list[Operation], set[str]]] = {
    "acknowledged, not there": ([sent(0), acked(0, 0)], {"lost"}),
    "acknowledged without an offset, not there": ([sent(0), acked(0, -1)], {"lost"}),
    "acknowledged, seen only before the fault": ([sent(0), acked(0, 0), seen(0, 0, reader="tail")], {"lost"}),
    "acknowledged at another offset": (
        [sent(0), sent(1), acked(1, 0), seen(0, 0), seen(1, 1)],
        {"lost", "inconsistent offset"},
    ),
    "in the middle lost": (
        [sent(0), sent(1), sent(2), acked(0, 0), acked(1, 1), acked(2, 2), seen(0, 0), seen(2, 2)],
        {"lost", "skipped"},
    ),
    "twice": ([sent(0), acked(0, 0), seen(0, 0), seen(0, 1)], {"duplicate"}),
    "twice in two partitions": (
        [sent(0), acked(0, 0), seen(0, 0), seen(0, 0, partition=1)],
        {"duplicate", "wrong partition"},
    ),
    "other content": ([sent(0), acked(0, 0), seen(0, 0, digest="digest 1")], {"wrong content"}),
    "damaged content": ([sent(0), acked(0, 0), seen(0, 0, digest="")], {"wrong content"}),
    "never sent": ([seen(0, 0)], {"phantom"}),
    "acknowledged but never sent": ([acked(0, 0)], {"acknowledged but never sent", "lost"}),
    "refused but there": ([sent(0), Result("p", 0, "fail"), seen(0, 0)], {"refused but there"}),
    "one offset, two records": (
        [sent(0), sent(1), seen(0, 0, reader="tail"), seen(1, 0)],
        {"inconsistent offset"},
    ),
    "two acknowledgements of one offset": (
        [sent(0), sent(1), acked(0, 0), acked(1, 0), seen(0, 0)],
        {"inconsistent offset", "lost"},
    ),
    "not from the start": ([sent(0), seen(0, 1)], {"skipped"}),
    "a tail that jumps": (
        [
            sent(0),
            sent(1),
            sent(2),
            seen(0, 0, reader="tail"),
            seen(2, 2, reader="tail"),
            seen(0, 0),
            seen(1, 1),
            seen(2, 2),
        ],
        {"skipped"},
    ),
    "a tail that goes back": (
        [
            sent(0),
            sent(1),
            seen(0, 0, reader="t"),
            seen(1, 1, reader="t"),
            seen(0, 0, reader="t"),
            seen(0, 0),
            seen(1, 1),
        ],
        {"non-monotonic"},
    ),
    "watermark back": (
        [sent(0), sent(1), Watermark(0, 2), Watermark(0, 1), seen(0, 0), seen(1, 1)],
        {"high watermark back"},
    ),
    "shorter than the watermark": (
        [sent(0), sent(1), Watermark(0, 2), seen(0, 0)],
        {"unread below the watermark"},
    ),
    "a read that turns back once": (
        [sent(0), sent(1), seen(0, 0), seen(1, 1), seen(0, 0)],
        {"non-monotonic"},
    ),
    "reordered": ([sent(0), sent(1), seen(1, 0), seen(0, 1)], {"reordered"}),
    "watermark back at another server": (
        [
            sent(0),
            sent(1),
            Asked("a"),
            Watermark(0, 2, "a"),
            Asked("b"),
            Watermark(0, 1, "b"),
            seen(0, 0),
            seen(1, 1),
        ],
        {"high watermark back"},
    ),
    "leader epoch back at one server": ([Epoch(0, 7, "a"), Epoch(0, 6, "a")], {"leader epoch back"}),
    "leader epoch back in the log": (
        [sent(0), sent(1), seen(0, 0), seen(1, 1), Led(0, 0, 7), Led(0, 1, 6)],
        {"leader epoch back"},
    ),
    "a group that leaves one out": (
        [
            sent(0),
            sent(1),
            sent(2),
            seen(0, 0, reader="g/1"),
            seen(2, 2, reader="g/2"),
            seen(0, 0),
            seen(1, 1),
            seen(2, 2),
        ],
        {"unseen"},
    ),
}


GOOD_OF_SEVERAL: dict[str, list[Operation]] = {
    "acknowledged, and the client has not heard where": [sent(0), acked(0, -1), seen(0, 0)],
    "two are asked at once": [
        sent(0),
        sent(1),
        Asked("a"),
        Asked("b"),
        Watermark(0, 2, "a"),
        Watermark(0, 1, "b"),
        seen(0, 0),
        seen(1, 1),
    ],
    "an answer got lost": [
        sent(0),
        Asked("a"),
        Asked("b"),
        Watermark(0, 1, "b"),
        Asked("a"),
        Watermark(0, 1, "a"),
        seen(0, 0),
    ],
    "one has not heard of a new leader yet": [Epoch(0, 7, "a"), Epoch(0, 6, "b"), Epoch(1, 5, "a")],
    "the next leader's log": [sent(0), sent(1), seen(0, 0), seen(1, 1), Led(0, 0, 6), Led(0, 1, 7)],
    "a group reads twice what it has not committed": [
        sent(0),
        sent(1),
        seen(0, 0, reader="g/1"),
        seen(0, 0, reader="g/2"),
        seen(1, 1, reader="g/2"),
        seen(0, 0),
        seen(1, 1),
    ],
}


@pytest.mark.parametrize("name", GOOD_OF_SEVERAL)
def test_what_may_be(name: str) -> None:
    assert check(GOOD_OF_SEVERAL[name]) == []


@pytest.mark.parametrize("name", BAD)
def test_a_broken_promise_is_found(name: str) -> None:
    history, kinds = BAD[name]
    assert {problem.kind for problem in check(history)} == kinds


MEMBERS = {"one": {"A": [b"0", b"1", b"2"], "B": [b"b"]}, "two": {"B": [b"b"], "A": [b"0", b"1", b"2"]}}
DIFFERENT: dict[str, dict[str, list[bytes]]] = {
    "the last record": {"A": [b"0", b"1"], "B": [b"b"]},
    "one more": {"A": [b"0", b"1", b"2", b"3"], "B": [b"b"]},
    "another one in the middle": {"A": [b"0", b"x", b"2"], "B": [b"b"]},
    "two changed places": {"A": [b"1", b"0", b"2"], "B": [b"b"]},
    "an address": {"A": [b"0", b"1", b"2"]},
    "one more address": {"A": [b"0", b"1", b"2"], "B": [b"b"], "C": [b"c"]},
    "everything": {},
}


@pytest.mark.parametrize("name", DIFFERENT)
@pytest.mark.parametrize("first", [False, True])
def test_members_that_differ(name: str, first: bool) -> None:
    wrong = {"three": DIFFERENT[name]}
    contents = wrong | MEMBERS if first else MEMBERS | wrong
    assert {problem.kind for problem in members_differ(contents)} == {"members differ"}


def test_members_that_do_not_differ() -> None:
    """The order of addresses does not count, nor one without records."""
    assert members_differ(MEMBERS | {"three": {**MEMBERS["one"], "C": []}}) == []


def test_members_that_all_have_nothing_are_no_proof() -> None:
    assert members_differ({"one": {}, "two": {"A": []}})


OF_A_HISTORY = {
    "lost",
    "duplicate",
    "inconsistent offset",
    "phantom",
    "non-monotonic",
    "skipped",
    "high watermark back",
    "leader epoch back",
    "unseen",
}
"""What Jepsen's checker looks for, as far as it applies; members that differ are one more."""


@pytest.mark.parametrize("kind", sorted(OF_A_HISTORY))
def test_each_kind_has_a_history_that_shows_it_alone(kind: str) -> None:
    assert [name for name, (_, kinds) in BAD.items() if kinds == {kind}]


def test_without_idempotence_doubles_are_allowed() -> None:
    history, _ = BAD["twice"]
    assert check(history, idempotent=False) == []


def test_each_problem_spoils_the_good_history() -> None:
    """Any acknowledged record left out of the end's read is missed."""
    for number, offset, partition in [(0, 0, 0), (1, 1, 0), (2, 0, 1)]:
        without = [one for one in GOOD if one != seen(number, offset, partition)]
        assert "lost" in {problem.kind for problem in check(without)}


def test_histories_are_kept(tmp_path: Path) -> None:
    history = History()
    history.add(*GOOD)
    history.save(tmp_path / "history.jsonl")
    assert list(History.load(tmp_path / "history.jsonl")) == GOOD
