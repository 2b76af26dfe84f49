from dafka.backup.commits import RECORDS_IN_BATCH, Commits, batches_of
from gateway.groups.records import (
    CommittedOffset,
    OffsetRecord,
    decode_record,
    group_key,
    offset_key,
    offset_value,
)
from wireproto.records.builder import build_batch
from wireproto.records.control import EndMarker, marker_batch
from wireproto.records.header import TRANSACTIONAL_FLAG, read_header
from wireproto.records.keyed import keyed_records


def commit(group: str, partition: int, offset: int | None) -> tuple[bytes, bytes | None, tuple[()], int]:
    value = None if offset is None else offset_value(CommittedOffset(offset, 3, "meta", 9))
    return offset_key(group, "orders", partition), value, (), 9


ENDS = {("orders", 0): 10, ("orders", 1): 20}


def test_only_what_is_beyond_is_changed_and_the_last_commit_counts() -> None:
    commits = Commits()
    commits.feed([build_batch([commit("g", 0, 5), commit("g", 1, 25), commit("h", 0, 50)])])
    commits.feed([build_batch([commit("g", 0, 11), commit("h", 0, 10), commit("i", 0, 99)])])
    commits.feed([b"no batch", build_batch([(group_key("g"), None, (), 9), commit("i", 0, None)])])
    commits.feed([build_batch([commit("j", 7, 99), (b"?", b"?", (), 9)])])
    expected = {("g", "orders", 0): 10, ("g", "orders", 1): 20}
    found = commits.beyond(ENDS)
    assert {name: value and value.offset for name, value in found.items()} == expected
    assert all(value is not None and value.metadata == "meta" for value in found.values())


def test_they_are_written_as_the_log_goes_on() -> None:
    wanted = {(f"g{number:04d}", "orders", 0): CommittedOffset(3, -1, "", 9) for number in range(1100)}
    made = batches_of(wanted, 40, 7, 99)
    headers = [read_header(batch) for batch in made]
    assert [header.base_offset - 40 for header in headers] == [0, RECORDS_IN_BATCH, 2 * RECORDS_IN_BATCH]
    assert {header.leader_epoch for header in headers} == {7}
    found = [decode_record(key, value) for batch in made for _, key, value in keyed_records(batch)]
    assert found == [OffsetRecord(*name, value) for name, value in sorted(wanted.items())]


def in_transaction(*offsets: tuple[str, int, int | None], pid: int = 7, base: int) -> bytes:
    records = [commit(*one) for one in offsets]
    return build_batch(
        records,
        base_offset=base,
        producer_id=pid,
        producer_epoch=0,
        base_sequence=0,
        attributes=TRANSACTIONAL_FLAG,
    )


def ended(*, is_commit: bool, pid: int = 7) -> bytes:
    return marker_batch(pid, 0, EndMarker(is_commit, 1), 9)


def beyond(*batches: bytes) -> dict[int, int | None]:
    """What is committed anew, of group g and by partition."""
    commits = Commits()
    commits.feed(batches)
    return {
        partition: None if value is None else value.offset
        for (_, _, partition), value in commits.beyond(ENDS).items()
    }


def plain(*offsets: tuple[str, int, int | None], base: int) -> bytes:
    return build_batch([commit(*one) for one in offsets], base_offset=base)


def test_what_was_aborted_never_counted() -> None:
    pending = in_transaction(("g", 0, 99), base=1)
    assert beyond(plain(("g", 0, 5), base=0), pending, ended(is_commit=False)) == {}
    back = in_transaction(("g", 0, 3), base=1)
    assert beyond(plain(("g", 0, 99), base=0), back, ended(is_commit=False)) == {0: 10}


def test_what_was_committed_in_a_transaction_counts_by_its_place() -> None:
    pending = in_transaction(("g", 0, 99), ("g", 1, 7), base=1)
    assert beyond(plain(("g", 0, 5), base=0), pending, ended(is_commit=True)) == {0: 10}
    later = plain(("g", 0, 6), base=5)
    assert beyond(pending, later, ended(is_commit=True)) == {}, "the later record stays"


def test_what_is_open_is_superseded_if_it_lies_beyond() -> None:
    """It may be committed after the restore."""
    pending = in_transaction(("g", 0, 99), ("g", 1, 7), base=1)
    assert beyond(plain(("g", 0, 5), base=0), pending) == {0: 5}
    assert beyond(plain(("g", 0, 50), base=0), pending) == {0: 10}
    assert beyond(pending) == {0: None}, "there was none before"
    assert beyond(pending, plain(("g", 0, 5), base=5)) == {}, "it is superseded already"
    assert beyond(pending, plain(("g", 0, None), base=5)) == {}


def test_a_deletion_is_written_as_one() -> None:
    (batch,) = batches_of({("g", "orders", 0): None}, 40, 7, 99)
    assert [(key, value) for _, key, value in keyed_records(batch)] == [(offset_key("g", "orders", 0), None)]


def test_what_a_transaction_has_committed_later_is_as_it_was_before() -> None:
    later = marker_batch(7, 0, EndMarker(True, 1), 100)
    before = plain(("g", 0, 5), base=0)
    in_it = in_transaction(("g", 0, 7), ("g", 1, 7), base=1)

    def found(before_ms: int | None, *batches: bytes, cleaned_to: int = -1) -> dict[int, int | None]:
        commits = Commits(before_ms, cleaned_to)
        commits.feed(batches)
        return {key[2]: value and value.offset for key, value in commits.beyond(ENDS).items()}

    assert found(99, before, in_it, later) == {0: 5, 1: None}
    assert found(100, before, in_it, later) == found(None, before, in_it, later) == {}
    # What came after it has the last word, and is kept.
    assert found(99, before, in_it, later, plain(("g", 0, 8), base=4)) == {1: None}
    # What was before is not known any more.
    assert found(99, before, in_it, later, cleaned_to=3) == {}
    # What is restored of it is cut off as everything is.
    assert found(99, plain(("g", 0, 99), base=0), in_it, later) == {0: 10, 1: None}
