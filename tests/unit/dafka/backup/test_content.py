import pytest

from dafka.backup.content import Damaged, batches, check_batches, checked, digest
from dafka.backup.manifest import Part, SavedSegment
from wireproto.records.builder import build_batch


def batch(base_offset: int, epoch: int = 3) -> bytes:
    return build_batch([(b"k", b"v", (), 9)] * 5, base_offset=base_offset, leader_epoch=epoch)


def part(content: bytes, records: int, end: int) -> Part:
    return Part(digest(content), len(content), 0, records, end, 9, 3)


def segment(cleaned_to: int = -1) -> SavedSegment:
    return SavedSegment("A1", 3, 0, 10, 1, 0, 0, cleaned_to, "", ())


def test_batches_are_found_by_their_lengths() -> None:
    content = batch(0) + batch(5)
    found = list(batches(content))
    assert [header.base_offset for header, _ in found] == [0, 5]
    assert b"".join(one for _, one in found) == content
    assert checked(content, part(content, 2, 10)) == found
    assert check_batches(segment(), 0, found) == 10


def test_what_is_not_what_was_put_is_damaged() -> None:
    content = batch(0) + batch(5)
    with pytest.raises(Damaged, match="not those that were put"):
        checked(content[:-1], part(content, 2, 10))
    with pytest.raises(Damaged, match="other batches"):
        checked(content, part(content, 3, 10))
    with pytest.raises(Damaged, match="cut off"):
        list(batches(content[:-1]))
    with pytest.raises(Damaged, match="at byte 0"):
        list(batches(content[:20]))
    altered = bytearray(content)
    altered[70] ^= 1
    with pytest.raises(Damaged, match="at offset 0"):
        check_batches(segment(), 0, list(batches(bytes(altered))))


def test_offsets_and_epochs_are_looked_at() -> None:
    with pytest.raises(Damaged, match="offset 10 follows 4"):
        check_batches(segment(), 0, list(batches(batch(0) + batch(10))))
    assert check_batches(segment(cleaned_to=10), 0, list(batches(batch(0) + batch(10)))) == 15
    with pytest.raises(Damaged, match="offset 0 follows 4"):
        check_batches(segment(cleaned_to=10), 0, list(batches(batch(0) + batch(0))))
    with pytest.raises(Damaged, match="leader epoch 4"):
        check_batches(segment(), 0, list(batches(batch(0, 4))))
