"""What an audit is asked to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from dafka_pipeline.kafka.cluster import TopicPartition

RANGE_OFFSETS: Final = 65_536
"""How many offsets one sum takes. A record that differs costs reading so many again."""
ROWS: Final = 20


@dataclass(frozen=True)
class AuditOptions:
    """How two sides are compared.

    topics: which, by the names that both sides have in their `kept`; empty: all of both.
    range_offsets: offsets of one sum; more where there would be too many sums.
    strong: SHA-256 instead of 64-bit hashes: holds against somebody who makes records collide.
    compacted: one side's log may have been compacted since: see `compacted.py`.
    ignore_type: whether a timestamp is of creation or of the append is not compared.
    rows: how many differences are named; all are counted.
    contents: whether named differences show some bytes of what differs.
    limits: from where and up to where, for partitions that are not compared whole.
    say: hears what happens, one sentence at a time.
    check: called between steps; may raise to end the audit.
    """

    topics: tuple[str, ...] = ()
    range_offsets: int = RANGE_OFFSETS
    strong: bool = False
    compacted: bool = False
    ignore_type: bool = False
    rows: int = ROWS
    contents: bool = True
    limits: Mapping[TopicPartition, tuple[int | None, int | None]] = field(default_factory=dict)
    say: Callable[[str], None] = lambda _text: None
    check: Callable[[], None] = lambda: None
