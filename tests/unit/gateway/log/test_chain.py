"""The chain of a log's segments: each rule by itself, and all of them beside a plain list."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.log.chain import OpenSegment, SegmentChain
from gateway.log.segment import NO_TIMESTAMP, UNKNOWN, Segment
from mesh.protocol.writer import Writer

MEMBERS = ("a", "b", "c")
NOW_MS = 1_700_000_000_000


def closed(address: str, start: int, end: int) -> Segment:
    return Segment(address, 0, start, MEMBERS, 2, NOW_MS).closed(end, end - start - 1, 7, size=end - start)


def left_open(address: str, start: int) -> Segment:
    return Segment(address, 0, start, MEMBERS, 2, NOW_MS)


def opened(address: str, start: int) -> OpenSegment:
    writer = Writer(address, "topic", MEMBERS, 2)
    writer.opened(0.0)
    return OpenSegment(left_open(address, start), writer, b"snapshot")


def write(one: OpenSegment, batches: int, timestamp: int = NOW_MS) -> None:
    for _ in range(batches):
        one.writer.append(b"x" * 10, 0.0)
        one.add(10, timestamp)


def chain_of(*segments: Segment, rolling: tuple[str, ...] = (), current: str = "") -> SegmentChain:
    """With one batch of one record in each segment that has a window."""
    chain = SegmentChain()
    chain.load(segments)
    start = chain.highest_end()
    for number, address in enumerate([*rolling, *([current] if current else [])]):
        chain.begin(one := opened(address, start + number))
        write(one, 1, NOW_MS + number)
        if address in rolling:
            chain.roll()
    return chain


def addresses(chain: SegmentChain) -> list[str]:
    return [segment.address for segment in chain.segments()]


A, B, C, D = closed("A", 0, 3), closed("B", 3, 5), closed("C", 5, 9), closed("D", 9, 10)


# look-ups -------------------------------------------------------------------------------------------------


def test_the_bytes_it_knows_of_are_those_of_all_segments_that_have_a_size() -> None:
    assert chain_of().known_bytes() == 0
    assert chain_of(A, B, replace(C, size=UNKNOWN)).known_bytes() == 3 + 2
    assert chain_of(A, B, rolling=("X", "Y"), current="Z").known_bytes() == 3 + 2 + 3 * 10


def test_an_empty_chain() -> None:
    chain = SegmentChain()
    assert (chain.segments(), list(chain.open_segments()), chain.left_open()) == ([], [], [])
    assert (chain.newest, chain.last_closed, chain.current) == (None, None, None)
    assert (chain.segment_at(0), chain.durable_upto("A"), chain.highest_end()) == (None, None, 0)
    assert (chain.holds("A"), chain.window_bytes(), chain.close_rolling(0, NOW_MS)) == (False, 0, [])


@pytest.mark.parametrize(
    ("offset", "expected"),
    [(0, None), (1, None), (2, "B"), (4, "B"), (5, "C"), (8, "C"), (9, "R"), (10, "O"), (99, "O")],
)
def test_which_segment_holds_an_offset(offset: int, expected: str | None) -> None:
    chain = chain_of(closed("B", 2, 5), C, rolling=("R",), current="O")
    found = chain.segment_at(offset)
    assert (None if found is None else found.address) == expected


@pytest.mark.parametrize(
    ("address", "expected"), [("A", 2), ("B", 1), ("R", 0), ("O", -1), ("left", None), ("gone", None)]
)
def test_how_far_a_segment_may_be_shown(address: str, expected: int | None) -> None:
    chain = chain_of(A, B, left_open("left", 5), rolling=("R",), current="O")
    (rolling,) = chain.rolling
    for member in MEMBERS[:2]:
        rolling.writer.on_ack(member, 0, 0.0)
    assert chain.durable_upto(address) == expected


@pytest.mark.parametrize(
    ("chain", "newest", "last"),
    [
        (chain_of(A, B), B, B),
        (chain_of(A, B, current="O"), left_open("O", 5), B),
        (chain_of(A, B, rolling=("R",)), B, B),
        (chain_of(current="O"), left_open("O", 0), None),
    ],
)
def test_the_last_ones(chain: SegmentChain, newest: Segment, last: Segment | None) -> None:
    assert (chain.newest, chain.last_closed) == (newest, last)


def test_whose_windows_are_its_own() -> None:
    chain = chain_of(A, rolling=("R",), current="O")
    assert all(chain.is_written_by(one.writer) for one in chain.open_segments())
    assert not chain.is_written_by(Writer("O", "topic", MEMBERS, 2))
    assert chain.window_bytes() == 20


# appending ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: chain_of(A, current="O").begin(opened("P", 9)),
        lambda: chain_of(A).begin(opened("P", 2)),
        lambda: chain_of(A, rolling=("R", "S")).begin(opened("P", 3)),
        lambda: chain_of(A).roll(),
        lambda: chain_of(A, rolling=("R",)).roll(),
    ],
    ids=["two open ones", "an offset twice", "below one that rolls", "nothing to roll", "rolled twice"],
)
def test_what_a_chain_never_does(wrong: Callable[[], None]) -> None:
    with pytest.raises(AssertionError):
        wrong()


def test_a_segment_may_begin_behind_a_gap() -> None:
    """Where loss was accepted, the log goes on at its log start."""
    chain = chain_of(A)
    chain.begin(opened("O", 50))
    assert addresses(chain) == ["A", "O"]


def test_those_that_roll_end_where_the_next_ones_begin() -> None:
    chain = chain_of(A, rolling=("R", "S"), current="O")
    made = chain.close_rolling(99, NOW_MS + 5)
    assert made == [
        left_open("R", 3).closed(4, 0, NOW_MS, size=10, closed_ms=NOW_MS + 5, aborted=0),
        left_open("S", 4).closed(5, 0, NOW_MS + 1, size=10, closed_ms=NOW_MS + 5, aborted=0),
    ]
    assert (list(chain.closed), list(chain.rolling), addresses(chain)) == (
        [A, *made],
        [],
        ["A", "R", "S", "O"],
    )


def test_without_an_open_segment_the_last_one_ends_with_the_log() -> None:
    chain = chain_of(A, rolling=("R", "S"))
    made = chain.close_rolling(5, NOW_MS)
    assert [(one.start_offset, one.end_offset) for one in made] == [(3, 4), (4, 5)]
    assert chain.current is None


def test_what_an_open_segment_knows_of_itself() -> None:
    one = opened("O", 4)
    assert one.closed(4, NOW_MS) == left_open("O", 4).closed(
        4, -1, NO_TIMESTAMP, size=0, closed_ms=NOW_MS, aborted=0
    )
    for size, timestamp in ((10, 5), (20, 9), (30, 7)):
        one.writer.append(b"x" * size, 0.0)
        one.add(size, timestamp)
    assert one.announced_to(("a", "b")) == one.segment
    assert (one.segment.announced, one.segment.confirmed) == (True, ("a", "b"))
    assert one.closed(7, NOW_MS) == one.segment.closed(7, 2, 9, size=60, closed_ms=NOW_MS, aborted=0)


# recovery -------------------------------------------------------------------------------------------------


def test_what_was_loaded_replaces_everything() -> None:
    chain = chain_of(A, rolling=("R",), current="O")
    chain.load([B, C, left_open("left", 9)])
    assert (addresses(chain), list(chain.open_segments())) == (["B", "C", "left"], [])
    assert (chain.left_open(), chain.highest_end()) == ([left_open("left", 9)], 9)


def test_what_was_left_open_is_settled_and_what_held_nothing_leaves() -> None:
    first, empty = left_open("C", 5), left_open("left", 9)
    chain = chain_of(A, B)
    chain.load([A, B, first, empty])
    chain.settle([C])
    assert (list(chain.closed), chain.left_open()) == ([A, B, C], [])


# what others do -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dropped", "left"),
    [
        (set(), ["A", "B", "C", "R", "O"]),
        ({"A"}, ["B", "C", "R", "O"]),
        ({"A", "B", "C"}, ["R", "O"]),
        ({"of another chain", "A"}, ["B", "C", "R", "O"]),
        ({"R", "O"}, ["A", "B", "C", "R", "O"]),
    ],
)
def test_the_front_is_dropped_and_no_window_ever(dropped: set[str], left: list[str]) -> None:
    chain = chain_of(A, B, C, rolling=("R",), current="O")
    chain.drop(dropped)
    assert addresses(chain) == left


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        (["A"], ["X", "Y", "B", "C", "O"]),
        (["A", "B"], ["X", "Y", "C", "O"]),
        (["B", "C"], ["A", "X", "Y", "O"]),
        (["gone", "A"], ["A", "B", "C", "O"]),
    ],
)
def test_a_run_is_swapped_or_the_new_chain_is_there_already(sources: list[str], expected: list[str]) -> None:
    chain = chain_of(A, B, C, current="O")
    made = [closed("X", 0, 1), closed("Y", 1, 5)]
    assert chain.swap(sources, made) is ("gone" not in sources)
    assert addresses(chain) == expected


@pytest.mark.parametrize("sources", [["A", "C"], ["C", "D"], ["B", "A"]])
def test_only_a_run_is_swapped(sources: list[str]) -> None:
    chain = chain_of(A, B, C)
    with pytest.raises(AssertionError):
        chain.swap(sources, [closed("X", 0, 9)])
    assert addresses(chain) == ["A", "B", "C"]


def test_closed_segments_get_other_members_and_sizes() -> None:
    chain = chain_of(A, B, current="O")
    moved = replace(B, members=("a", "b", "d"))
    chain.replace(moved)
    chain.set_size("A", 77)
    chain.replace(closed("gone", 0, 3))
    chain.set_size("gone", 5)
    chain.set_size("O", 5)
    assert list(chain.closed) == [replace(A, size=77), moved]
    assert chain.newest == left_open("O", 5)


# beside a plain list --------------------------------------------------------------------------------------


@dataclass
class Entry:
    """A segment of the model, which is a list of these."""

    address: str
    start: int
    end: int
    state: str
    """closed, rolling or open"""


@dataclass
class Model:
    entries: list[Entry]
    end: int = 0
    made: int = 0

    def name(self) -> str:
        self.made += 1
        return f"segment-{self.made}"

    def of(self, state: str) -> list[Entry]:
        return [entry for entry in self.entries if entry.state == state]


STEPS = st.lists(
    st.tuples(st.sampled_from(["append", "roll", "close", "drop", "swap", "reload"]), st.integers(1, 4)),
    max_size=60,
)


@given(STEPS)
def test_a_chain_is_what_a_plain_list_would_be(steps: list[tuple[str, int]]) -> None:
    chain, model = SegmentChain(), Model([])
    for what, count in steps:
        step(chain, model, what, count)
        compare(chain, model)


def step(chain: SegmentChain, model: Model, what: str, count: int) -> None:
    closed_ones = model.of("closed")
    if what == "append":
        if chain.current is None:
            name = model.name()
            chain.begin(opened(name, model.end))
            model.entries.append(Entry(name, model.end, model.end, "open"))
        assert chain.current is not None
        write(chain.current, count)
        model.end += count
        model.entries[-1].end = model.end
    elif what == "roll" and chain.current is not None:
        chain.roll()
        model.entries[-1].state = "rolling"
    elif what == "close":
        made = chain.close_rolling(model.end, NOW_MS)
        assert [one.address for one in made] == [entry.address for entry in model.of("rolling")]
        for entry in model.of("rolling"):
            entry.state = "closed"
    elif what == "drop":
        gone = closed_ones[:count]
        chain.drop({entry.address for entry in gone})
        model.entries = model.entries[len(gone) :]
    elif what == "swap" and closed_ones:
        sources = closed_ones[-count:]
        name, first = model.name(), model.entries.index(sources[0])
        start, end = sources[0].start, sources[-1].end
        assert chain.swap([entry.address for entry in sources], [closed(name, start, end)])
        model.entries[first : first + len(sources)] = [Entry(name, start, end, "closed")]
    elif what == "reload":
        # A recovery: what had a window is closed where it ends.
        was = [*chain.closed, *(left_open(e.address, e.start) for e in model.entries if e.state != "closed")]
        chain.load(was)
        assert [one.address for one in chain.left_open()] == [
            entry.address for entry in model.entries if entry.state != "closed"
        ]
        chain.settle([closed(e.address, e.start, e.end) for e in model.entries if e.state != "closed"])
        for entry in model.entries:
            entry.state = "closed"


def compare(chain: SegmentChain, model: Model) -> None:
    entries = model.entries
    assert addresses(chain) == [entry.address for entry in entries]
    assert [one.address for one in chain.closed] == [entry.address for entry in model.of("closed")]
    assert [one.segment.address for one in chain.rolling] == [entry.address for entry in model.of("rolling")]
    assert [(one.start_offset, one.end_offset) for one in chain.closed] == [
        (entry.start, entry.end) for entry in model.of("closed")
    ]
    assert all(one.size != UNKNOWN for one in chain.closed)
    newest = chain.current
    assert (newest is None) == (not model.of("open"))
    for offset in range(model.end):
        holding = [entry.address for entry in entries if entry.start <= offset < entry.end]
        found = chain.segment_at(offset)
        assert ([] if found is None else [found.address]) == holding
    for one in chain.closed:
        assert chain.durable_upto(one.address) == one.last_sequence
