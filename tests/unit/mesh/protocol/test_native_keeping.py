"""Which native records a store keeps."""

import pytest

from mesh.protocol import native_keeping
from mesh.protocol.native_keeping import (
    MAX_CHUNKS,
    MIN_CHUNK_BYTES,
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
    kept.told(1, (NativeTopic("d1", "t"),))
    assert drop(kept, 1000.0) == []
    kept.took(NativeTopic("d1", "t"), A, 2)
    assert drop(kept, 1000.0) == [Trim(A, 2)]
    kept.took(NativeTopic("d1", "t"), B, 3)
    assert drop(kept, 1000.0) == [Trim(B, 3)]


def test_what_all_topics_have_goes_after_the_longest_of_their_times() -> None:
    kept = keeping(2)
    kept.told(1, (TOPIC, OTHER))
    kept.took(TOPIC, A, 1)
    assert drop(kept, 49.0) == []
    kept.took(OTHER, A, 1)
    assert drop(kept, 49.0) == []
    assert drop(kept, 50.0) == [Trim(A, 1)]
    assert drop(kept, 1000.0) == []
    kept.told(2, (TOPIC,))
    kept.took(TOPIC, B, 1)
    assert drop(kept, 1000.0) == [Trim(B, 1)]


def test_a_run_of_records_goes_when_all_of_it_is_taken() -> None:
    kept = NativeKeeping()
    kept.told(1, (TOPIC,))
    for number in range(3):
        kept.wrote(A, "t", number, 1, 0.0)
    kept.took(TOPIC, A, 2)
    assert drop(kept, 1.0) == []
    kept.took(TOPIC, A, 3)
    assert drop(kept, 1.0) == [Trim(A, 3)]


def test_what_is_taken_soon_is_in_short_runs() -> None:
    kept = NativeKeeping()
    kept.told(1, (TOPIC,))
    for number in range(4):
        kept.wrote(A, "t", number, 1, 6.0 * number)
    assert [chunk.last for chunk in kept.get(A).chunks] == [1, 3]  # type: ignore[union-attr]


def test_beyond_the_quota_what_no_topic_waits_for_goes_first() -> None:
    kept = keeping(6, quota=3 * SIZE)
    kept.told(1, (NativeTopic("d1", "t"),))
    kept.took(NativeTopic("d1", "t"), B, 2)
    assert drop(kept, 6.0) == [Trim(B, 2), Trim(A, 1, untaken=True)]
    assert (kept.trimmed_bytes, kept.untaken_bytes) == (3 * SIZE, SIZE)


def test_what_waits_for_weeks_is_in_few_runs_and_keeps_its_size() -> None:
    kept = keeping(2 * MAX_CHUNKS + 6, seconds=10.0)
    left = kept.get(A)
    assert left is not None
    assert (len(left.chunks), left.size) == (MAX_CHUNKS, (MAX_CHUNKS + 3) * SIZE)
    assert left.chunks[0].last == 3
    assert kept.bytes == 2 * left.size


def test_what_is_told_last_of_an_address_stands() -> None:
    """A topic that has lost records is still to have them."""
    kept = keeping(2)
    kept.told(1, (TOPIC,))
    kept.took(TOPIC, A, 1)
    kept.took(TOPIC, A, 0)
    assert drop(kept, 1.0) == []


def test_of_what_is_not_here_nothing_is_remembered() -> None:
    kept = keeping(2)
    kept.told(1, (TOPIC, NativeTopic("d3", "u")))
    kept.took(TOPIC, "C3", 1)
    kept.took(NativeTopic("d3", "u"), A, 1)
    kept.took(TOPIC, A, 1)
    assert kept.get("C3") is None
    assert [kept.get(name).taken for name in (A, B)] == [{"d1": 1}, {}]  # type: ignore[union-attr]
    kept.told(2, (OTHER,))
    assert kept.get(A).taken == {}  # type: ignore[union-attr]


def test_the_addresses_that_no_topic_waits_for_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_keeping, "MAX_NATIVE_ADDRESSES", 1)
    kept = NativeKeeping()
    kept.told(1, (TOPIC,))
    for number, address in enumerate(("A1", "A2")):
        kept.wrote(address, "t", 0, 1, float(number))
    assert kept.too_many() == ["A1"]
    kept.took(TOPIC, "A2", 1)
    assert kept.too_many() == ["A2"]
