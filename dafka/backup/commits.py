"""Committed offsets that lie beyond what is restored: the records that set them to the ends. Pure.

All of a backup needs none: nobody can have committed what was not there. A restore to an earlier time, or
one that accepts a loss, cuts logs, and commits are kept.

What is committed in a transaction counts when its marker comes, by its own place in the log, as for the
gateway that loads it (`gateway.journal.replay`). One that is still open at the end may be carried out after
the restore: what it would set beyond an end is committed anew as it was before it, which has the last word.
So is what a transaction has committed after the time that is restored: its records are left out or aborted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from dafka.backup.appended import batched
from gateway.groups.records import (
    CommittedOffset,
    OffsetRecord,
    decode_record,
    offset_key,
    offset_value,
)
from gateway.journal.fields import MalformedRecord, UnknownRecord
from wireproto.records.control import read_marker
from wireproto.records.errors import InvalidBatch
from wireproto.records.header import Buffer, read_header
from wireproto.records.keyed import keyed_records

COMMITS_TOPIC: Final = "__consumer_offsets"

RECORDS_IN_BATCH: Final = 500
"""Commits in one batch: some tens of kilobytes."""

Commit = tuple[str, str, int]
"""Group, topic, partition."""


_Placed = tuple[int, CommittedOffset | None]
"""A record's offset, and what it says; None is a tombstone."""


class Commits:
    """What a partition of `__consumer_offsets` says in the end."""

    def __init__(self, before_ms: int | None = None, cleaned_to: int = -1) -> None:
        """What transactions have committed after `before_ms` does not count, unless it lies below
        `cleaned_to`: a compaction may have taken away what was committed before that.
        """
        self._before_ms = before_ms
        self._cleaned_to = cleaned_to
        self._undone: dict[Commit, int] = {}
        """The offsets of records that would count if they had not been committed later."""
        self._last: dict[Commit, _Placed] = {}
        self._pending: dict[int, dict[Commit, _Placed]] = {}
        """Of open transactions, by their producers' ids."""

    def feed(self, batches: Iterable[Buffer]) -> None:
        """The next batches of it. What cannot be read is passed over, as the gateway does that loads it."""
        for batch in batches:
            try:
                self._feed(batch)
            except InvalidBatch:
                continue

    def _feed(self, batch: Buffer) -> None:
        """Raises InvalidBatch."""
        header = read_header(batch)
        if header.is_control:
            is_commit = read_marker(bytes(batch)).is_commit
            is_later = self._before_ms is not None and header.max_timestamp > self._before_ms
            self._end(header.producer_id, is_commit=is_commit, is_later=is_later)
            return
        found = self._last
        if header.is_transactional:
            found = self._pending.setdefault(header.producer_id, {})
        for offset, key, value in keyed_records(batch):
            try:
                record = decode_record(key, value)
            except (MalformedRecord, UnknownRecord):
                continue
            if isinstance(record, OffsetRecord):
                commit = record.group_id, record.topic, record.partition
                found[commit] = offset, record.value
                if record.value is None:
                    for pending in self._pending.values():
                        pending.pop(commit, None)

    def _end(self, producer_id: int, *, is_commit: bool, is_later: bool) -> None:
        for commit, placed in self._pending.pop(producer_id, {}).items():
            if not is_commit:
                continue
            if is_later and placed[0] >= self._cleaned_to:
                self._undone[commit] = max(placed[0], self._undone.get(commit, -1))
            elif placed[0] > self._last.get(commit, (-1, None))[0]:
                self._last[commit] = placed

    def beyond(self, ends: Mapping[tuple[str, int], int]) -> dict[Commit, CommittedOffset | None]:
        """What is to be committed instead of what lies above the end of its partition; None: nothing."""
        found: dict[Commit, CommittedOffset | None] = {}
        for commit, (_, value) in self._last.items():
            if value is not None and _end_of(ends, commit, value) < value.offset:
                found[commit] = _cut(ends, commit, value)
        for pending in self._pending.values():
            for commit, (place, value) in pending.items():
                last_place, last = self._last.get(commit, (-1, None))
                if value is not None and last_place < place and _end_of(ends, commit, value) < value.offset:
                    found[commit] = None if last is None else _cut(ends, commit, last)
        for commit, place in self._undone.items():
            last_place, last = self._last.get(commit, (-1, None))
            if last_place < place:
                found[commit] = None if last is None else _cut(ends, commit, last)
        return found


def _end_of(ends: Mapping[tuple[str, int], int], commit: Commit, value: CommittedOffset) -> int:
    return ends.get(commit[1:], value.offset)


def _cut(ends: Mapping[tuple[str, int], int], commit: Commit, value: CommittedOffset) -> CommittedOffset:
    end = _end_of(ends, commit, value)
    return value._replace(offset=end, leader_epoch=-1) if end < value.offset else value


def batches_of(
    commits: Mapping[Commit, CommittedOffset | None], base_offset: int, leader_epoch: int, now_ms: int
) -> list[bytes]:
    """These commits as batches of a log that goes on at `base_offset`."""
    records = [
        (offset_key(*commit), None if value is None else offset_value(value), (), now_ms)
        for commit, value in sorted(commits.items())
    ]
    return batched(records, RECORDS_IN_BATCH, base_offset, leader_epoch)
