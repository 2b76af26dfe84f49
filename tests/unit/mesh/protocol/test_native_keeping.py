"""Which native records a store keeps."""

import pytest

from mesh.protocol import native_keeping
from mesh.protocol.native_keeping import MIN_CHUNK_BYTES, NATIVE_KEY_BYTES, Kept, NativeKeeping, Trim

A, B = "A1", "B2"
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
