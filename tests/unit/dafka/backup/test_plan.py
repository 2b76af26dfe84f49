from dataclasses import replace

import pytest

from dafka.backup.manifest import Gap, Manifest, Part, SavedPartition, SavedSegment
from dafka.backup.plan import CannotRestore, plan, segment_epoch


def segment(start: int, end: int, *, closed_ms: int, epoch: int = 3, **more: object) -> SavedSegment:
    part = Part("ab", end - start, 0, 1, end, closed_ms - 1, epoch)
    one = SavedSegment(f"A{start}", epoch, start, end, 0, closed_ms - 10, closed_ms, -1, "", (part,))
    return replace(one, **more)  # type: ignore[arg-type]


CHAIN = (
    segment(0, 10, closed_ms=100),
    segment(10, 20, closed_ms=200),
    segment(20, 30, closed_ms=300, epoch=5),
)


def partition(
    *segments: SavedSegment, topic: str = "orders", log_start: int = 0, **more: object
) -> SavedPartition:
    record = {"next_epoch": 6}
    one = SavedPartition(topic, 0, 30, log_start, ((3, 0), (5, 20)), record, "", segments)
    return replace(one, **more)  # type: ignore[arg-type]


def manifest(*partitions: SavedPartition) -> Manifest:
    return Manifest("id", 400, "C1", 5, 0, {}, (), partitions)


def test_all_of_it() -> None:
    (planned,) = plan(manifest(partition(*CHAIN, log_start=7)), None, accept_loss=False)
    assert planned.segments == CHAIN
    assert (planned.log_start, planned.end, planned.lost) == (7, 30, 0)
    assert planned.record() == {"next_epoch": 6, "epochs": [[3, 0], [5, 20]], "log_start": 7}


@pytest.mark.parametrize(("before_ms", "count"), [(99, 0), (100, 1), (250, 2), (300, 3), (1000, 3)])
def test_what_was_closed_by_then(before_ms: int, count: int) -> None:
    (planned,) = plan(manifest(partition(*CHAIN)), before_ms, accept_loss=False)
    assert planned.segments == CHAIN[:count]
    assert planned.end == 10 * count
    assert planned.lost == 30 - planned.end
    assert [epoch for epoch, _ in planned.epochs] == [[], [3], [3], [3, 5]][count]


def test_nothing_left_begins_where_the_backup_does() -> None:
    saved = partition(*CHAIN[1:], log_start=15)
    (planned,) = plan(manifest(saved), 99, accept_loss=False)
    assert (planned.log_start, planned.end) == (10, 10)
    assert planned.record() == {"next_epoch": 4, "epochs": [[3, 0]], "log_start": 10, "end": 10}


def test_what_nobody_noted_was_closed_before_the_next_was_opened() -> None:
    unknown = replace(CHAIN[0], closed_ms=0)
    (planned,) = plan(manifest(partition(unknown, *CHAIN[1:])), 150, accept_loss=False)
    assert planned.segments == ()
    (planned,) = plan(manifest(partition(unknown, *CHAIN[1:])), 190, accept_loss=False)
    assert planned.segments == (unknown,)


def test_what_is_open_is_of_no_earlier_time() -> None:
    cut = replace(CHAIN[2], closed_ms=0, is_cut=True)
    (planned,) = plan(manifest(partition(*CHAIN[:2], cut)), 350, accept_loss=False)
    assert planned.end == 20


def test_groups_keep_their_offsets() -> None:
    (planned,) = plan(manifest(partition(*CHAIN, topic="__consumer_offsets")), 99, accept_loss=False)
    assert planned.lost == 0


def test_transactional_ids_keep_their_epochs() -> None:
    (planned,) = plan(manifest(partition(*CHAIN, topic="__transaction_state")), 99, accept_loss=False)
    assert (planned.lost, planned.lacks_end) == (0, False)
    (planned,) = plan(manifest(partition(*CHAIN)), 99, accept_loss=False)
    assert planned.lacks_end


def test_what_was_never_written_to_is_nothing() -> None:
    assert plan(manifest(partition(record=None)), None, accept_loss=False) == []


def test_a_compacted_segment_has_the_epoch_of_its_last_batch() -> None:
    compacted = segment(0, 20, closed_ms=900, epoch=9, cleaned_to=20)
    compacted = replace(compacted, parts=(replace(compacted.parts[0], epoch=3, max_timestamp=150),))
    assert segment_epoch(compacted) == 3
    (planned,) = plan(manifest(partition(compacted, CHAIN[2])), 200, accept_loss=False)
    assert planned.segments == (compacted,)  # its records are older than the compaction


def test_a_hole_is_refused_or_the_log_begins_after_it() -> None:
    holed = partition(CHAIN[0], CHAIN[2], gaps=(Gap(10, 20, "damaged"),))
    with pytest.raises(CannotRestore, match=r"orders-0 from offset 10 to 20.*--accept-loss"):
        plan(manifest(holed), None, accept_loss=False)
    (planned,) = plan(manifest(holed), None, accept_loss=True)
    assert (planned.segments, planned.log_start, planned.end) == (CHAIN[2:], 20, 30)
    # Below the log start nothing is missed, and an earlier time has no hole.
    plan(manifest(replace(holed, log_start=20)), None, accept_loss=False)
    (planned,) = plan(manifest(holed), 100, accept_loss=False)
    assert planned.end == 10


def test_an_end_that_nobody_knows_is_a_hole() -> None:
    away = partition(*CHAIN, gaps=(Gap(30, -1, "its stores were away"),))
    with pytest.raises(CannotRestore, match="orders-0 from offset 30 to its end"):
        plan(manifest(away), None, accept_loss=False)
    (planned,) = plan(manifest(away), None, accept_loss=True)
    assert planned.end == 30


def test_a_beginning_that_is_missing_is_a_hole() -> None:
    with pytest.raises(CannotRestore, match="orders-0 from offset 0 to 10"):
        plan(manifest(partition(*CHAIN[1:])), None, accept_loss=False)
    (planned,) = plan(manifest(partition(*CHAIN[1:])), None, accept_loss=True)
    assert (planned.log_start, planned.end) == (10, 30)
