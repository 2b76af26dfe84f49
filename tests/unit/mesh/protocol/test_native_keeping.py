"""Which native records a store keeps."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.protocol import native_keeping
from mesh.protocol.native_keeping import (
    FEW_CHUNKS,
    MAX_CHUNKS,
    MIN_CHUNK_BYTES,
    NATIVE_CHUNKS,
    NATIVE_KEY_BYTES,
    Kept,
    NativeKeeping,
    Trim,
)
from wireproto.dafka.additions import NativeTopic

A, B = "A1", "B2"
TOPIC = NativeTopic("d1", "t", 0)
OTHER = NativeTopic("d2", "t", 50_000)
CONTENT = MIN_CHUNK_BYTES
SIZE = CONTENT + NATIVE_KEY_BYTES


def keeping(records: int, *, quota: int = 1 << 40, seconds: float = 1e9) -> NativeKeeping:
    """So many records of two addresses in turn, one a second, each a chunk of its own."""
    kept = NativeKeeping(quota, seconds)
    for number in range(records):
        kept.wrote((A, B)[number % 2], "t", number // 2, CONTENT, float(number))
    return kept


def drop(kept: NativeKeeping, now: float) -> list[Trim]:
    trims = kept.due(now)
    for trim in trims:
        kept.trimmed(trim)
    return trims


def test_the_largest_record_is_known_unless_the_disk_kept_some() -> None:
    kept = NativeKeeping()
    for sequence, size in enumerate((5, 9, 7)):
        kept.wrote(A, "t", sequence, size, 0.0)
    assert kept._kept[A].largest == 9
    again = NativeKeeping()
    again.add(Kept.unpack(A, "t", kept._kept[A].pack()))
    again.wrote(A, "t", 3, 1, 0.0)
    assert again._kept[A].largest == math.inf


@given(
    st.lists(
        st.tuples(
            st.sampled_from((A, B)),
            st.lists(st.sampled_from((0, 1, MIN_CHUNK_BYTES // 3, MIN_CHUNK_BYTES)), min_size=1, max_size=5),
            st.floats(0.0, 20.0),
        ),
        max_size=20,
    )
)
def test_many_that_are_written_together_count_as_one_after_the_other(
    written: list[tuple[str, list[int], float]],
) -> None:
    together, each = (NativeKeeping(seconds=64 * 30.0) for _ in range(2))
    following = {A: 0, B: 0}
    now = 0.0
    for address, sizes, pause in written:
        now += pause
        numbered = list(enumerate(sizes, following[address]))
        following[address] += len(sizes)
        together.wrote_all(address, "t", numbered, now)
        for sequence, size in numbered:
            each.wrote(address, "t", sequence, size, now)
        assert vars(together)["_kept"] == vars(each)["_kept"]
        assert (together.bytes, together._changed, together._look) == (each.bytes, each._changed, each._look)


def test_within_quota_and_retention_nothing_goes() -> None:
    kept = keeping(6, quota=6 * SIZE, seconds=100.0)
    assert kept.bytes == 6 * SIZE
    assert drop(kept, 6.0) == []


def test_beyond_the_quota_the_oldest_go_of_whatever_address() -> None:
    kept = keeping(6, quota=3 * SIZE)
    assert drop(kept, 6.0) == [Trim(A, 2), Trim(B, 1)]
    assert (kept.bytes, kept.trimmed_bytes) == (3 * SIZE, 3 * SIZE)
    assert drop(kept, 6.0) == []
    assert kept.heads("t") == [(A, 2), (B, 2)]


def test_what_is_older_than_the_retention_goes() -> None:
    kept = keeping(6, seconds=10.0)
    assert [drop(kept, now) for now in (9.9, 10.0, 10.5, 12.0)] == [
        [],
        [Trim(A, 1)],
        [],
        [Trim(B, 1), Trim(A, 2)],
    ]
    assert kept.bytes == 3 * SIZE


def test_an_address_without_records_keeps_its_head_and_is_not_told_of() -> None:
    kept = keeping(2, seconds=10.0)
    drop(kept, 100.0)
    assert (kept.bytes, kept.heads("t"), len(kept)) == (0, [], 2)
    left = kept.get(A)
    assert left is not None
    assert (left.first, left.head) == (1, 0)
    kept.wrote(A, "t", 1, CONTENT, 100.0)
    assert kept.heads("t") == [(A, 1)]


def test_small_records_share_a_chunk_until_it_is_full_or_old() -> None:
    kept = NativeKeeping(1 << 30, 640.0)
    for number in range(100):
        kept.wrote(A, "t", number, 1, 0.0)
    assert [chunk.last for chunk in kept.get(A).chunks] == [99]  # type: ignore[union-attr]
    kept.wrote(A, "t", 100, 1, 9.0)
    kept.wrote(A, "t", 101, 1, 11.0)
    assert [chunk.last for chunk in kept.get(A).chunks] == [100, 101]  # type: ignore[union-attr]


def test_heads_are_those_of_exactly_this_subject() -> None:
    kept = NativeKeeping()
    for address, subject in (("A1", "t"), ("A2", "t1"), ("A3", "t"), ("A4", "")):
        kept.wrote(address, subject, 0, 1, 0.0)
    assert kept.heads("t") == [("A1", 0), ("A3", 0)]
    assert kept.heads("t10") == []
    assert kept.forget("A1")
    assert not kept.forget("A1")
    assert kept.heads("t") == [("A3", 0)]


def test_what_changed_is_given_for_the_disk_and_read_back() -> None:
    kept = keeping(6)
    drop(kept, 0.0)
    kept.trimmed(Trim(A, 1))
    changed = kept.take_changed(1) | kept.take_changed(10)
    assert set(changed) == {A, B}
    assert kept.take_changed(10) == {}
    kept.put_off(["gone", A])
    assert kept.take_changed(10) == {A: changed[A]}
    for address, value in changed.items():
        again, before = Kept.unpack(address, "t", value), kept.get(address)
        assert before is not None
        assert (again.first, again.head, again.size) == (before.first, before.head, before.size)
        assert [chunk.last for chunk in again.chunks] == [chunk.last for chunk in before.chunks]


@pytest.mark.parametrize("value", [b"\x01", b"\x02" + b"\0" * 20, b"\x01" + b"\0" * 19 + b"\x01", b"x" * 50])
def test_counts_that_cannot_be_read(value: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Kept.unpack(A, "t", value)


def test_an_address_nothing_was_counted_of() -> None:
    kept = Kept.unpack(A, "t", b"")
    assert (kept.first, kept.head, kept.size) == (0, -1, 0)


def test_beyond_so_many_addresses_those_silent_for_longest_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_keeping, "MAX_NATIVE_ADDRESSES", 2)
    kept = NativeKeeping()
    for number, address in enumerate(("A1", "A2", "A3")):
        kept.wrote(address, "t", 0, 1, float(number))
    kept.wrote("A1", "t", 1, 1, 5.0)
    assert kept.too_many() == ["A2"]
    kept.forget("A2")
    assert kept.too_many() == []


def test_an_address_that_writes_again_is_looked_at_again() -> None:
    kept = keeping(2, seconds=10.0)
    drop(kept, 100.0)
    kept.wrote(A, "t", 1, CONTENT, 100.0)
    assert drop(kept, 109.0) == []
    assert drop(kept, 110.0) == [Trim(A, 2)]


# topics that take them up


def test_what_a_topic_is_still_to_have_does_not_go_for_its_age() -> None:
    kept = keeping(6, seconds=10.0)
    kept.told((NativeTopic("d1", "t"),), 0.0)
    assert drop(kept, 1000.0) == []
    kept.took(NativeTopic("d1", "t"), A, 2)
    assert drop(kept, 1000.0) == [Trim(A, 2)]
    kept.took(NativeTopic("d1", "t"), B, 3)
    assert drop(kept, 1000.0) == [Trim(B, 3)]


def test_what_all_topics_have_goes_after_the_longest_of_their_times() -> None:
    kept = keeping(2)
    kept.told((TOPIC, OTHER), 0.0)
    kept.took(TOPIC, A, 1)
    assert drop(kept, 49.0) == []
    kept.took(OTHER, A, 1)
    assert drop(kept, 49.0) == []
    assert drop(kept, 50.0) == [Trim(A, 1)]
    assert drop(kept, 1000.0) == []
    for now in (100.0, 180.0):  # the other one is none any more
        kept.told((TOPIC,), now)
    kept.took(TOPIC, B, 1)
    assert drop(kept, 1000.0) == [Trim(B, 1)]


def test_a_run_of_records_goes_when_all_of_it_is_taken() -> None:
    kept = NativeKeeping()
    kept.told((TOPIC,), 0.0)
    for number in range(3):
        kept.wrote(A, "t", number, 1, 0.0)
    kept.took(TOPIC, A, 2)
    assert drop(kept, 1.0) == []
    kept.took(TOPIC, A, 3)
    assert drop(kept, 1.0) == [Trim(A, 3)]


def test_what_is_taken_soon_is_in_short_runs() -> None:
    kept = NativeKeeping()
    kept.told((TOPIC,), 0.0)
    for number in range(4):
        kept.wrote(A, "t", number, 1, 6.0 * number)
    assert [chunk.last for chunk in kept.get(A).chunks] == [1, 3]  # type: ignore[union-attr]


def test_beyond_the_quota_what_no_topic_waits_for_goes_first() -> None:
    kept = keeping(6, quota=3 * SIZE)
    kept.told((NativeTopic("d1", "t"),), 0.0)
    kept.took(NativeTopic("d1", "t"), B, 2)
    assert drop(kept, 6.0) == [Trim(B, 2), Trim(A, 1, untaken=True)]
    assert (kept.trimmed_bytes, kept.untaken_bytes) == (3 * SIZE, SIZE)


def test_what_waits_for_weeks_is_in_few_runs_none_of_which_is_large() -> None:
    """Of whatever sizes they were."""
    size, records = 1000, 4 * MAX_CHUNKS
    quota = records * (size + NATIVE_KEY_BYTES)
    kept = NativeKeeping(quota, 10.0)
    kept.told((NativeTopic("d1", "t"),), 0.0)
    for number in range(records):
        kept.wrote(A, "t", number, size * (number % 3), float(number))
    left = kept.get(A)
    assert left is not None
    assert len(left.chunks) == MAX_CHUNKS
    assert left.size == kept.bytes
    assert [chunk.last for chunk in left.chunks] == sorted({chunk.last for chunk in left.chunks})
    assert left.chunks[-1].last == left.head == records - 1
    assert max(chunk.bytes for chunk in left.chunks) <= quota / NATIVE_CHUNKS


def test_one_with_little_of_the_quota_is_in_fewer_runs() -> None:
    kept = NativeKeeping(1 << 30, 10.0)
    for number in range(190):
        kept.wrote(A, "t", number, 1, float(number))
    left = kept.get(A)
    assert left is not None
    assert len(left.chunks) == FEW_CHUNKS


@pytest.mark.parametrize("seed", range(20))
def test_what_goes_is_what_a_look_at_all_runs_says(seed: int) -> None:
    """First what is due, then what no topic waits for, then the oldest, until the quota is kept."""
    draw = random.Random(seed)
    kept = NativeKeeping(40 * SIZE, 30.0)
    kept.told((NativeTopic("d1", "t", 20_000),), 0.0)
    following = dict.fromkeys((A, B, "C3"), 0)
    subjects = {A: "t", B: "t", "C3": "u"}
    for now in range(100):
        address = draw.choice(list(subjects))
        kept.wrote(address, subjects[address], following[address], CONTENT, float(now))
        following[address] += 1
        if draw.random() < 0.2:
            kept.took(NativeTopic("d1", "t"), address, draw.randint(0, following[address]))
        runs = []
        there = [one for name in subjects if (one := kept.get(name)) is not None]
        for one in there:
            terms = kept.wanted.terms(one.subject, one.taken)
            for chunk in one.chunks:
                wanted = chunk.last >= terms.following
                later = wanted or chunk.written + terms.seconds > now
                runs.append((later, wanted, chunk.written, one.address, chunk.last, chunk.bytes))
        expected: dict[str, int] = {}
        over = kept.bytes - kept.quota_bytes
        for later, _, _, name, last, size in sorted(runs):
            if not later or over > 0:
                expected[name] = last + 1
                over -= size
        assert {trim.address: trim.first for trim in drop(kept, float(now))} == expected
        assert kept.bytes == sum(one.size for one in there)


def test_after_a_restart_a_run_ends_as_before() -> None:
    before = NativeKeeping(seconds=640.0)
    before.wrote(A, "t", 0, 1, 0.0)
    kept = NativeKeeping(seconds=640.0)
    kept.add(Kept.unpack(A, "t", before.take_changed(1)[A]))
    kept.wrote(A, "t", 1, 1, 9.0)
    kept.wrote(A, "t", 2, 1, 10.0)
    assert [chunk.last for chunk in kept.get(A).chunks] == [1, 2]  # type: ignore[union-attr]


def test_of_topics_that_are_none_any_more_nothing_is_remembered() -> None:
    kept = keeping(2)
    kept.told((TOPIC, OTHER), 0.0)
    kept.took(TOPIC, A, 1)
    kept.took(OTHER, A, 1)
    for now in (100.0, 180.0):
        kept.told((OTHER,), now)
    assert kept.get(A).taken == {"d2": 1}  # type: ignore[union-attr]


def test_what_is_told_last_of_an_address_stands() -> None:
    """A topic that has lost records is still to have them."""
    kept = keeping(2)
    kept.told((TOPIC,), 0.0)
    kept.took(TOPIC, A, 1)
    kept.took(TOPIC, A, 0)
    assert drop(kept, 1.0) == []


def test_of_what_is_not_here_nothing_is_remembered() -> None:
    kept = keeping(2)
    kept.told((TOPIC, NativeTopic("d3", "u")), 0.0)
    kept.took(TOPIC, "C3", 1)
    kept.took(NativeTopic("d3", "u"), A, 1)
    kept.took(NativeTopic("d4", "t"), A, 1)
    kept.took(TOPIC, A, 1)
    assert kept.get("C3") is None
    assert [kept.get(name).taken for name in (A, B)] == [{"d1": 1}, {}]  # type: ignore[union-attr]


def test_an_address_is_taken_when_all_topics_have_all_of_it() -> None:
    kept = keeping(4)
    assert not kept.is_taken(A)  # no topic takes it up, so others may still want it
    kept.told((TOPIC, OTHER), 0.0)
    kept.took(TOPIC, A, 2)
    kept.took(OTHER, A, 1)
    assert not kept.is_taken(A)
    kept.took(OTHER, A, 2)
    assert kept.is_taken(A)
    assert kept.is_taken("C3")


def test_of_empty_addresses_the_ones_silent_for_longest_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(native_keeping, "MAX_NATIVE_ADDRESSES", 2)
    kept = NativeKeeping(seconds=10.0)
    for number in range(3):
        kept.wrote("A1", "t", number, 1, 10.0 * number)  # since long, and to this day
    for address in ("A2", "A3"):
        kept.wrote(address, "t", 0, 1, 5.0)
    drop(kept, 100.0)
    assert kept.bytes == 0
    assert kept.too_many() == ["A2"]


def test_what_a_topic_is_still_to_have_is_counted_when_its_address_is_forgotten() -> None:
    kept = keeping(2)
    kept.told((TOPIC,), 0.0)
    kept.took(TOPIC, A, 1)
    assert [kept.forget_all_of(address) for address in (A, B, B)] == [False, True, False]
    assert (kept.bytes, kept.trimmed_bytes, kept.untaken_bytes) == (0, 2 * SIZE, SIZE)


def test_the_addresses_that_no_topic_waits_for_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_keeping, "MAX_NATIVE_ADDRESSES", 1)
    kept = NativeKeeping()
    kept.told((TOPIC,), 0.0)
    for number, address in enumerate(("A1", "A2")):
        kept.wrote(address, "t", 0, 1, float(number))
    assert kept.too_many() == ["A1"]
    kept.took(TOPIC, "A2", 1)
    assert kept.too_many() == ["A2"]
