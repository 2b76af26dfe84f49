"""A checker that has never found anything is not trusted: each promise broken by hand, each seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.checker import check
from tests.faults.history import Event, History, Operation, Result, Seen, Sent, Watermark


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
    "acknowledged, seen only before the fault": ([sent(0), acked(0, 0), seen(0, 0, reader="tail")], {"lost"}),
    "acknowledged at another offset": (
        [sent(0), sent(1), acked(1, 0), seen(0, 0), seen(1, 1)],
        {"lost", "inconsistent offset"},
    ),
    "in the middle lost": (
        [sent(0), sent(1), sent(2), acked(0, 0), acked(1, 1), acked(2, 2), seen(0, 0), seen(2, 2)],
        {"lost", "offsets not dense"},
    ),
    "twice": ([sent(0), acked(0, 0), seen(0, 0), seen(0, 1)], {"duplicate"}),
    "twice in two partitions": (
        [sent(0), acked(0, 0), seen(0, 0), seen(0, 0, partition=1)],
        {"duplicate", "wrong partition"},
    ),
    "other content": ([sent(0), acked(0, 0), seen(0, 0, digest="digest 1")], {"wrong content"}),
    "damaged content": ([sent(0), acked(0, 0), seen(0, 0, digest="")], {"wrong content"}),
    "never sent": ([seen(0, 0)], {"never sent"}),
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
    "not from the start": ([sent(0), seen(0, 1)], {"offsets not dense"}),
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
        {"offsets not dense"},
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
        {"offsets not dense"},
    ),
    "watermark back": (
        [sent(0), sent(1), Watermark(0, 2), Watermark(0, 1), seen(0, 0), seen(1, 1)],
        {"watermark went back"},
    ),
    "shorter than the watermark": (
        [sent(0), sent(1), Watermark(0, 2), seen(0, 0)],
        {"unread below the watermark"},
    ),
    "reordered": ([sent(0), sent(1), seen(1, 0), seen(0, 1)], {"reordered"}),
}


@pytest.mark.parametrize("name", BAD)
def test_a_broken_promise_is_found(name: str) -> None:
    history, kinds = BAD[name]
    assert {problem.kind for problem in check(history)} == kinds


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
