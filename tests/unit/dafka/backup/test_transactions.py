from dataclasses import replace

import pytest

from dafka.backup.transactions import (
    RECORDS_IN_BATCH,
    Cut,
    End,
    Endings,
    States,
    abort_batches,
    endings,
    state_batches,
)
from gateway.common.marker import Marker
from gateway.log.idempotence.markers import check_marker
from gateway.log.idempotence.state import ProducerState
from gateway.transactions.ending import EndTxn
from gateway.transactions.ending import end as end_transaction
from gateway.transactions.metadata import LAST_EPOCH, TopicPartition, TransactionMetadata, TransactionState
from gateway.transactions.outcomes import FENCED
from gateway.transactions.records import transaction_key, transaction_value
from wireproto.records.batch import check_stored
from wireproto.records.builder import build_batch
from wireproto.records.control import EndMarker, marker_batch, read_marker
from wireproto.records.header import TRANSACTIONAL_FLAG, read_header
from wireproto.records.keyed import keyed_records

NOW = 5_000
A, B = ("a", 0), ("b", 0)

ONGOING = TransactionMetadata(
    producer_id=7,
    producer_epoch=3,
    timeout_ms=60_000,
    state=TransactionState.ONGOING,
    last_update_ms=1_000,
    partitions=frozenset((A, B)),
    start_ms=900,
    client_version=2,
)
COMMITTING = replace(ONGOING, state=TransactionState.PREPARE_COMMIT, producer_epoch=4, last_producer_epoch=3)
AT_REST = replace(COMMITTING, state=TransactionState.COMPLETE_COMMIT, partitions=frozenset())


def batch(pid: int = 7, epoch: int = 3, base: int = 0, sequence: int = 0) -> bytes:
    return build_batch(
        [(None, b"x", (), 9)],
        base_offset=base,
        producer_id=pid,
        producer_epoch=epoch,
        base_sequence=sequence,
        attributes=TRANSACTIONAL_FLAG,
    )


def producers(*batches: bytes) -> ProducerState:
    end = End(b"", NOW)
    end.feed(batches)
    return end.producers


OPEN = producers(batch())


def ended(
    known: TransactionMetadata,
    ends: dict[TopicPartition, ProducerState],
    *cut: TopicPartition,
    before_ms: int | None = None,
    stale: bool = False,
) -> tuple[TransactionMetadata, dict[TopicPartition, list[tuple[int, int]]]]:
    """What becomes of one id, and what is aborted by the restore."""
    found = endings({9: {"t": known}}, ends, Cut(cut, [9] if stale else [], before_ms, NOW))
    return found.states.get(9, {}).get("t", known), found.aborted


def test_what_no_coordinator_has_is_aborted_where_it_is_open() -> None:
    assert ended(AT_REST, {A: OPEN, B: producers()}, A) == (AT_REST, {A: [(7, 3)]})
    assert ended(AT_REST, {A: OPEN}) == (AT_REST, {A: [(7, 3)]})
    # The coordinator has a transaction, and this partition is not part of it.
    other = replace(ONGOING, partitions=frozenset((B,)))
    assert ended(other, {A: OPEN}) == (other, {A: [(7, 3)]})
    assert endings({}, {A: OPEN}, Cut((), (), None, NOW)) == Endings({}, {A: [(7, 3)]})


def test_what_is_whole_is_left_to_its_coordinator() -> None:
    assert ended(ONGOING, {A: OPEN, B: OPEN}) == (ONGOING, {})
    assert ended(COMMITTING, {A: OPEN, B: OPEN}) == (COMMITTING, {})
    assert ended(COMMITTING, {A: OPEN, B: OPEN}, before_ms=1_000) == (COMMITTING, {})


def test_an_open_transaction_that_lacks_a_part_is_aborted_and_its_producer_fenced() -> None:
    state, aborted = ended(ONGOING, {A: OPEN, B: OPEN}, A)
    assert aborted == {A: [(7, 3)]}
    assert state == replace(
        ONGOING,
        state=TransactionState.PREPARE_ABORT,
        producer_epoch=4,
        partitions=frozenset((B,)),
        last_update_ms=NOW,
    )
    # Also where nothing of it is left: it has lost what was there.
    state, aborted = ended(ONGOING, {A: producers(), B: producers()}, A, B)
    assert (state.state, state.partitions, aborted) == (TransactionState.PREPARE_ABORT, frozenset(), {})


def test_a_decision_counts_if_it_was_made_by_then() -> None:
    state, aborted = ended(COMMITTING, {A: OPEN, B: OPEN}, A, before_ms=1_000)
    assert (state, aborted) == (replace(COMMITTING, partitions=frozenset((B,))), {A: [(7, 3)]})
    state, aborted = ended(COMMITTING, {A: OPEN, B: OPEN}, A, before_ms=999)
    assert (state.state, state.producer_epoch) == (TransactionState.PREPARE_ABORT, 5)
    assert (state.partitions, aborted) == (frozenset((B,)), {A: [(7, 3)]})


def test_a_decision_to_abort_stands() -> None:
    aborting = replace(COMMITTING, state=TransactionState.PREPARE_ABORT)
    assert ended(aborting, {A: OPEN, B: OPEN}, before_ms=1) == (aborting, {})


def test_an_open_transaction_that_lacks_its_begin_is_aborted_by_its_coordinator() -> None:
    cut = Cut((), (), None, NOW, begun_before=[7])
    found = endings({9: {"t": ONGOING, "u": replace(ONGOING, producer_id=8)}}, {A: OPEN, B: OPEN}, cut)
    assert found.aborted == {}
    assert found.states[9].keys() == {"t"}
    state = found.states[9]["t"]
    assert (state.state, state.producer_epoch) == (TransactionState.PREPARE_ABORT, 4)
    assert state.partitions == {A, B}
    assert endings({9: {"t": COMMITTING}}, {A: OPEN}, cut) == Endings()


def test_where_the_states_lack_their_end_all_is_aborted_and_no_producer_goes_on() -> None:
    for known in (ONGOING, COMMITTING):
        state, aborted = ended(known, {A: OPEN, B: OPEN}, stale=True)
        assert (state.state, state.producer_epoch) == (TransactionState.PREPARE_ABORT, LAST_EPOCH)
        assert (state.partitions, aborted) == (frozenset((A, B)), {})
    later = producers(batch(epoch=12))
    state, aborted = ended(AT_REST, {A: later}, stale=True)
    assert (state.state, state.producer_epoch) == (TransactionState.EMPTY, LAST_EPOCH)
    assert (state.last_producer_epoch, aborted) == (-1, {A: [(7, 12)]})
    for version in (0, 2):  # nobody is told of an earlier end
        for epoch in (AT_REST.producer_epoch - 1, AT_REST.producer_epoch, 12):
            assert end_transaction(state, EndTxn(7, epoch, True, version), NOW, None) == FENCED


@pytest.mark.parametrize("epoch", [3, 4, 5, 12, 32766])
@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("known", [ONGOING, COMMITTING], ids=["ongoing", "committing"])
def test_every_partition_takes_the_marker_of_what_is_aborted(
    known: TransactionMetadata, version: int, epoch: int
) -> None:
    """What is open there may be a later transaction than the last one that is known of the id."""
    open_there = producers(batch(epoch=epoch))
    state, aborted = ended(replace(known, client_version=version), {A: open_there, B: OPEN}, stale=True)
    assert (state.state, state.partitions) == (TransactionState.PREPARE_ABORT, frozenset((A, B)))
    assert aborted == {}
    marker = Marker(7, state.producer_epoch, 9, False, 1, state.client_version)
    for end in (open_there, OPEN):
        check_marker(end.find(7), marker)


def test_the_last_epoch_is_used_up() -> None:
    last = replace(ONGOING, producer_epoch=32766)
    state, _ = ended(last, {A: producers(batch(epoch=32766))}, A)
    assert (state.producer_epoch, state.is_exhausted) == (32767, True)


def test_states_are_read_as_they_are_written() -> None:
    wanted = {f"t{number:03d}": replace(AT_REST, producer_id=number) for number in range(120)}
    made = state_batches(wanted, 40, 7, NOW)
    headers = [check_stored(one) for one in made]
    assert [header.base_offset - 40 for header in headers] == [0, RECORDS_IN_BATCH, 2 * RECORDS_IN_BATCH]
    assert {header.leader_epoch for header in headers} == {7}
    assert [offset for one in made for offset, _, _ in keyed_records(one)] == list(range(40, 160))
    states = States()
    states.feed(made)
    assert states.by_id == wanted
    key = transaction_key("t000")
    forgotten = build_batch([(key, None, (), 9)])
    changed = build_batch([(transaction_key("t001"), transaction_value(ONGOING), (), 9), (b"?", b"?", (), 9)])
    states.feed([b"no batch", forgotten, marker_batch(1, 0, EndMarker(True, 0), 9), changed])
    assert states.by_id.pop("t001") == ONGOING
    assert states.by_id == {name: wanted[name] for name in wanted if name not in {"t000", "t001"}}


def test_markers_end_what_is_open_as_the_log_goes_on() -> None:
    state = producers(batch(), batch(pid=8, epoch=1, base=1))
    made = abort_batches([(7, 3), (8, 1)], 2, 1005, NOW)
    headers = [check_stored(one) for one in made]
    assert [(one.base_offset, one.leader_epoch, one.producer_id) for one in headers] == [
        (2, 1005, 7),
        (3, 1005, 8),
    ]
    assert [one.max_timestamp for one in headers] == [NOW, NOW]
    assert [read_marker(one) for one in made] == [EndMarker(False, 1005)] * 2
    end = End(state.snapshot(NOW), NOW)
    assert end.producers.open_transactions() == {7: 0, 8: 1}
    end.feed([b"no batch", *made])
    assert end.producers.open_transactions() == {}
    assert read_header(made[0]).producer_epoch == 3
