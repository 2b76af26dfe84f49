"""Whether records are whole: epochs of a compacted segment, a check from the middle, rows made anew."""

from __future__ import annotations

import pytest

from mesh.protocol.address_state import AddressState, Phase
from mesh.protocol.copying import rows_between
from mesh.store.checking import AddressCheck, digest_of
from tests.unit.mesh.store.sample import ADDRESS, announcement
from wireproto.records.batch import assign_offsets
from wireproto.records.builder import build_batch
from wireproto.records.errors import InvalidBatch
from wireproto.records.row import row_of

EPOCH = 5
TIMESTAMPS = (50, 90, 20, 30, 95, 10)


def batch(number: int, epoch: int = EPOCH) -> bytes:
    content = bytearray(build_batch([(None, b"value %d" % number, [], TIMESTAMPS[number])]))
    assign_offsets(content, 10 * number, epoch)
    return bytes(content)


def rows(contents: list[bytes]) -> list[bytes]:
    running, made = -1, []
    for content in contents:
        row = row_of(content, running)
        running = row.running_max_timestamp
        made.append(row.pack())
    return made


def state() -> AddressState:
    found = AddressState(ADDRESS, "orders")
    found.announcement = announcement(epoch=EPOCH)
    found.phase, found.head, found.end = Phase.CLOSED, len(TIMESTAMPS) - 1, len(TIMESTAMPS) - 1
    return found


def checked(epochs: tuple[int, ...]) -> list[str]:
    contents = [batch(number, epoch) for number, epoch in enumerate(epochs)]
    check = AddressCheck(state())
    return [check.take(number, contents[number], row) for number, row in enumerate(rows(contents))]


def test_epochs_of_a_compacted_segment_ascend_up_to_its_own() -> None:
    assert checked((1, 1, 3, 3, 5, 5)) == [""] * 6
    assert checked((5, 5, 5, 4, 5, 5)) == ["", "", "", "leader epoch 4 behind 5", "", ""]
    assert checked((1, 6, 2, 3, 4, 5)) == ["", "leader epoch 6 in a segment of epoch 5", "", "", "", ""]


@pytest.mark.parametrize("first", range(len(TIMESTAMPS)))
def test_a_check_may_begin_in_the_middle(first: int) -> None:
    contents = [batch(number) for number in range(len(TIMESTAMPS))]
    kept = rows(contents)
    check = AddressCheck(state())
    if first:
        check.begin_behind(first - 1, kept[first - 1])
    for number in range(first, len(contents)):
        assert check.take(number, contents[number], kept[number]) == ""
    assert bytes.fromhex(check.digest) == digest_of(contents[first:])


@pytest.mark.parametrize("first", range(len(TIMESTAMPS)))
@pytest.mark.parametrize("count", [1, 2, 6])
def test_rows_made_anew_are_those_that_were_lost(first: int, count: int) -> None:
    contents = [batch(number) for number in range(len(TIMESTAMPS))]
    kept = rows(contents)
    behind = first + count
    before = kept[first - 1] if first else b""
    after = kept[behind] if behind < len(kept) else b""
    assert (
        rows_between(announcement(epoch=EPOCH), before, after, contents[first:behind]) == kept[first:behind]
    )


@pytest.mark.parametrize(
    "wrong",
    [batch(1), batch(3), batch(2, EPOCH + 1), batch(2) + b"x", batch(2)[:-1], b""],
    ids=["the one before", "the one behind", "epoch", "longer", "shorter", "empty"],
)
def test_no_other_batch_may_stand_there(wrong: bytes) -> None:
    kept = rows([batch(number) for number in range(len(TIMESTAMPS))])
    with pytest.raises(InvalidBatch):
        rows_between(announcement(epoch=EPOCH), kept[1], kept[3], [wrong])
