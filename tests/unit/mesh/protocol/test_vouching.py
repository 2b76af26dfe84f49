"""Which start of a store counts, by what is remembered of it and what PONGs say."""

from mesh.protocol.starts import MAX_STARTS, Start, begun, last_commit_of, pack_starts, unpack_starts
from mesh.protocol.vouching import MAX_STORES, SAID_SECONDS, Ask, Keep, Refuse, StoreLife, Told, Vouching

A, B, C = (bytes([number]) * 8 for number in (1, 2, 3))
STORE = "S1"


def remembering(nonce: bytes = A, commit: int = 10) -> Vouching:
    """After the gateway's start, of a store that was seen before."""
    vouching = Vouching()
    vouching.remember(STORE, StoreLife(nonce, commit))
    return vouching


def counting(nonce: bytes = A, commit: int = 10) -> Vouching:
    """A start that was just seen first, and is remembered."""
    vouching = Vouching()
    keep = vouching.told(Told(STORE, nonce, commit), 0.0)
    assert keep == Keep(STORE, StoreLife(nonce, commit))
    assert not vouching.counts  # not before it is remembered
    vouching.kept(*keep)
    assert vouching.count(STORE, nonce)
    assert vouching.counts == {STORE: nonce}
    return vouching


def test_what_nothing_is_remembered_of_is_taken_as_it_is() -> None:
    vouching = counting()
    assert vouching.told(Told(STORE, A, 12), 0.0) is None
    assert vouching.unkept() == {STORE: StoreLife(A, 12)}
    vouching.kept(STORE, StoreLife(A, 12))
    assert not vouching.unkept()


def test_the_same_start_counts_at_once_if_it_is_not_behind() -> None:
    vouching = remembering()
    assert vouching.told(Told(STORE, A, 10), 0.0) is None
    assert vouching.counts == {STORE: A}


def test_the_same_start_that_is_behind_is_refused_for_good() -> None:
    vouching = remembering()
    assert vouching.told(Told(STORE, A, 9), 0.0) == Ask(STORE, A)  # one frame alone accuses nobody
    assert not vouching.refused
    assert isinstance(vouching.told(Told(STORE, A, 9, A, 9), 0.0), Refuse)
    assert vouching.told(Told(STORE, A, 20), 1.0) is None  # what it lacked it lacks
    assert not vouching.counts
    assert vouching.refused[STORE].heard == 1.0


def test_a_late_frame_of_the_start_that_counts_changes_nothing() -> None:
    vouching = counting(commit=10)
    vouching.told(Told(STORE, A, 20), 0.0)
    assert vouching.told(Told(STORE, A, 15), 0.0) is None
    assert vouching.counts == {STORE: A}
    assert vouching.unkept() == {STORE: StoreLife(A, 20)}


def test_a_new_start_counts_if_it_knows_what_is_remembered() -> None:
    vouching = remembering()
    assert vouching.told(Told(STORE, B, 13), 0.0) == Ask(STORE, A)
    keep = vouching.told(Told(STORE, B, 13, A, 10), 0.0)
    assert keep == Keep(STORE, StoreLife(B, 13))
    assert vouching.told(Told(STORE, B, 14, A, 10), 0.0) is None  # asked twice, kept once
    assert vouching.count(STORE, B)


def test_a_new_start_that_lacks_something_is_refused_and_that_is_said_once() -> None:
    for last in (-1, 9):
        vouching = remembering()
        told = Told(STORE, B, 13, A, last)
        assert isinstance(vouching.told(told, 0.0), Refuse)
        assert vouching.told(told, 1.0) is None
        assert vouching.stranger(STORE, B) is None
        assert not vouching.counts


def test_of_two_on_copies_the_one_goes_on_that_was_seen_first() -> None:
    vouching = remembering()
    assert vouching.told(Told(STORE, B, 13, A, 10), 0.0) == Keep(STORE, StoreLife(B, 13))
    assert vouching.told(Told(STORE, C, 13, A, 10), 0.0) == Ask(STORE, B)  # before B is even kept
    assert isinstance(vouching.told(Told(STORE, C, 13, B, -1), 0.0), Refuse)
    assert vouching.count(STORE, B)
    assert vouching.counts == {STORE: B}
    assert vouching.told(Told(STORE, B, 15), 0.0) is None


def test_late_frames_of_an_earlier_start_accuse_nobody() -> None:
    vouching = counting(A)
    assert vouching.told(Told(STORE, B, 13, A, 12), 0.0) == Keep(STORE, StoreLife(B, 13))
    assert vouching.count(STORE, B)
    for late in (Told(STORE, A, 11), Told(STORE, A, 11, A, 11)):
        assert vouching.told(late, 0.0) == Ask(STORE, B)  # which B itself answers
    assert vouching.counts == {STORE: B}
    assert not vouching.refused


def test_a_start_is_asked_once_a_round_who_it_is() -> None:
    vouching = counting(A)
    assert vouching.stranger(STORE, B) == Ask(STORE, A)
    assert vouching.stranger(STORE, B) is None
    vouching.round()
    assert vouching.stranger(STORE, B) == Ask(STORE, A)
    assert vouching.stranger("S2", B) == Ask("S2", b"")


def test_an_older_version_counts_until_it_has_told_a_nonce() -> None:
    vouching = Vouching()
    assert vouching.told(Told(STORE, b"", 0), 0.0) is None
    assert vouching.counts == {STORE: b""}
    assert not vouching.unkept()
    assert vouching.told(Told(STORE, A, 1), 0.0) == Keep(STORE, StoreLife(A, 1))
    assert vouching.count(STORE, A)
    assert isinstance(vouching.told(Told(STORE, b"", 0), 0.0), Refuse)
    assert vouching.counts == {STORE: A}


def test_what_another_gateway_remembers_has_to_be_known_too() -> None:
    vouching = counting(A)
    vouching.remember(STORE, StoreLife(B, 20))
    assert not vouching.counts
    assert vouching.told(Told(STORE, A, 10), 0.0) == Ask(STORE, B)
    assert isinstance(vouching.told(Told(STORE, A, 10, B, -1), 0.0), Refuse)


def test_a_frame_that_tells_too_little_harms_nobody_who_has_it() -> None:
    vouching = remembering()
    assert vouching.told(Told(STORE, A, 0), 0.0) == Ask(STORE, A)
    assert vouching.told(Told(STORE, A, 12, A, 12), 0.0) is None
    assert vouching.counts == {STORE: A}


def test_starts_that_are_refused_in_turn_do_not_fill_the_log() -> None:
    """Several old copies run under one name, or one is started again and again: so many lines, not more."""
    vouching = counting(A)
    said = 0
    for second in range(1000):
        for copy in (B, C):
            said += isinstance(vouching.told(Told(STORE, copy, 1, A, -1), float(second)), Refuse)
    assert said == 2
    for second in range(1000, 2000):
        nonce = second.to_bytes(8, "big")
        said += isinstance(vouching.told(Told(STORE, nonce, 1, A, -1), float(second)), Refuse)
        assert vouching.refused[STORE].nonce == nonce
    assert said == 2 + 1000 / SAID_SECONDS


def test_strangers_are_asked_so_many_at_most() -> None:
    vouching = counting(A)
    asked = [vouching.stranger(STORE, number.to_bytes(8, "big")) for number in range(10 * MAX_STORES)]
    assert 1 < len([one for one in asked if one is not None]) <= MAX_STORES
    vouching.round()
    assert vouching.stranger(STORE, C) == Ask(STORE, A)


def test_strangers_do_not_fill_the_memory() -> None:
    vouching = remembering()
    for number in range(MAX_STORES + 10):
        vouching.told(Told(f"stranger {number}", B, 1), 0.0)
    assert len(vouching.unkept()) < MAX_STORES
    assert vouching.question(STORE) == A


def test_starts_are_bounded_and_end_where_the_next_one_begins() -> None:
    starts = tuple(Start(number.to_bytes(8, "big"), 10 * number + 10) for number in range(MAX_STARTS))
    assert MAX_STARTS > 10_000  # a night of restarts that nobody hears of
    for number in range(MAX_STARTS, MAX_STARTS + 5):
        starts = begun(starts, number.to_bytes(8, "big"), 10 * number + 1)
    assert len(starts) == MAX_STARTS
    assert unpack_starts(pack_starts(starts)) == starts
    assert last_commit_of(starts, (7).to_bytes(8, "big")) == 80
    assert last_commit_of(starts, (4).to_bytes(8, "big")) == -1
