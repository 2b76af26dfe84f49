"""A history, put in order: transactions and what became of them, what readers saw, what is stored."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from tests.faults.transactions.history import (
    COMMITTED,
    Acked,
    Asked,
    Closed,
    Ended,
    Ending,
    Event,
    From,
    Known,
    Offsets,
    OfTransaction,
    Operation,
    Polled,
    Read,
    Sending,
    Stable,
    Stored,
    transaction_of,
)

Place = tuple[str, int]
"""Topic and partition."""

NEVER: Final = 1 << 62
"""A time that does not come."""


@dataclass
class Transaction:
    """What a client says of one."""

    name: str
    writes: dict[str, Place] = field(default_factory=dict)
    """By value, in the order in which they were sent."""
    acked: dict[str, int] = field(default_factory=dict)
    """By value, where it is."""
    polled: list[tuple[Place, int, str]] = field(default_factory=list)
    offsets: list[tuple[str, Place, int]] = field(default_factory=list)
    """Those that were sent along: the group, the partition, the offset."""
    commit_asked: int = NEVER
    """When."""
    ended: set[tuple[bool, str]] = field(default_factory=set)
    """Commit or abort, and the outcome."""

    @property
    def outcome(self) -> str:
        """Committed, aborted or unknown.

        What nobody asked to commit is aborted, also when its client was killed. A commit whose outcome is
        unknown and that was followed by an abort that was done is aborted: a coordinator does not answer so
        once it has decided to commit.
        """
        if (True, "ok") in self.ended:
            return "committed"
        if self.commit_asked == NEVER or (False, "ok") in self.ended or (True, "fail") in self.ended:
            return "aborted"
        return "unknown"

    @property
    def order(self) -> tuple[str, tuple[int, ...]]:
        """Its worker, and its place among that one's transactions."""
        worker, life, number = self.name.split("/")
        return worker, (*map(int, life.split(".")), int(number))


@dataclass(frozen=True, slots=True)
class Sight:
    """A record that a reader saw: in which transaction, if it was a member of a group."""

    place: Place
    offset: int
    value: str
    at: int
    transaction: str = ""


@dataclass
class Reader:
    """One that nothing sets back."""

    name: str
    committed: bool
    begins: dict[Place, int] = field(default_factory=dict)
    """Where it was told to; members of groups begin at what they see first."""
    seen: list[Sight] = field(default_factory=list)


@dataclass
class Facts:
    """All of a history."""

    transactions: dict[str, Transaction] = field(default_factory=dict)
    readers: dict[str, Reader] = field(default_factory=dict)
    stored: dict[Place, Stored] = field(default_factory=dict)
    told: list[Asked | Stable] = field(default_factory=list)
    known: list[Known] = field(default_factory=list)
    closed: list[Closed] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.written: dict[str, tuple[Place, Transaction]] = {}
        """By value."""
        self.committed: set[str] = set()
        """Transactions that are: by their outcome, or, of those that may be either, by what was shown."""
        self._visible: dict[tuple[Place, bool], list[int]] = {}

    def visible(self, place: Place, *, committed: bool) -> list[int]:
        """The offsets that a reader of this partition is to see, lowest first; once all is collected."""
        found = self._visible.get((place, committed))
        if found is None:
            records = self.stored[place].records if place in self.stored else []
            found = [offset for offset, _, _, end in records if not committed or end == "commit"]
            self._visible[place, committed] = found
        return found


def collect(history: Iterable[Operation]) -> Facts:
    """Put in order. Each client's operations must be in the order in which it told them."""
    facts = Facts()
    for one in history:
        match one:
            case From() | Read():
                _reader_told(facts, one)
            case Stored(topic, partition):
                facts.stored[topic, partition] = one
            case Asked() | Stable():
                facts.told.append(one)
            case Known():
                facts.known.append(one)
            case Closed():
                facts.closed.append(one)
            case Event():
                pass
            case _:
                _client_told(facts, one)
    facts.committed = _committed(facts)
    return facts


def _reader_told(facts: Facts, one: From | Read) -> None:
    if isinstance(one, From):
        begins = {(topic, partition): offset for topic, partition, offset in one.places}
        facts.readers[one.reader] = Reader(one.reader, one.isolation == COMMITTED, begins)
    else:
        _see(facts.readers[one.reader], one.records, one.at, "")


def _client_told(facts: Facts, one: OfTransaction) -> None:
    transaction = facts.transactions.setdefault(one.transaction, Transaction(one.transaction))
    match one:
        case Sending(_, records):
            for topic, partition, value in records:
                transaction.writes[value] = topic, partition
                facts.written[value] = (topic, partition), transaction
        case Acked(_, acked):
            transaction.acked.update({value: offset for _, _, value, offset in acked})
        case Polled(name, reader, seen, at):
            _see(facts.readers.setdefault(reader, Reader(reader, committed=True)), seen, at, name)
            transaction.polled += [((t, p), offset, value) for t, p, offset, value in seen]
        case Offsets(_, group, offsets):
            transaction.offsets += [(group, (t, p), offset) for t, p, offset in offsets]
        case Ending(_, commit, at):
            if commit:
                transaction.commit_asked = at
        case Ended(_, commit, outcome):
            transaction.ended.add((commit, outcome))


def _see(reader: Reader, records: list[tuple[str, int, int, str]], at: int, transaction: str) -> None:
    reader.seen += [Sight((t, p), offset, value, at, transaction) for t, p, offset, value in records]


def _committed(facts: Facts) -> set[str]:
    shown = {
        transaction_of(sight.value)
        for reader in facts.readers.values()
        if reader.committed
        for sight in reader.seen
    }
    marked = {
        transaction_of(value)
        for stored in facts.stored.values()
        for _, value, _, end in stored.records
        if end == "commit"
    }
    return {
        name
        for name, one in facts.transactions.items()
        if one.outcome == "committed" or (one.outcome == "unknown" and name in shown | marked)
    }
