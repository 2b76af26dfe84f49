"""The writer's window: acknowledgements, the committed head, resends, HEAD's back-off, fencing."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.protocol.writer import HEAD_FIRST_SECONDS, HEAD_LAST_SECONDS, State, Writer


def writer(members: int = 1, w: int = 1, *, opened: bool = True, records: int = 0) -> Writer:
    made = Writer("A" * 32, "orders", [f"store-{n}" for n in range(members)], w)
    if opened:
        made.opened(0.0)
    for number in range(records):
        made.append(b"content %d" % number, 0.0)
    return made


@pytest.mark.parametrize(
    ("members", "w", "acks", "committed", "first"),
    [
        (1, 1, [(0, 2)], 2, 2),
        (3, 2, [(0, 4)], -1, 4),
        (3, 2, [(0, 4), (1, 2)], 2, 4),
        (3, 2, [(0, 4), (1, 2), (2, 3)], 3, 4),
        (3, 3, [(0, 4), (1, 2), (2, 3)], 2, 4),
        (3, 2, [(0, 4), (0, 4)], -1, 4),
        (3, 2, [(1, 3), (0, 3), (1, 1)], 3, 3),
        (5, 3, [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)], 2, 4),
    ],
)
def test_committed_is_what_w_members_have(
    members: int, w: int, acks: list[tuple[int, int]], committed: int, first: int
) -> None:
    window = writer(members, w, records=5)
    for member, sequence in acks:
        window.on_ack(f"store-{member}", sequence, 0.0)
    assert (window.committed, window.first) == (committed, first)
    assert [entry.sequence for entry in window.on_fetch(committed + 1, 100)] == list(range(committed + 1, 5))


@pytest.mark.parametrize(
    ("member", "sequence"),
    [("stranger", 0), ("store-0", 5), ("store-0", 2**63)],
    ids=["not a member", "never published", "far ahead"],
)
def test_acknowledgements_that_do_not_count(member: str, sequence: int) -> None:
    window = writer(records=5)
    assert not window.on_ack(member, sequence, 0.0)
    assert (window.committed, window.refused_acks, len(window)) == (-1, 1, 5)


def test_nothing_is_published_or_acknowledged_before_the_announcement_is_durable() -> None:
    window = writer(opened=False, records=3)
    assert not window.on_ack("store-0", 1, 0.0)
    assert window.on_fetch(0, 3) == []
    assert not window.on_tick(99.0)
    held = window.opened(1.0)
    assert [(entry.sequence, entry.content) for entry in held] == [(n, b"content %d" % n) for n in range(3)]
    assert window.state is State.OPEN


def test_resends_carry_the_contents_of_their_sequences_after_partial_acknowledgements() -> None:
    window = writer(records=600)
    window.on_ack("store-0", 299, 0.0)
    again = window.on_fetch(300, 600)
    assert [(e.sequence, e.content) for e in again] == [(n, b"content %d" % n) for n in range(300, 600)]
    assert window.on_fetch(299, 5) == [], "what left the window comes from a member"


def test_head_is_repeated_with_back_off_until_everything_is_acknowledged() -> None:
    window = writer(records=1)
    times = [step / 1000 for step in range(1, 6000) if window.on_tick(step / 1000)]
    gaps = [round(later - earlier, 3) for earlier, later in itertools.pairwise(times)]
    assert times[0] == pytest.approx(HEAD_FIRST_SECONDS, abs=0.001)
    assert gaps == sorted(gaps)
    assert gaps[-1] == pytest.approx(HEAD_LAST_SECONDS, abs=0.002)
    window.on_ack("store-0", 0, 6.0)
    assert not window.on_tick(60.0)


def test_a_fenced_writer_gives_back_what_was_not_committed_and_takes_nothing() -> None:
    window = writer(records=4)
    window.on_ack("store-0", 1, 0.0)
    assert [entry.sequence for entry in window.fence()] == [2, 3]
    with pytest.raises(RuntimeError):
        window.append(b"more", 0.0)


@given(
    st.integers(1, 5).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n))),
    st.lists(st.tuples(st.integers(0, 5), st.integers(-1, 12)), max_size=40),
)
def test_committed_never_goes_back_and_equals_the_wth_highest_head(
    shape: tuple[int, int], acks: list[tuple[int, int]]
) -> None:
    members, w = shape
    window = writer(members, w, records=10)
    heads = dict.fromkeys(range(members), -1)
    for member, sequence in acks:
        before = window.committed
        window.on_ack(f"store-{member}", sequence, 0.0)
        if member in heads and sequence < 10:
            heads[member] = max(heads[member], sequence)
        assert window.committed == sorted(heads.values(), reverse=True)[w - 1]
        assert window.committed >= before
        assert len(window) == 10 - (window.committed + 1)
        assert window.bytes == sum(len(b"content %d" % n) for n in range(window.committed + 1, 10))
