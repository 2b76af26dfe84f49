"""A verdict as text for people, and as JSON for programs. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from dafka_pipeline.audit.coverage import BEHIND, GONE, LEFT, LEFT_OUT, RIGHT
from dafka_pipeline.audit.verdict import (
    ALTERED,
    DOUBLED_LEFT,
    DOUBLED_RIGHT,
    KINDS,
    MISSING_LEFT,
    MISSING_RIGHT,
    MOVED,
    SWAPPED,
    Difference,
    Verdict,
)

FORMAT: Final = 1
"""The version of the JSON. Keys may come, and none goes or changes its meaning within a format."""
_WORDS: Final = {
    MISSING_LEFT: "missing on the left",
    MISSING_RIGHT: "missing on the right",
    DOUBLED_LEFT: "there more often on the left",
    DOUBLED_RIGHT: "there more often on the right",
    ALTERED: "altered",
    SWAPPED: "pairs swapped (each has the other's contents)",
    MOVED: "moved (at another place on the right)",
}


def as_text(verdict: Verdict) -> str:
    """The verdict first, then what differs, then what was not compared."""
    return "\n".join(_lines(verdict))


def as_json(verdict: Verdict) -> dict[str, Any]:
    """Everything, with stable keys."""
    return {
        "audit": FORMAT,
        "equal": verdict.equal,
        "left": {"name": verdict.left, **verdict.pins[LEFT]},
        "right": {"name": verdict.right, **verdict.pins[RIGHT]},
        "options": {
            "range_offsets": verdict.range_offsets,
            "hash": "sha256" if verdict.strong else "xxhash64",
            "timestamp_type_compared": not verdict.ignore_type,
            "compacted": verdict.compacted_mode,
        },
        "records": {"left": _total(verdict, LEFT), "right": _total(verdict, RIGHT)},
        "ranges": verdict.ranges,
        "ranges_read_again": verdict.read_again,
        "differences": {kind.replace(" ", "_"): verdict.counts.get(kind, 0) for kind in KINDS},
        "named": [_named(one) for one in verdict.named],
        "absent": [one._asdict() for one in verdict.absent],
        "strays": [
            {"side": side, **place._asdict(), "records": rows} for side, place, rows in verdict.strays
        ],
        "compared": [
            {
                "topic": place.topic,
                "partition": place.partition,
                "start": one.start,
                "end": one.end,
                "records": {"left": one.left, "right": one.right},
            }
            for place, one in sorted(verdict.compared.items())
        ],
        "not_compared": [
            {**one.span._asdict(), "only": one.side, "why": one.why.replace(" ", "_")}
            for one in verdict.not_compared
        ],
        "known_gaps": dict(sorted(verdict.known_gaps.items())),
        "taken_by_compaction": dict(sorted(verdict.compacted.items())),
        "notes": verdict.notes,
        "seconds": verdict.seconds,
    }


def _named(one: Difference) -> dict[str, Any]:
    found: dict[str, Any] = {
        "kind": one.kind.replace(" ", "_"),
        **one.place._asdict(),
        "fields": list(one.fields),
        "times": {"left": one.times[0], "right": one.times[1]},
        "details": dict(one.details),
    }
    if one.other is not None:
        found["other"] = one.other._asdict()
    return found


def _lines(verdict: Verdict) -> Iterator[str]:
    left, right = _total(verdict, LEFT), _total(verdict, RIGHT)
    partitions = len(verdict.compared)
    if not verdict.equal:
        yield f"DIFFERENT: {_what(verdict)}"
    elif not left and not right:
        yield "EQUAL, and nothing to compare: there is no record in what both sides have."
    elif verdict.compacted:
        yield f"EQUAL but for compaction: {left:,} records on the left, {right:,} on the right."
    else:
        yield f"EQUAL: {left:,} records in {partitions} {_plural(partitions, 'partition')}."
    yield f"  left   {verdict.left}: {left:,} records compared"
    yield f"  right  {verdict.right}: {right:,} records compared"
    for one in verdict.absent:
        what = one.topic if one.partition is None else f"partition {one.topic}/{one.partition}"
        yield f"  {what} is not on the {one.side}"
    for side, place, rows in verdict.strays:
        what = f"{rows:,} {_plural(rows, 'record')} of {place.topic}/{place.partition} on the {side}"
        yield f"  {what}: behind the end that the archive's own commits say, so no archive job put them there"
    for kind in KINDS:
        yield from _kind(verdict, kind)
    yield from _apart(verdict)
    for note in verdict.notes:
        yield f"  note: {note}"


def _what(verdict: Verdict) -> str:
    said = [f"{verdict.counts[kind]:,} {_WORDS[kind]}" for kind in KINDS if verdict.counts.get(kind)]
    if verdict.absent:
        what = _plural(len(verdict.absent), "topic or partition", "topics or partitions")
        said.append(f"{len(verdict.absent)} {what} absent")
    if verdict.strays:
        said.append(f"{sum(rows for *_, rows in verdict.strays):,} behind the end of their archive")
    return ", ".join(said) + "."


def _kind(verdict: Verdict, kind: str) -> Iterator[str]:
    count = verdict.counts.get(kind, 0)
    if not count:
        return
    yield f"{count:,} {_WORDS[kind]}:"
    named = [one for one in verdict.named if one.kind == kind]
    for one in named:
        yield f"  {line_of(one)}"
    if count > len(named):
        yield f"  ... and {count - len(named):,} more (--rows)"


def line_of(one: Difference) -> str:
    """One difference in a line."""
    text = str(one.place)
    if one.kind == SWAPPED:
        return f"{text} <-> {one.other}: {', '.join(one.fields)}"
    if one.kind == MOVED:
        fields = f", with another {', '.join(one.fields)}" if one.fields else ""
        return f"{text} -> {one.other}{fields}: {one.details.get('record', '')}"
    if one.kind == ALTERED:
        return f"{text}: " + "; ".join(f"{name} {one.details.get(name, '')}".rstrip() for name in one.fields)
    times = f"{one.times[0]} times on the left, {one.times[1]} on the right: " if max(one.times) > 1 else ""
    return f"{text}: {times}{one.details.get('record', '')}"


def _apart(verdict: Verdict) -> Iterator[str]:
    names = {LEFT: verdict.left, RIGHT: verdict.right}
    for side, other in ((LEFT, RIGHT), (RIGHT, LEFT)):
        for why, words in (
            (GONE, f"before {names[other]} begins (retention, or never put there)"),
            (BEHIND, f"behind the end of {names[other]}"),
            (LEFT_OUT, "left out by --from and --to"),
        ):
            spans = [one.span for one in verdict.not_compared if (one.side, one.why) == (side, why)]
            if spans:
                offsets = sum(span.length for span in spans)
                yield f"  not compared: {offsets:,} offsets of {names[side]} {words}"
    for reason, count in sorted(verdict.known_gaps.items()):
        yield f"  known gaps: {count:,} records that one side is known not to have ({reason})"
    for why, count in sorted(verdict.compacted.items()):
        yield f"  taken by compaction: {count:,} records ({why})"


def _total(verdict: Verdict, side: str) -> int:
    return sum(getattr(one, side) for one in verdict.compared.values())


def _plural(count: int, one: str, several: str = "") -> str:
    return one if count == 1 else several or f"{one}s"
