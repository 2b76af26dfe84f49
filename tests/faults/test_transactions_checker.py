"""The checker of transactions: each promise broken by hand, each seen; and what may be, not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.transactions.checker import ALLOWED, check
from tests.faults.transactions.cycles import cycles
from tests.faults.transactions.history import (
    COMMITTED,
    UNCOMMITTED,
    Acked,
    Asked,
    Begun,
    Closed,
    Ended,
    Ending,
    Event,
    From,
    Known,
    Offsets,
    Operation,
    Polled,
    Read,
    Sending,
    Stable,
    Stored,
    load,
    save,
)

IN, OUT0, OUT1 = "inputs", "copies-g0", "copies-g1"
A, B, C, D = "w-0/1.1/1", "w-0/1.1/2", "w-1/1.1/1", "w-1/1.1/2"
"""Transactions: two of a worker, and two of another one."""

Log = list[tuple[int, str, str]]
"""Offset, value, and how it ended."""


def wrote(name: str, *records: tuple[str, int, str], at: int = 10) -> list[Operation]:
    return [Begun(name, at), Sending(name, list(records), at)]


def ended(name: str, outcome: str = "ok", *, at: int = 20, commit: bool = True) -> list[Operation]:
    return [Ending(name, commit, at), Ended(name, commit, outcome, at + 1)]


def stored(topic: str, partition: int, log: Log) -> Stored:
    end = max((offset for offset, _, _ in log), default=-1) + 2
    return Stored(topic, partition, [(offset, value, "7/0", how) for offset, value, how in log], end)


def reads(reader: str, *records: tuple[str, int, int, str], at: int = 100, first: int = 0) -> list[Operation]:
    """From `first` on in each partition that it sees."""
    isolation = UNCOMMITTED if reader == "uncommitted" else COMMITTED
    places = {(topic, partition): first for topic, partition, _, _ in records}
    begins = [(*place, offset) for place, offset in places.items()]
    return [From(reader, isolation, begins), Read(reader, list(records), at)]


def shown(*logs: Stored) -> list[Operation]:
    """They are stored, and the reader at the end sees what is committed."""
    seen = [(s.topic, s.partition, o, v) for s in logs for o, v, _, how in s.records if how == "commit"]
    return [*logs, *reads("end", *seen)]


def simple(log: Log) -> list[Operation]:
    """A partition that no group copies."""
    return shown(stored(OUT0, 0, log))


def copied_by(name: str, group: str, at: int = 50, offset: int = 1) -> list[Operation]:
    """The first input, by a transaction of one copy."""
    reader, copy = f"{group}/{name}", f"{name}/c0<{A}/0"
    return [
        Begun(name, at),
        Polled(name, reader, [(IN, 0, 0, f"{A}/0")], at),
        Sending(name, [(f"copies-{group}", 0, copy)], at),
        Offsets(name, group, [(IN, 0, offset)], at),
        *ended(name, at=at),
    ]


INPUT = [*wrote(A, (IN, 0, f"{A}/0")), *ended(A)]
COPIES = [*copied_by(B, "g0"), *copied_by(C, "g1")]
COPIED = [
    stored(IN, 0, [(0, f"{A}/0", "commit")]),
    stored(OUT0, 0, [(0, f"{B}/c0<{A}/0", "commit")]),
    stored(OUT1, 0, [(0, f"{C}/c0<{A}/0", "commit")]),
]
KNOWN = [Known("g0", [(IN, 0, 1)], 200), Known("g1", [(IN, 0, 1)], 200)]

GOOD: dict[str, list[Operation]] = {
    "copied in both groups": [*INPUT, *COPIES, *KNOWN, *shown(*COPIED)],
    "committed in two partitions, read when half of it is visible": [
        *wrote(A, (OUT0, 0, f"{A}/0"), (OUT0, 1, f"{A}/1")),
        *ended(A),
        *reads("committed", (OUT0, 0, 0, f"{A}/0"), at=30),
        Read("committed", [(OUT0, 1, 0, f"{A}/1")], 40),
        *shown(stored(OUT0, 0, [(0, f"{A}/0", "commit")]), stored(OUT0, 1, [(0, f"{A}/1", "commit")])),
    ],
    "an unknown end that was a commit": [
        *wrote(A, (OUT0, 0, f"{A}/0")),
        *ended(A, "unknown"),
        *simple([(0, f"{A}/0", "commit")]),
    ],
    "an unknown end that was an abort": [
        *wrote(A, (OUT0, 0, f"{A}/0")),
        *ended(A, "unknown"),
        stored(OUT0, 0, [(0, f"{A}/0", "abort")]),
    ],
    "a client killed before it asked": [
        *wrote(A, (OUT0, 0, f"{A}/0")),
        stored(OUT0, 0, [(0, f"{A}/0", "abort")]),
    ],
    "a commit that failed and was aborted": [
        *wrote(A, (OUT0, 0, f"{A}/0")),
        *ended(A, "unknown"),
        *ended(A, commit=False),
        stored(OUT0, 0, [(0, f"{A}/0", "abort")]),
    ],
    "a reader of everything sees what is aborted, and what is open": [
        *wrote(A, (OUT0, 0, f"{A}/0")),
        *reads("uncommitted", (OUT0, 0, 0, f"{A}/0"), at=11),
        *ended(A, commit=False),
        stored(OUT0, 0, [(0, f"{A}/0", "abort")]),
    ],
    "what was never acknowledged is not there": [
        *wrote(A, (OUT0, 0, f"{A}/0")),
        *ended(A, commit=False),
        stored(OUT0, 0, []),
    ],
    "readers pass over markers and aborted ones, and begin anywhere": [
        *wrote(A, (OUT0, 0, f"{A}/0")),
        *ended(A, commit=False),
        *wrote(B, (OUT0, 0, f"{B}/0"), (OUT0, 0, f"{B}/1")),
        *ended(B),
        *reads("anywhere 1", (OUT0, 0, 3, f"{B}/1"), first=3),
        *simple([(0, f"{A}/0", "abort"), (2, f"{B}/0", "commit"), (3, f"{B}/1", "commit")]),
    ],
    "a server that was asked before another one answered": [
        Asked("a", 1),
        Asked("b", 1),
        Stable("a", [(OUT0, 0, 5)], 2),
        Stable("b", [(OUT0, 0, 4)], 3),
    ],
    "a stable offset before an open transaction": [
        *wrote(A, (OUT0, 0, f"{A}/0")),
        Asked("a", 11),
        Stable("a", [(OUT0, 0, 0)], 12),
        *ended(A),
        Asked("a", 30),
        Stable("a", [(OUT0, 0, 2)], 31),
        *simple([(0, f"{A}/0", "commit")]),
    ],
    "a group reads again what its transaction has aborted": [
        *INPUT,
        Begun(D, 40),
        Polled(D, "g0/w/1", [(IN, 0, 0, f"{A}/0")], 40),
        *ended(D, commit=False, at=41),
        *COPIES,
        *KNOWN,
        *shown(*COPIED),
    ],
    "a producer that is made anew": [Closed("w-0", "1.1", fatal=False, why="timed out", at=1)],
    "a kill": [Event("gateway-1 killed", 1)],
}

TWO = [*wrote(A, (OUT0, 0, f"{A}/0"), (OUT0, 1, f"{A}/1")), *ended(A)]
TWO_HERE = [*wrote(A, (OUT0, 0, f"{A}/0"), (OUT0, 0, f"{A}/1")), *ended(A)]
ONE = [*wrote(A, (OUT0, 0, f"{A}/0")), *ended(A)]
NOT = [*wrote(A, (OUT0, 0, f"{A}/0")), *ended(A, commit=False)]
THREE = [(n, f"{A}/{n}", "commit") for n in range(3)]
THREE_SENT = [*wrote(A, *[(OUT0, 0, f"{A}/{n}") for n in range(3)]), *ended(A)]
INPUTS = [*wrote(A, (IN, 0, f"{A}/0"), (IN, 0, f"{A}/1"), (IN, 0, f"{A}/2")), *ended(A)]


def _polled_inputs(*offsets: int) -> list[Operation]:
    """In one transaction, which is aborted; and no group copies anything, which is not looked at."""
    seen = [(OUT0, 0, offset, f"{A}/{offset}") for offset in offsets]
    return [
        *THREE_SENT,
        Begun(C, 30),
        Polled(C, "g1/w/1", seen, 40),
        *ended(C, commit=False, at=50),
        *simple(THREE),
    ]


BAD: dict[str, tuple[list[Operation], set[str]]] = {
    "committed, not there": ([*ONE, stored(OUT0, 0, []), *reads("end")], {"lost"}),
    "committed, and later offsets are shown": (
        [*ONE, *wrote(B, (OUT0, 0, f"{B}/0")), *ended(B), *simple([(1, f"{B}/0", "commit")])],
        {"lost"},
    ),
    "acknowledged, aborted, and not stored": (
        [*NOT, Acked(A, [(OUT0, 0, f"{A}/0", 0)], 15), stored(OUT0, 0, [])],
        {"lost"},
    ),
    "twice": ([*ONE, *simple([(0, f"{A}/0", "commit"), (1, f"{A}/0", "commit")])], {"duplicate"}),
    "never sent": (simple([(0, f"{A}/0", "commit")]), {"phantom"}),
    "in another partition": (
        [*ONE, *shown(stored(OUT0, 1, [(0, f"{A}/0", "commit")]))],
        {"wrong partition"},
    ),
    "two records at one offset": (
        [*TWO_HERE, *reads("anywhere 1", (OUT0, 0, 1, f"{A}/0"), first=1), *simple(THREE[:2])],
        {"inconsistent offset", "duplicate", "seen in part"},
    ),
    "acknowledged where another one is": (
        [*TWO_HERE, Acked(A, [(OUT0, 0, f"{A}/0", 1)], 15), *simple(THREE[:2])],
        {"inconsistent offset"},
    ),
    "an aborted one is read": (
        [*NOT, stored(OUT0, 0, [(0, f"{A}/0", "abort")]), *reads("anywhere 1", (OUT0, 0, 0, f"{A}/0"))],
        {"aborted read"},
    ),
    "one is read of which the client was killed before it asked": (
        [
            *wrote(A, (OUT0, 0, f"{A}/0")),
            stored(OUT0, 0, [(0, f"{A}/0", "abort")]),
            *reads("anywhere 1", (OUT0, 0, 0, f"{A}/0")),
        ],
        {"aborted read"},
    ),
    "an open one is read": (
        [*ONE, *reads("anywhere 1", (OUT0, 0, 0, f"{A}/0"), at=15), *simple([(0, f"{A}/0", "commit")])],
        {"intermediate read"},
    ),
    "a transaction reads what it writes itself": (
        [
            *wrote(A, (OUT0, 0, f"{A}/0")),
            Polled(A, "g0/w/1", [(OUT0, 0, 0, f"{A}/0")], 15),
            *ended(A),
            *simple([(0, f"{A}/0", "commit")]),
        ],
        {"intermediate read"},
    ),
    "a marker of the other kind": (
        [*ONE, stored(OUT0, 0, [(0, f"{A}/0", "abort")]), *reads("end", (OUT0, 0, 0, f"{A}/0"))],
        {"other marker"},
    ),
    "aborted, and a marker commits it": (
        [*NOT, stored(OUT0, 0, [(0, f"{A}/0", "commit")])],
        {"other marker"},
    ),
    "unknown, and one half is committed, the other aborted": (
        [
            *wrote(A, (OUT0, 0, f"{A}/0"), (OUT0, 1, f"{A}/1")),
            *ended(A, "unknown"),
            *shown(stored(OUT0, 0, [(0, f"{A}/0", "commit")]), stored(OUT0, 1, [(0, f"{A}/1", "abort")])),
        ],
        {"other marker", "lost"},
    ),
    "no marker at all": (
        [*wrote(A, (OUT0, 0, f"{A}/0")), stored(OUT0, 0, [(0, f"{A}/0", "")])],
        {"left open"},
    ),
    "a part below a reader's positions": (
        [
            *TWO,
            *wrote(B, (OUT0, 1, f"{B}/0")),
            *ended(B),
            *reads("anywhere 1", (OUT0, 0, 0, f"{A}/0"), (OUT0, 1, 2, f"{B}/0")),
            *shown(
                stored(OUT0, 0, [(0, f"{A}/0", "commit")]),
                stored(OUT0, 1, [(0, f"{A}/1", "commit"), (2, f"{B}/0", "commit")]),
            ),
        ],
        {"seen in part", "skipped"},
    ),
    "a reader that skips whole transactions": (
        [
            *ONE,
            *wrote(B, (OUT0, 0, f"{B}/0")),
            *ended(B),
            *reads("anywhere 1", (OUT0, 0, 2, f"{B}/0")),
            *simple([(0, f"{A}/0", "commit"), (2, f"{B}/0", "commit")]),
        ],
        {"skipped"},
    ),
    "a reader of everything that skips an aborted one": (
        [
            *NOT,
            *wrote(B, (OUT0, 0, f"{B}/0")),
            *ended(B),
            *reads("uncommitted", (OUT0, 0, 2, f"{B}/0")),
            *simple([(0, f"{A}/0", "abort"), (2, f"{B}/0", "commit")]),
        ],
        {"skipped"},
    ),
    "a reader that goes back": (
        [
            *THREE_SENT,
            *reads("anywhere 1", *[(OUT0, 0, n, f"{A}/{n}") for n in (0, 1, 2, 1)]),
            *simple(THREE),
        ],
        {"non-monotonic"},
    ),
    "a poll that skips": (_polled_inputs(0, 2), {"internal skip"}),
    "a poll that goes back": (_polled_inputs(1, 0), {"internal non-monotonic"}),
    "a member that goes back between two transactions": (
        [
            *THREE_SENT,
            Begun(C, 30),
            Polled(C, "g1/w/1", [(OUT0, 0, 1, f"{A}/1")], 40),
            *ended(C, commit=False, at=50),
            Begun(D, 60),
            Polled(D, "g1/w/1", [(OUT0, 0, 0, f"{A}/0")], 60),
            *ended(D, commit=False, at=70),
            *simple(THREE),
        ],
        {"non-monotonic"},
    ),
    "a reader that does not come to the end": (
        [*THREE_SENT, *reads("committed", (OUT0, 0, 0, f"{A}/0")), *simple(THREE)],
        {"unseen"},
    ),
    "a later transaction before an earlier one": (
        [
            *ONE,
            *wrote(B, (OUT0, 0, f"{B}/0")),
            *ended(B),
            *simple([(0, f"{B}/0", "commit"), (2, f"{A}/0", "commit")]),
        ],
        {"reordered"},
    ),
    "a life that was fenced writes after the next": (
        [
            *NOT,
            *wrote("w-0/2.1/1", (OUT0, 0, "w-0/2.1/1/0")),
            *ended("w-0/2.1/1"),
            *simple([(0, "w-0/2.1/1/0", "commit"), (2, f"{A}/0", "abort")]),
        ],
        {"reordered"},
    ),
    "the stable offset goes back": (
        [
            Asked("a", 1),
            Stable("a", [(OUT0, 0, 5)], 2),
            Asked("b", 3),
            Stable("b", [(OUT0, 0, 4)], 4),
        ],
        {"last stable offset back"},
    ),
    "the stable offset passes an open transaction": (
        [
            *wrote(A, (OUT0, 0, f"{A}/0")),
            Asked("a", 11),
            Stable("a", [(OUT0, 0, 1)], 12),
            *ended(A),
            *simple([(0, f"{A}/0", "commit")]),
        ],
        {"last stable offset past an open transaction"},
    ),
    "two that read of each other": (
        [
            *wrote(A, (OUT0, 0, f"{A}/0")),
            *wrote(C, (OUT0, 1, f"{C}/0")),
            Polled(A, "g0/w/1", [(OUT0, 1, 0, f"{C}/0")], 15),
            Polled(C, "g1/w/2", [(OUT0, 0, 0, f"{A}/0")], 15),
            *ended(A, at=12),
            *ended(C, at=12),
            *shown(stored(OUT0, 0, [(0, f"{A}/0", "commit")]), stored(OUT0, 1, [(0, f"{C}/0", "commit")])),
        ],
        {"G1c"},
    ),
    "not copied in one group": (
        [*INPUT, *copied_by(B, "g0"), KNOWN[0], *shown(*COPIED[:2])],
        {"not copied"},
    ),
    "copied twice": (
        [
            *INPUT,
            *COPIES,
            *copied_by(D, "g0", at=80),
            *KNOWN,
            *shown(
                COPIED[0],
                stored(OUT0, 0, [(0, f"{B}/c0<{A}/0", "commit"), (2, f"{D}/c0<{A}/0", "commit")]),
                COPIED[2],
            ),
        ],
        {"copied twice"},
    ),
    "copied, and the group's offset does not say so": (
        [*INPUT, *COPIES, KNOWN[1], *shown(*COPIED)],
        {"offsets without copies"},
    ),
    "a copy of what was aborted": (
        [
            *wrote(A, (IN, 0, f"{A}/0")),
            *ended(A, commit=False),
            *copied_by(B, "g0"),
            *shown(stored(IN, 0, [(0, f"{A}/0", "abort")]), COPIED[1]),
        ],
        {"copy of what is not there", "aborted read"},
    ),
    "a group's offset goes back": (
        [*INPUT, *COPIES, *KNOWN, Known("g0", [(IN, 0, 0)], 300), KNOWN[0], *shown(*COPIED)],
        {"group offset back", "pending offset shown"},
    ),
    "an offset is told before its transaction is asked to commit": (
        [*INPUT, *COPIES, Known("g0", [(IN, 0, 1)], 45), *KNOWN, *shown(*COPIED)],
        {"pending offset shown"},
    ),
    "a producer ends for good": (
        [Closed("w-0", "1.1", fatal=True, why="INVALID_TXN_STATE", at=1)],
        {"ended for good"},
    ),
}


@pytest.mark.parametrize("name", GOOD)
def test_what_may_be(name: str) -> None:
    assert check(GOOD[name]).problems == []


@pytest.mark.parametrize("name", BAD)
def test_a_broken_promise_is_found(name: str) -> None:
    history, kinds = BAD[name]
    assert {problem.kind for problem in check(history).problems} == kinds


CATEGORIES = {
    "lost",
    "duplicate",
    "phantom",
    "inconsistent offset",
    "aborted read",
    "intermediate read",
    "G1c",
    "internal skip",
    "internal non-monotonic",
    "skipped",
    "non-monotonic",
    "unseen",
    "last stable offset back",
    "last stable offset past an open transaction",
    "reordered",
    "left open",
    "other marker",
    "ended for good",
    "not copied",
    "copied twice",
    "offsets without copies",
    "pending offset shown",
}


@pytest.mark.parametrize("kind", sorted(CATEGORIES))
def test_each_kind_has_a_history_that_shows_it_alone(kind: str) -> None:
    assert [name for name, (_, kinds) in BAD.items() if kinds == {kind}]


def test_cycles_of_writes_are_counted_and_allowed() -> None:
    """Two transactions, in one order here and in the other there."""
    history = [
        *wrote(A, (OUT0, 0, f"{A}/0"), (OUT0, 1, f"{A}/1")),
        *wrote(C, (OUT0, 0, f"{C}/0"), (OUT0, 1, f"{C}/1")),
        *ended(A),
        *ended(C),
        *shown(
            stored(OUT0, 0, [(0, f"{A}/0", "commit"), (1, f"{C}/0", "commit")]),
            stored(OUT0, 1, [(0, f"{C}/1", "commit"), (1, f"{A}/1", "commit")]),
        ),
    ]
    verdict = check(history)
    assert verdict.problems == []
    assert verdict.allowed == {"G0": 1}


def test_a_read_among_writes_that_cycle_is_counted_and_allowed() -> None:
    history = [
        *wrote(A, (OUT0, 0, f"{A}/0"), (OUT0, 1, f"{A}/1")),
        *ended(A),
        *wrote(C, (OUT0, 1, f"{C}/0")),
        Polled(C, "g1/w/1", [(OUT0, 0, 0, f"{A}/0")], 30),
        *ended(C, at=40),
        *shown(
            stored(OUT0, 0, [(0, f"{A}/0", "commit")]),
            stored(OUT0, 1, [(0, f"{C}/0", "commit"), (1, f"{A}/1", "commit")]),
        ),
    ]
    verdict = check(history)
    assert verdict.problems == []
    assert verdict.allowed == {"G1c by writes": 1}
    assert verdict.allowed.keys() <= ALLOWED.keys()


def test_cycles_are_found_wherever_they_are() -> None:
    line = {str(node): {str(node + 1)} for node in range(5000)}
    assert cycles(line) == []
    assert cycles(line | {"4000": {"4001", "3998"}}) == [["3998", "3999", "4000"]]
    assert cycles({"a": {"b"}, "b": {"a"}, "c": {"d"}, "d": {"c", "a"}}) == [["a", "b"], ["c", "d"]]
    assert cycles({"a": {"b"}, "b": {"a"}}, through={"a": {"c"}}) == []
    assert cycles({"a": {"b"}, "b": {"a"}}, through={"a": {"b"}}) == [["a", "b"]]


def test_counts() -> None:
    counts = check(GOOD["copied in both groups"]).counts
    assert (counts["committed"], counts["records"]) == (3, 3)


def test_histories_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    everything = [one for history in GOOD.values() for one in history]
    save(everything, file)
    assert list(load(file)) == everything


def test_a_line_that_a_kill_has_cut_is_of_nothing(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    save(ONE, file)
    file.write_text(file.read_text()[:-2])
    assert list(load(file)) == ONE[:-1]
