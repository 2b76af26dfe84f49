"""What compaction learns from batches, those that cannot be read among them."""

from __future__ import annotations

from gateway.log.compaction.reading import clean, learn
from gateway.log.compaction.rules import NewestOffsets
from gateway.log.compaction.transactions import TransactionsGoneThrough
from wireproto.records.builder import build_batch
from wireproto.records.header import read_header
from wireproto.records.signing import sign

NOW = 1_700_000_000_000


def test_a_batch_that_cannot_be_read_takes_no_record_from_others() -> None:
    """Not even by those before the damaged one: whoever loads groups passes it over as a whole."""
    good = build_batch([(b"key", b"old", [], NOW)], base_offset=0)
    two = build_batch([(b"key", b"new", [], NOW), (b"other", b"", [], NOW)], base_offset=1)
    damaged = sign(read_header(two), two[61:-1])
    newest = NewestOffsets()
    assert learn(newest, [good, damaged], 0, TransactionsGoneThrough())
    assert newest.upto == 3
    left = clean(newest, [good, damaged], NOW, 0, 2, TransactionsGoneThrough())
    assert [batch for _, batch in left.batches] == [good, damaged]
    assert (left.records_removed, left.unreadable) == (0, 1)
