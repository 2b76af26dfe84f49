"""The aborted transactions made again from rows: the same that the producers' state makes of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.log.idempotence.state import ProducerState
from gateway.log.transactions.aborted import AbortedTransaction
from gateway.log.transactions.aborted_replay import AbortedReplay
from wireproto.records.builder import build_batch
from wireproto.records.control import EndMarker, marker_batch
from wireproto.records.header import CONTROL_FLAG, TRANSACTIONAL_FLAG
from wireproto.records.row import ROW_BYTES, Row, row_of

NOW = 1_700_000_000_000


def rows_of(batches: list[bytes]) -> list[Row]:
    """Of these batches, appended one after the other."""
    rows, end = [], 0
    for batch in batches:
        placed = bytearray(batch)
        placed[:8] = end.to_bytes(8, "big")
        rows.append(row_of(placed, -1))
        end = rows[-1].last_offset + 1
    return rows


def data(producer_id: int, sequence: int, records: int, attributes: int = TRANSACTIONAL_FLAG) -> bytes:
    return build_batch(
        [(None, b"v", (), NOW)] * records,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=sequence,
        attributes=attributes,
    )


def marker(producer_id: int, *, is_commit: bool) -> bytes:
    return marker_batch(producer_id, 0, EndMarker(is_commit, 5), NOW)


def found(replay: AbortedReplay) -> list[AbortedTransaction]:
    of_segment = replay.aborted
    return [
        AbortedTransaction(*fields)
        for fields in zip(
            of_segment._producers, of_segment._firsts, of_segment._lasts, of_segment._later_begin, strict=True
        )
    ]


def packed(rows: list[Row]) -> bytes:
    return b"".join(row.pack() for row in rows)


def test_the_flags_stand_where_they_are_looked_for() -> None:
    """In a packed row the low byte of a batch's attributes, in which each bit that means something is."""
    (row,) = rows_of([data(7, 0, 1, TRANSACTIONAL_FLAG)])
    replay = AbortedReplay()
    replay.feed(row._replace(attributes=TRANSACTIONAL_FLAG, size=0).pack())
    assert replay._firsts == {7: 0}
    other = AbortedReplay()
    other.feed(row._replace(attributes=~TRANSACTIONAL_FLAG & 0x7FFF, size=2**31 - 1).pack())
    assert other._firsts == {}


def test_one_that_was_open_when_the_segment_began_ends_in_it() -> None:
    rows = rows_of(
        [data(-1, -1, 10, 0), data(7, 5, 2), marker(7, is_commit=False), marker(8, is_commit=False)]
    )
    replay = AbortedReplay()
    replay.begin({7: 3, 8: 1, 9: 4})
    replay.feed(packed(rows))
    assert found(replay) == [AbortedTransaction(7, 3, 12, 1), AbortedTransaction(8, 1, 13, 4)]


def test_a_marker_of_nothing_aborts_nothing() -> None:
    replay = AbortedReplay()
    replay.feed(packed(rows_of([marker(7, is_commit=False), data(7, 0, 1), marker(7, is_commit=False)])))
    assert found(replay) == [AbortedTransaction(7, 1, 2, 3)]


def test_other_control_batches_neither_begin_nor_end_one() -> None:
    unknown = build_batch(
        [(b"\0\0\0\x07", b"", (), NOW)],
        producer_id=7,
        producer_epoch=0,
        attributes=TRANSACTIONAL_FLAG | CONTROL_FLAG,
    )
    rows = rows_of([unknown, marker(7, is_commit=False), data(7, 0, 1), unknown, marker(7, is_commit=False)])
    assert rows[0].marker is None
    replay = AbortedReplay()
    replay.feed(packed(rows))
    assert found(replay) == [AbortedTransaction(7, 2, 4, 5)]


# What comes next: a producer, what of it, records.
EVENTS = st.lists(
    st.tuples(
        st.integers(1, 4), st.sampled_from(["data", "data", "plain", "abort", "commit"]), st.integers(1, 3)
    ),
    max_size=50,
)


@given(EVENTS, st.integers(0, 50), st.integers(1, 7))
def test_any_rows_give_what_the_producers_state_gives(
    events: list[tuple[int, str, int]], begins_at: int, rows_at_once: int
) -> None:
    """Wherever the segment begins: with what was open there."""
    batches, sequences, is_open = [], dict.fromkeys(range(1, 5), 0), set[int]()
    for producer_id, event, records in events:
        if event in {"abort", "commit"}:
            batches.append(marker(producer_id, is_commit=event == "commit"))
            is_open.discard(producer_id)
            continue
        plain = event == "plain" and producer_id not in is_open
        attributes = 0 if plain else TRANSACTIONAL_FLAG
        if not plain:
            is_open.add(producer_id)
        batches.append(data(producer_id, sequences[producer_id], records, attributes))
        sequences[producer_id] += records
    rows = rows_of(batches)
    state = ProducerState()
    for row in rows[:begins_at]:
        state.apply_row(row, NOW)
    replay = AbortedReplay()
    replay.begin(state.open_transactions())
    expected = [ended for row in rows[begins_at:] if (ended := state.apply_row(row, NOW)) is not None]
    rest = packed(rows[begins_at:])
    for start in range(0, len(rest), rows_at_once * ROW_BYTES):
        replay.feed(rest[start : start + rows_at_once * ROW_BYTES])
    assert found(replay) == expected
    lowest = min((one.first_offset for one in expected), default=-1)
    assert (len(replay.aborted), replay.aborted.lowest) == (len(expected), lowest)
