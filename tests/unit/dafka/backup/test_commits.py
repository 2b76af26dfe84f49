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
from wireproto.records.header import read_header
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
    assert {name: value.offset for name, value in commits.beyond(ENDS).items()} == expected
    assert all(value.metadata == "meta" for value in commits.beyond(ENDS).values())


def test_they_are_written_as_the_log_goes_on() -> None:
    wanted = {(f"g{number:04d}", "orders", 0): CommittedOffset(3, -1, "", 9) for number in range(1100)}
    made = batches_of(wanted, 40, 7, 99)
    headers = [read_header(batch) for batch in made]
    assert [header.base_offset - 40 for header in headers] == [0, RECORDS_IN_BATCH, 2 * RECORDS_IN_BATCH]
    assert {header.leader_epoch for header in headers} == {7}
    found = [decode_record(key, value) for batch in made for _, key, value in keyed_records(batch)]
    assert found == [OffsetRecord(*name, value) for name, value in sorted(wanted.items())]
