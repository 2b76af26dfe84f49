"""Judges a history of transactions: was every promise kept? Pure, and itself tested with histories that break
each promise.

The categories are those of Jepsen's Kafka workload (`jepsen/src/jepsen/tests/kafka.clj`): aborted reads
(G1a), intermediate reads (G1b), cycles (G0, G1c), lost writes, inconsistent offsets, duplicates, phantoms,
what readers skip, see twice or do not see, inside one transaction ("internal") and from one to the next; and
some more: transactions of which a reader has seen a part, last stable offsets that go back or past an open
transaction, offsets of groups that do not fit what was copied, producers that end for good.

`ALLOWED` has what Kafka does not promise. Nor does it promise that a transaction that was answered is visible
at once (EndTxn is answered when the decision is durable, before the markers), nor at one moment in all
partitions: a reader may have seen a part while it is still before the rest.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from tests.faults.checker import Problem
from tests.faults.transactions.copying import check_copying
from tests.faults.transactions.cycles import cycles, edges_of_reads, edges_of_writes, united
from tests.faults.transactions.facts import Facts, Place, Reader, Sight, collect
from tests.faults.transactions.history import Asked, Operation, transaction_of

END: Final = "end"
"""The reader that reads everything after the last fault."""

TAILS: Final = (END, "committed", "uncommitted")
"""Readers that read to the end."""

ALLOWED: Final = {
    "G0": "writes of transactions stand between each other's, in other orders in other partitions: KIP-98"
    " keeps a transaction's records from readers until it ends, and orders nothing. Jepsen's workload allows"
    " it likewise.",
    "G1c by writes": "a cycle that has the order of writes among its edges, as in G0.",
}
"""By kind, why it may be."""


@dataclass(frozen=True)
class Verdict:
    """What was found."""

    problems: list[Problem]
    allowed: Counter[str]
    """How many of each kind that may be."""
    counts: Counter[str]
    """How much there was to judge."""


def check(history: Iterable[Operation]) -> Verdict:
    """Every broken promise of a history, in no particular order."""
    facts = collect(history)
    found = [
        *_wrong_content(facts),
        *_inconsistent_offsets(facts),
        *_duplicates(facts),
        *_lost(facts),
        *_markers(facts),
        *_reads(facts),
        *_in_part(facts),
        *_reordered(facts),
        *_stable_offsets(facts),
        *_cycles(facts),
        *check_copying(facts),
        *(
            Problem("ended for good", f"{one.worker}/{one.life}: {one.why}")
            for one in facts.closed
            if one.fatal
        ),
    ]
    allowed = Counter(each.kind for each in found if each.kind in ALLOWED)
    return Verdict([each for each in found if each.kind not in ALLOWED], allowed, _counts(facts))


def _counts(facts: Facts) -> Counter[str]:
    everything = facts.transactions.values()
    counts = Counter(one.outcome for one in everything if one.writes or one.offsets)
    counts["empty"] = len(everything) - counts.total()
    counts["records"] = sum(len(each.records) for each in facts.stored.values())
    counts["sights"] = sum(len(reader.seen) for reader in facts.readers.values())
    counts["lives"] = len(facts.closed)
    return counts


def _sights(facts: Facts) -> Iterator[Sight]:
    for reader in facts.readers.values():
        yield from reader.seen
    for place, stored in facts.stored.items():
        for offset, value, _, _ in stored.records:
            yield Sight(place, offset, value, 0)


def _wrong_content(facts: Facts) -> Iterator[Problem]:
    for place, offset, value in {(sight.place, sight.offset, sight.value) for sight in _sights(facts)}:
        where = f"{place}/{offset}: {value!r}"
        sent = facts.written.get(value)
        if sent is None:
            yield Problem("phantom", where)
        elif sent[0] != place:
            yield Problem("wrong partition", f"{where} was sent to {sent[0]}")


def _inconsistent_offsets(facts: Facts) -> Iterator[Problem]:
    """One offset has one record, for every reader and for the acknowledgement."""
    holds: dict[tuple[Place, int], str] = {}
    for sight in _sights(facts):
        here = sight.place, sight.offset
        if holds.setdefault(here, sight.value) != sight.value:
            yield Problem("inconsistent offset", f"{here} holds {holds[here]} and {sight.value}")
    for one in facts.transactions.values():
        for value, offset in one.acked.items():
            here = one.writes[value], offset
            if offset >= 0 and holds.get(here, value) != value:
                yield Problem(
                    "inconsistent offset", f"{value} acknowledged at {here}, which holds {holds[here]}"
                )


def _duplicates(facts: Facts) -> Iterator[Problem]:
    places: dict[str, set[tuple[Place, int]]] = defaultdict(set)
    for sight in _sights(facts):
        places[sight.value].add((sight.place, sight.offset))
    for value, found in places.items():
        if len(found) > 1:
            yield Problem("duplicate", f"{value} at {sorted(found)}")


def _lost(facts: Facts) -> Iterator[Problem]:
    """What was committed is shown at the end; what was acknowledged is stored, whatever became of it."""
    stored = {value for each in facts.stored.values() for _, value, _, _ in each.records}
    end = facts.readers.get(END)
    shown = {sight.value for sight in end.seen} if end else set()
    for one in facts.transactions.values():
        for value, place in one.writes.items():
            at = one.acked.get(value)
            if one.name in facts.committed and value not in shown:
                yield Problem("lost", f"{value} of {place}, committed, acknowledged at {at}")
            elif at is not None and value not in stored:
                yield Problem("lost", f"{value} of {place}, acknowledged at {at}, {one.outcome}")


def _markers(facts: Facts) -> Iterator[Problem]:
    """Each transaction has ended as its client was told, in all partitions alike."""
    for place, stored in facts.stored.items():
        for offset, value, who, end in stored.records:
            one = facts.transactions.get(transaction_of(value))
            where = f"{place}/{offset}: {value} of producer {who}"
            if not end:
                yield Problem("left open", where)
            elif one is not None and (end == "commit") != (one.name in facts.committed):
                yield Problem("other marker", f"{where} has a {end}, and its client was told: {one.outcome}")


def _reads(facts: Facts) -> Iterator[Problem]:
    for reader in facts.readers.values():
        if reader.committed:
            yield from _not_committed(facts, reader)
        yield from _order(facts, reader)


def _not_committed(facts: Facts, reader: Reader) -> Iterator[Problem]:
    for sight in reader.seen:
        one = facts.transactions.get(transaction_of(sight.value))
        where = f"{sight.place}/{sight.offset}: {sight.value} by {reader.name}"
        if one is None:
            continue  # a phantom
        if one.outcome == "aborted":
            yield Problem("aborted read", where)
        elif sight.at < one.commit_asked:
            yield Problem("intermediate read", f"{where}, {one.commit_asked - sight.at} ns before its commit")


def _order(facts: Facts, reader: Reader) -> Iterator[Problem]:
    """Each reader meets every record that it is to see once, upwards, from where it began."""
    next_offset = dict(reader.begins)
    transactions: dict[Place, str] = {}
    for sight in reader.seen:
        place, offset = sight.place, sight.offset
        visible = facts.visible(place, committed=reader.committed)
        expected = next_offset.get(place, offset)
        same = sight.transaction and transactions.get(place) == sight.transaction
        internal = f"internal, {sight.transaction}: " if same else ""
        skipped = visible[bisect_left(visible, expected) : bisect_left(visible, offset)]
        if offset < expected:
            kind = "internal non-monotonic" if same else "non-monotonic"
            yield Problem(kind, f"{internal}{reader.name} {place}: {offset} after {expected - 1}")
        elif skipped:
            kind = "internal skip" if same else "skipped"
            yield Problem(
                kind, f"{internal}{reader.name} {place}: {skipped[:10]} between {expected} and {offset}"
            )
        next_offset[place], transactions[place] = offset + 1, sight.transaction
    if reader.name in TAILS:
        yield from _unseen(facts, reader, next_offset)


def _unseen(facts: Facts, reader: Reader, next_offset: dict[Place, int]) -> Iterator[Problem]:
    for place in facts.stored:
        visible = facts.visible(place, committed=reader.committed)
        if left := visible[bisect_left(visible, next_offset.get(place, 0)) :]:
            yield Problem("unseen", f"{reader.name} {place}: {left[:10]}")


def _in_part(facts: Facts) -> Iterator[Problem]:
    """Of a transaction below its positions a reader sees all or nothing."""
    at = {value: offset for stored in facts.stored.values() for offset, value, _, _ in stored.records}
    for reader in facts.readers.values():
        if not reader.committed or not reader.begins:
            continue
        seen, ends = set(), dict(reader.begins)
        for sight in reader.seen:
            seen.add(sight.value)
            ends[sight.place] = max(ends.get(sight.place, 0), sight.offset + 1)
        for name in {transaction_of(value) for value in seen}:
            one = facts.transactions.get(name)
            missing = [
                f"{value} at {place}/{at.get(value)}"
                for value, place in (one.writes.items() if one else ())
                if value not in seen and reader.begins.get(place, 0) <= at.get(value, -1) < ends.get(place, 0)
            ]
            if missing:
                yield Problem("seen in part", f"{name} by {reader.name} without {missing}")


def _reordered(facts: Facts) -> Iterator[Problem]:
    """A worker's records stand in the order in which it sent them, over all its lives: the next one has
    fenced the one before.
    """
    numbers = {
        value: (one.order[0], (one.order[1], number))
        for one in facts.transactions.values()
        for number, value in enumerate(one.writes)
    }
    for place, stored in facts.stored.items():
        latest: dict[str, tuple[tuple[int, ...], int]] = {}
        for offset, value, _, _ in stored.records:
            if value not in numbers:
                continue  # a phantom
            worker, now = numbers[value]
            if now < latest.get(worker, now):
                yield Problem("reordered", f"{place}/{offset}: {value} after {latest[worker]}")
            latest[worker] = max(now, latest.get(worker, now))


def _stable_offsets(facts: Facts) -> Iterator[Problem]:
    highest: dict[Place, int] = {}
    when_asked: dict[str, dict[Place, int]] = {}
    told: dict[Place, list[tuple[int, int]]] = defaultdict(list)
    """When, and the highest of all until then."""
    for one in facts.told:
        if isinstance(one, Asked):
            when_asked[one.server] = dict(highest)
            continue
        for topic, partition, offset in one.offsets:
            place = topic, partition
            before = when_asked[one.server].get(place, 0)
            if offset < before:
                where = f"{place} at {one.server}"
                yield Problem("last stable offset back", f"{where}: {offset} after {before}")
            highest[place] = max(highest.get(place, 0), offset)
            told[place].append((one.at, highest[place]))
    yield from _stable_past_open(facts, told)


def _stable_past_open(facts: Facts, told: dict[Place, list[tuple[int, int]]]) -> Iterator[Problem]:
    """Nobody is told an offset beyond a record before its commit was asked for."""
    for place, stored in facts.stored.items():
        for offset, value, _, _ in stored.records:
            one = facts.transactions.get(transaction_of(value))
            if one is None or one.name not in facts.committed:
                continue  # an aborted one may have been aborted by others, and nobody knows when
            before = bisect_right(told[place], (one.commit_asked, -1))
            stable = told[place][before - 1][1] if before else 0
            if stable > offset:
                what = f"{place}/{offset}: {value}, and {stable} is told before its commit"
                yield Problem("last stable offset past an open transaction", what)


def _cycles(facts: Facts) -> Iterator[Problem]:
    logs = [
        [name for _, value, _, end in each.records if (name := transaction_of(value)) in facts.committed]
        for each in facts.stored.values()
    ]
    read = {
        name: {transaction_of(value) for _, _, value in facts.transactions[name].polled}
        for name in facts.committed
    }
    writes, reads = edges_of_writes(logs), edges_of_reads(read)
    for kind, found in (
        ("G0", cycles(writes)),
        ("G1c", cycles(reads)),
        ("G1c by writes", cycles(united(writes, reads), through=reads)),
    ):
        for nodes in found:
            yield Problem(kind, f"{len(nodes)} transactions: {nodes[:5]}")
