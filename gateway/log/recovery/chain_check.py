"""Whether what the catalog says of one log can be true at all. Pure; no store is asked.

Each row of the catalog has a checksum, and nothing says that a row is missing. A chain says it by itself: its
segments lie one after the other, so one that is lost leaves a hole, or a log that does not begin where it
should. What is lost at the end leaves nothing that could be seen here: the stores tell of it
(`gateway.log.recovery.verification`).

What a healthy catalog has:

* Each segment begins where the one before it ends. Compaction keeps that: what it writes covers the offsets
  of what it replaces, whichever records are left. Only below the log start may something be missing, where an
  operator has accepted a loss and the log went on at its start.
* Every segment but the last has an end. One that was being opened when its partition failed may be left open,
  and empty, beside the segment that took its place at the same offset; recovery removes it.
* Epochs never go down, and each is used up in the partition's record, which is written with the first
  segment. What a compaction has written may have a newer epoch than what follows.
* The log starts inside the chain or at its end, or at the end that an accepted loss has left.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from gateway.log.segment import Segment


def what_contradicts(segments: Sequence[Segment], record: Mapping[str, Any] | None) -> str:
    """What cannot be true of a chain, oldest segment first, and its partition's record; "" for nothing."""
    if record is None:
        known = f"it has {len(segments)} segments, and nothing else is known of the partition"
        return known if segments else ""
    log_start, known_end = record["log_start"], record.get("end", 0)
    if not segments:
        return _wrong_end(log_start, log_start, known_end)
    for segment in segments:
        if segment.epoch >= record["next_epoch"]:
            return (
                f"segment {segment.address} has leader epoch {segment.epoch}, and all of its log are below "
                f"{record['next_epoch']}"
            )
    chain = _without_abandoned(segments)
    first, last = chain[0], chain[-1]
    if first.start_offset > log_start:
        return f"its log starts at offset {log_start}, and its first segment at {first.start_offset}"
    for before, after in pairwise(chain):
        if wrong := _between(before, after, log_start):
            return wrong
    if last.end_offset is not None and (wrong := _wrong_end(last.end_offset, log_start, known_end)):
        return wrong
    return _wrong_epochs(chain)


def _wrong_end(end: int, log_start: int, known_end: int) -> str:
    """What is wrong with the chain's end. The log is known to have reached `known_end`."""
    if max(end, known_end) < log_start:
        return f"its log starts at offset {log_start}, and its last segment ends at {end}"
    if max(end, log_start) < known_end:
        return f"its log ended at offset {known_end} before, and its last segment ends at {end}"
    return ""


def _without_abandoned(segments: Sequence[Segment]) -> list[Segment]:
    """At each offset the one segment that counts: one with an end, else that of the newest epoch."""
    chain: dict[int, list[Segment]] = {}
    for segment in segments:
        chain.setdefault(segment.start_offset, []).append(segment)
    counting: list[Segment] = []
    for start in sorted(chain):
        ended = [segment for segment in chain[start] if not segment.is_open]
        counting += ended or [max(chain[start], key=lambda segment: segment.epoch)]
    return counting


def _between(before: Segment, after: Segment, log_start: int) -> str:
    """What is wrong where one segment follows another."""
    if before.end_offset is None:
        return (
            f"segment {before.address} has no end, and segment {after.address} follows it at offset "
            f"{after.start_offset}"
        )
    if after.start_offset == before.end_offset or before.end_offset < after.start_offset <= log_start:
        return ""
    return (
        f"segment {before.address} ends at offset {before.end_offset}, and the next one, {after.address}, "
        f"begins at {after.start_offset}"
    )


def _wrong_epochs(chain: Sequence[Segment]) -> str:
    written = [segment for segment in chain if not segment.is_compacted]
    for before, after in pairwise(written):
        if after.epoch < before.epoch:
            return (
                f"segment {after.address} has leader epoch {after.epoch}, and follows segment "
                f"{before.address} of epoch {before.epoch}"
            )
    return ""
