"""Keys and values of a batch are those that `iter_records` gives, and so are the errors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.wireproto.records.damage import altered
from wireproto.records.builder import build_batch
from wireproto.records.errors import InvalidBatch
from wireproto.records.header import HEADER_BYTES, Buffer
from wireproto.records.iteration import iter_records
from wireproto.records.keyed import Keyed, keyed_records

# Lengths around those where a number takes another byte.
texts = st.none() | st.binary(max_size=3) | st.sampled_from([n * b"x" for n in (63, 64, 8191, 8192, 20_000)])
headers = st.just(()) | st.just((("h", b"v"),))
times = st.sampled_from([0, 1, 63, 64, 8191, 8192, 1 << 40])
fields = st.tuples(texts, texts, headers, times)


def slowly(batch: Buffer) -> list[Keyed]:
    return [(record.offset, record.key, record.value) for record in iter_records(batch)]


def outcome(batch: Buffer, *, quickly: bool) -> object:
    try:
        return keyed_records(batch) if quickly else slowly(batch)
    except InvalidBatch as error:
        return error.code, str(error)


@given(st.lists(fields, min_size=1, max_size=5), st.sampled_from([0, 1, 4]), st.integers(0, 1 << 40))
def test_every_batch_gives_the_same(
    records: list[tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int]],
    codec: int,
    base: int,
) -> None:
    batch = altered(
        build_batch([(*record[:3], record[3]) for record in records], codec=codec), base_offset=base
    )
    assert keyed_records(batch) == slowly(batch)


def test_offsets_of_many_records_take_more_bytes() -> None:
    batch = build_batch([(b"%d" % number, None, (), 5) for number in range(9000)])
    assert keyed_records(batch) == slowly(batch)


@pytest.mark.parametrize("base_timestamp", [-(1 << 63), -(1 << 62), 1 << 62, (1 << 63) - 1])
def test_timestamps_at_the_end_of_time(base_timestamp: int) -> None:
    batch = altered(build_batch([(b"k", b"v", (), 1), (b"k", b"v", (), 3)]), base_timestamp=base_timestamp)
    assert outcome(batch, quickly=True) == outcome(batch, quickly=False)


@given(st.data())
def test_damaged_records_are_refused_alike(data: st.DataObject) -> None:
    whole = build_batch([(b"key", b"value", (), 1), (None, b"v" * 70, (), 2), (b"k" * 64, None, (), 200)])
    body = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(HEADER_BYTES, len(body) - 1))
        body[place] = data.draw(st.integers(0, 255))
    assert outcome(bytes(body), quickly=True) == outcome(bytes(body), quickly=False)
