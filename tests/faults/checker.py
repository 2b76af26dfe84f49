"""Judges a history: was every promise kept? Pure, and itself tested with histories that break each promise.

The categories are those of Jepsen's Kafka checker (`jepsen/src/jepsen/tests/kafka.clj`) that apply without
transactions: lost, duplicate, inconsistent offset, phantom (a record that nobody sent), unseen (by a group),
skipped and non-monotonic (of a reader's offsets; "reordered" of a producer's records), high watermark and
leader epoch back, members differ; and some of our own. The reader named "end" reads everything after the last
fault.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from tests.faults.history import Asked, Epoch, Led, Operation, Result, Seen, Sent, Watermark

END = "end"
Key = tuple[str, int]
T = TypeVar("T")
Place = tuple[int, int]


@dataclass(frozen=True)
class Problem:
    """A broken promise: its category and where."""

    kind: str
    detail: str


@dataclass
class _Facts:
    sent: dict[Key, Sent] = field(default_factory=dict)
    acked: dict[Key, int] = field(default_factory=dict)
    failed: set[Key] = field(default_factory=set)
    seen: list[Seen] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def check(history: Iterable[Operation], *, idempotent: bool = True) -> list[Problem]:
    """Every broken promise of a history, in no particular order.

    Args:
        idempotent: the producers were, so that no record may be there twice nor out of their order.
    """
    facts = _collect(history)
    facts.problems += _wrong_content(facts)
    facts.problems += _inconsistent_offsets(facts)
    facts.problems += _lost(facts)
    facts.problems += _gaps(facts)
    facts.problems += _unseen(facts)
    if idempotent:
        facts.problems += _duplicates(facts)
        facts.problems += _reordered(facts)
    return facts.problems


def _collect(history: Iterable[Operation]) -> _Facts:
    facts = _Facts()
    told = _Told()
    for operation in history:
        facts.problems += told.hear(operation)
        match operation:
            case Sent(producer, number):
                facts.sent[producer, number] = operation
            case Result(producer, number, "ok", offset):
                facts.acked[producer, number] = offset
            case Result(producer, number, "fail"):
                facts.failed.add((producer, number))
            case Seen():
                facts.seen.append(operation)
            case _:
                pass
    facts.problems += _below_watermark(facts, told.watermarks)
    return facts


class _Told:
    """What servers have told, which never goes back."""

    def __init__(self) -> None:
        self.watermarks: dict[int, int] = {}
        """The highest that any has told."""
        self._when_asked: dict[str, dict[int, int]] = {}
        """The same, when this server was asked: two answers at once may be in any order."""
        self._epochs: dict[tuple[str, int], int] = {}
        """By server: one may hear of a new leader later than another."""
        self._log: dict[int, int] = {}

    def hear(self, operation: Operation) -> Iterator[Problem]:
        match operation:
            case Asked(server):
                self._when_asked[server] = dict(self.watermarks)
            case Watermark(partition, offset, server):
                before = self._when_asked.get(server, self.watermarks).get(partition, 0)
                if offset < before:
                    where = f"partition {partition}{f' at {server}' if server else ''}"
                    yield Problem("high watermark back", f"{where}: {offset} after {before}")
                self.watermarks[partition] = max(self.watermarks.get(partition, 0), offset)
            case Epoch(partition, epoch, server):
                yield from self._epoch(self._epochs, (server, partition), epoch)
            case Led(partition, offset, epoch):
                yield from self._epoch(self._log, partition, epoch, f" at {offset}")

    def _epoch(self, highest: dict[T, int], place: T, epoch: int, where: str = "") -> Iterator[Problem]:
        before = highest.get(place, -1)
        if epoch < before:
            yield Problem("leader epoch back", f"{place}{where}: {epoch} after {before}")
        highest[place] = max(before, epoch)


def _below_watermark(facts: _Facts, watermarks: dict[int, int]) -> Iterator[Problem]:
    """What was once visible stays: the end's read reaches at least every watermark."""
    ends: dict[int, int] = defaultdict(int)
    for one in facts.seen:
        if one.reader == END:
            ends[one.partition] = max(ends[one.partition], one.offset + 1)
    for partition, offset in watermarks.items():
        if ends[partition] < offset:
            yield Problem(
                "unread below the watermark", f"partition {partition}: read to {ends[partition]} of {offset}"
            )


def _wrong_content(facts: _Facts) -> Iterator[Problem]:
    for one in facts.seen:
        key = (one.producer, one.number)
        sent = facts.sent.get(key)
        where = f"{one.partition}/{one.offset} {key}"
        if sent is None:
            yield Problem("phantom", where)
        elif not one.digest or one.digest != sent.digest:
            yield Problem("wrong content", where)
        elif one.partition != sent.partition:
            yield Problem("wrong partition", f"{where}: sent to {sent.partition}")
        elif key in facts.failed:
            yield Problem("refused but there", where)


def _inconsistent_offsets(facts: _Facts) -> Iterator[Problem]:
    """One offset has one record, for every reader and for the acknowledgement."""
    holds: dict[Place, Key] = {}
    for one in facts.seen:
        key, place = (one.producer, one.number), (one.partition, one.offset)
        if holds.setdefault(place, key) != key:
            yield Problem("inconsistent offset", f"{place} holds {holds[place]} and {key}")
    for key, offset in facts.acked.items():
        sent = facts.sent.get(key)
        if sent is None:
            yield Problem("acknowledged but never sent", f"{key}")
        elif offset >= 0 and holds.get((sent.partition, offset), key) != key:
            yield Problem("inconsistent offset", f"{key} acknowledged at {offset}, which holds another")


def _lost(facts: _Facts) -> Iterator[Problem]:
    """Every acknowledged record is found at the end, where the acknowledgement said."""
    at_end = {(one.producer, one.number, one.offset) for one in facts.seen if one.reader == END}
    anywhere = {(producer, number) for producer, number, _ in at_end}
    for key, offset in facts.acked.items():
        if key not in anywhere if offset < 0 else (*key, offset) not in at_end:
            yield Problem("lost", f"{key} acknowledged at {offset}")


def _gaps(facts: _Facts) -> Iterator[Problem]:
    """Each reader meets every offset from its first to its last once, upwards."""
    last: dict[tuple[str, int], int] = {}
    for one in facts.seen:
        reader = (one.reader, one.partition)
        expected = last[reader] + 1 if reader in last else (0 if one.reader == END else one.offset)
        if one.offset != expected:
            kind = "skipped" if one.offset > expected else "non-monotonic"
            yield Problem(kind, f"{reader}: {one.offset}, expected {expected}")
        last[reader] = one.offset


def _unseen(facts: _Facts) -> Iterator[Problem]:
    """The members of a group have read together what there is."""
    groups: dict[str, set[Place]] = defaultdict(set)
    everything: set[Place] = set()
    for one in facts.seen:
        group, slash, _ = one.reader.partition("/")
        if slash:
            groups[group].add((one.partition, one.offset))
        elif one.reader == END:
            everything.add((one.partition, one.offset))
    for group, found in groups.items():
        for place in sorted(everything - found):
            yield Problem("unseen", f"{place} by group {group}")


def _duplicates(facts: _Facts) -> Iterator[Problem]:
    places: dict[Key, set[Place]] = defaultdict(set)
    for one in facts.seen:
        places[one.producer, one.number].add((one.partition, one.offset))
    for key, found in places.items():
        if len(found) > 1:
            yield Problem("duplicate", f"{key} at {sorted(found)}")


def _reordered(facts: _Facts) -> Iterator[Problem]:
    """A producer's records stand in the order in which it sent them, partition by partition."""
    latest: dict[tuple[str, int], int] = {}
    for one in sorted((s for s in facts.seen if s.reader == END), key=lambda s: (s.partition, s.offset)):
        run = (one.producer, one.partition)
        if one.number < latest.get(run, -1):
            yield Problem("reordered", f"{run}: {one.number} after {latest[run]}")
        latest[run] = one.number


def members_differ(contents: Mapping[str, Mapping[str, Sequence[bytes]]]) -> list[Problem]:
    """Where members do not keep the same records under the same addresses.

    Args:
        contents: member -> address -> its records from sequence 0 on. An address without records is as good
            as none.
    """
    return list(_differences({m: {a: list(r) for a, r in c.items() if r} for m, c in contents.items()}))


def _differences(contents: Mapping[str, Mapping[str, list[bytes]]]) -> Iterator[Problem]:
    (first, one), *others = contents.items()
    if not one:
        yield Problem("members differ", f"{first} has nothing")
    for second, other in others:
        for address in sorted(one.keys() | other.keys()):
            here, there = one.get(address, []), other.get(address, [])
            if here != there:
                pairs = enumerate(zip(here, there, strict=False))
                other_at = next((sequence for sequence, (a, b) in pairs if a != b), None)
                which = "one goes on" if other_at is None else f"sequence {other_at} is not the same"
                yield Problem(
                    "members differ",
                    f"address {address}: {len(here)} records in {first}, {len(there)} in {second}; {which}",
                )
