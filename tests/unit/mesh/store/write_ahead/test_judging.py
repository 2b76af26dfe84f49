"""Which end of a log is torn and which is a loss, case by case."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from mesh.store.write_ahead.entries import Entry
from mesh.store.write_ahead.judging import judge
from mesh.store.write_ahead.reading import End, ReadFile

HERE = Path("log")


def file(
    name: str, first: int, last: int, *, end: End = "none", behind: str = "", fsynced: int = 0
) -> ReadFile:
    """Commits `first` to `last`, each of ten bytes; `behind`: numbers of whole ones further on."""
    at = range(28, 28 + 10 * (last - first + 1), 10)
    entries = tuple(
        Entry(start, start + 10, number, fsynced)
        for start, number in zip(at, range(first, last + 1), strict=True)
    )
    end_at = 28 + 10 * len(entries)
    entries += tuple(
        Entry(end_at + 10 * place, end_at + 10 * place + 10, int(number), fsynced)
        for place, number in enumerate(behind.split(), 1)
    )
    end_at = entries[-1].end if entries else 28
    return ReadFile(HERE / name, first, entries, end_at, end, end_at + (8 if end == "torn" else 0))


class Case(NamedTuple):
    files: list[ReadFile]
    tables: int
    mark: int
    replayed: list[int]
    last: int
    kind: str
    file: str = ""
    offset: int = 0
    behind: int = 0


CASES = {
    "nothing": Case([], 0, 0, [], 0, "none"),
    "all in tables": Case([file("1", 1, 9)], 9, 9, [], 9, "none"),
    "tables ahead of the log": Case([file("1", 1, 8)], 9, 8, [], 9, "none"),
    "a part in tables": Case([file("1", 1, 9)], 4, 9, [5, 6, 7, 8, 9], 9, "none"),
    "two files": Case([file("2", 1, 4), file("1", 5, 7)], 2, 7, [3, 4, 5, 6, 7], 7, "none"),
    "an older file is no part of it": Case([file("1", 1, 3), file("2", 8, 9)], 7, 9, [8, 9], 9, "none"),
    "a torn end": Case([file("1", 1, 4, end="torn")], 2, 4, [3, 4], 4, "torn", "1", 68, 8),
    "a torn end that was acknowledged": Case(
        [file("1", 1, 4, end="torn")], 2, 5, [3, 4], 4, "corrupt", "1", 68, 8
    ),
    "an end that is gone": Case([file("1", 1, 4)], 2, 5, [3, 4], 4, "corrupt", "1", 68),
    "a hole that a later one names": Case(
        [file("1", 1, 4, behind="6 7", fsynced=5)], 2, 0, [3, 4], 4, "corrupt", "1", 68, 30
    ),
    "a hole that nobody names": Case(
        [file("1", 1, 4, behind="6 7", fsynced=4)], 2, 4, [3, 4], 4, "torn", "1", 68, 30
    ),
    "a hole that is in tables": Case(
        [file("1", 1, 4, behind="6 7", fsynced=5), file("2", 8, 9)], 7, 9, [8, 9], 9, "none"
    ),
    "a damaged commit that is in tables": Case(
        [file("1", 1, 4, behind="6 7 8", fsynced=8)], 5, 8, [6, 7, 8], 8, "none"
    ),
    "two files that begin with the same commit": Case(
        [file("1", 4, 3), file("2", 4, 6, fsynced=6)], 3, 6, [4, 5, 6], 6, "none"
    ),
    "a torn end that is in tables": Case([file("1", 8, 7, end="torn")], 8, 8, [], 8, "none"),
    "a file that is gone": Case([file("1", 1, 4), file("3", 8, 9)], 4, 0, [], 4, "torn", "1", 68, 48),
    "a file that is gone, and was acknowledged": Case(
        [file("1", 1, 4), file("3", 8, 9, fsynced=7)], 4, 0, [], 4, "corrupt", "1", 68, 48
    ),
    "all files are gone": Case([], 4, 9, [], 4, "corrupt", "", 0),
    "an empty file that was begun": Case(
        [file("1", 1, 4), file("2", 5, 4, end="torn")], 2, 4, [3, 4], 4, "torn", "2", 28, 8
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_replayed_and_what_is_missing(name: str) -> None:
    case = CASES[name]
    verdict = judge(HERE, case.files, case.tables, case.mark)
    assert [entry.number for _, entry in verdict.replayed] == case.replayed
    assert (verdict.last, verdict.kind) == (case.last, case.kind)
    if case.kind != "none":
        assert (verdict.file, verdict.offset) == (HERE / case.file if case.file else HERE, case.offset)
        assert verdict.bytes_behind == case.behind
        assert f"{verdict.file} is {case.kind} from byte {case.offset} on" in verdict.cause


def test_the_words_say_what_is_missing() -> None:
    case = CASES["a hole that a later one names"]
    assert judge(HERE, case.files, case.tables, case.mark).cause == (
        "log/1 is corrupt from byte 68 on: the log went to commit 5 at least, and commit 5 cannot be read, "
        "with 2 whole ones behind it (30 bytes to the end of the log)"
    )
    case = CASES["a hole that nobody names"]
    assert (
        "commit 5 is not whole, and 2 whole ones behind it are witnessed by nothing, either"
        in judge(HERE, case.files, case.tables, case.mark).cause
    )
