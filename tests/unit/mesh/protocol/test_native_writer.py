"""What a native producer keeps, sends again, and counts as acknowledged."""

import pytest

from mesh.protocol import native_writer
from mesh.protocol.native_writer import ASK_SECONDS, Due, NativeWriter
from mesh.protocol.writer import MAX_WINDOW_RECORDS, RECORD_OVERHEAD_BYTES

ONE, TWO, THREE = "~one", "~two", "~three"


def written(count: int, stores: int = 1) -> NativeWriter:
    writer = NativeWriter("A1", "t", stores)
    for number in range(count):
        assert writer.append(b"%d" % number, 0.0) == number
    return writer


def sequences(writer: NativeWriter, first: int, count: int) -> list[tuple[int, bytes]]:
    return [(entry.sequence, bytes(entry.content)) for entry in writer.on_fetch(first, count)]


@pytest.mark.parametrize(
    ("stores", "acks", "acknowledged"),
    [
        (1, [], -1),
        (1, [("", 2)], 2),
        (1, [(ONE, 2), (TWO, 1)], 2),
        (1, [(ONE, 1), (TWO, 2)], 2),
        (2, [(ONE, 2)], -1),
        (2, [(ONE, 2), (ONE, 2)], -1),
        (2, [(ONE, 2), (TWO, 1)], 1),
        (2, [(ONE, 2), ("", 1)], 1),
        (2, [(ONE, 2), (TWO, 1), (THREE, 2)], 2),
        (3, [(ONE, 2), (TWO, 1), (THREE, 0)], 0),
        (1, [(ONE, 3)], -1),
    ],
)
def test_what_is_acknowledged(stores: int, acks: list[tuple[str, int]], acknowledged: int) -> None:
    writer = written(3, stores)
    for store, sequence in acks:
        writer.on_ack(store, sequence, 0.0)
    assert writer.acknowledged == acknowledged
    assert len(writer) == 2 - acknowledged
    assert writer.bytes == (2 - acknowledged) * (1 + RECORD_OVERHEAD_BYTES)


def test_an_ack_of_what_was_never_published_is_refused_and_kept_for_nothing() -> None:
    writer = written(2)
    assert not writer.on_ack(ONE, 2, 0.0)
    writer.append(b"2", 0.0)
    assert (writer.acknowledged, writer.refused_acks) == (-1, 1)


def test_acks_of_made_up_stores_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_writer, "MAX_ACKNOWLEDGING_STORES", 2)
    writer = written(2, stores=2)
    assert [writer.on_ack(store, 0, 0.0) for store in (ONE, TWO, THREE, TWO)] == [False, True, False, False]
    assert writer.refused_acks == 1


def test_what_is_sent_again_has_the_content_of_its_sequence() -> None:
    """Also behind the 256th, and after an acknowledgement in the middle: where C producers err."""
    writer = written(1000)
    writer.on_ack(ONE, 99, 0.0)
    expected = [(number, b"%d" % number) for number in range(100, 1000)]
    assert sequences(writer, 100, 100_000) == expected
    assert sequences(writer, 600, 3) == expected[500:503]
    assert sequences(writer, 999, 5) == expected[-1:]
    assert sequences(writer, 1000, 5) == []
    assert sequences(writer, 99, 5) == []


def test_an_answer_to_fetch_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_writer, "MAX_RESEND_BYTES", 3)
    assert len(sequences(written(9), 0, 9)) == 3


def test_the_window_is_full_by_records_and_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    writer = written(MAX_WINDOW_RECORDS - 1)
    assert not writer.full
    writer.append(b"", 0.0)
    assert writer.full
    writer.on_ack(ONE, 0, 0.0)
    assert not writer.full
    monkeypatch.setattr(native_writer, "MAX_NATIVE_WINDOW_BYTES", 2 * RECORD_OVERHEAD_BYTES)
    assert written(2).full


def test_heads_come_with_back_off_while_something_is_owed_and_every_second_afterwards() -> None:
    def heads(since: float, until: float) -> list[float]:
        """When HEADs came, to a fiftieth of a second."""
        ticks = [since + number / 100 for number in range(round((until - since) * 100))]
        return [round(now, 2) for now in ticks if writer.on_tick(now).head]

    writer = NativeWriter("A1", "t")
    assert heads(0.0, 5.0) == []
    writer.append(b"", 5.0)
    expected = [5.05, 5.15, 5.35, 5.75, 6.55, 7.55, 8.55]
    assert heads(5.0, 9.0) == pytest.approx(expected, abs=0.08)
    writer.on_ack(ONE, 0, 9.0)
    assert heads(9.0, 12.0) == pytest.approx([9.05, 10.05, 11.05], abs=0.08)
    writer.append(b"", 12.0)
    assert heads(12.0, 12.3) == pytest.approx([12.05, 12.15], abs=0.08)


def test_stores_are_asked_for_their_heads_when_an_ack_is_owed_for_long() -> None:
    writer = written(2)
    assert writer.on_tick(ASK_SECONDS - 0.1) == Due(head=True, ask=False)
    assert writer.on_tick(ASK_SECONDS).ask
    assert not writer.on_tick(ASK_SECONDS + 0.1).ask
    assert writer.on_told_head(0, 2.5)
    assert not writer.on_tick(2.5 + ASK_SECONDS - 0.1).ask
    assert writer.on_told_head(1, 5.0)
    assert not writer.on_tick(100.0).ask


def test_a_head_that_a_store_tells_is_no_ack_where_stores_are_told_apart() -> None:
    writer = written(2, stores=2)
    assert not writer.on_tick(100.0).ask
    writer.on_ack(ONE, 1, 0.0)
    assert not writer.on_told_head(1, 0.0)
    assert writer.acknowledged == -1


@pytest.mark.parametrize("stores", [0, -1, 257])
def test_a_number_of_stores_that_cannot_be(stores: int) -> None:
    with pytest.raises(ValueError, match="stores"):
        NativeWriter("A1", "t", stores)
