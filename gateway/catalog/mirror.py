"""The catalog's content in memory, and what a batch of transactions would do to it. Pure: no disk, clock
or task.

Transactions that arrive while one is being committed are committed together, since a commit costs an
fsync however little is in it. Each is judged on what those before it in the batch leave behind, as if
each had been alone:

::

    plan = mirror.plan([step, step, step])     # outcomes and writes; the mirror is unchanged
    <write plan.writes, fsync>
    mirror.apply(plan)                         # now reads show it
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from gateway.catalog.interface import (
    MAX_KEY_BYTES,
    MAX_OPERATIONS,
    MAX_TRANSACTION_BYTES,
    MAX_VALUE_BYTES,
    Change,
    Compare,
    CompareFailed,
    Entry,
    LeaseNotFound,
)


class Transaction(NamedTuple):
    """See `Catalog.transact`; lease 0 is none."""

    compares: Sequence[Compare]
    puts: Mapping[str, bytes]
    deletes: Sequence[str]
    lease: int = 0


class Grant(NamedTuple):
    """A new lease."""

    lease: int
    ttl_seconds: float


class Revoke(NamedTuple):
    """The end of a lease."""

    lease: int


Step = Transaction | Grant | Revoke


class Plan:
    """What a batch of steps comes to.

    `outcomes` has, per step, the revision it returns or the exception it raises. The writes are the last
    word on each key and lease, None for "gone"; `changes` are all, in order, for the watches.
    """

    __slots__ = ("changes", "entries", "leases", "outcomes", "revision")

    def __init__(self, revision: int) -> None:
        self.revision = revision
        self.outcomes: list[int | Exception] = []
        self.entries: dict[str, Entry | None] = {}
        self.leases: dict[int, float | None] = {}
        self.changes: list[Change] = []

    @property
    def changes_something(self) -> bool:
        """Whether there is anything to commit."""
        return bool(self.changes or self.leases)


class Mirror:
    """All entries and leases."""

    def __init__(
        self, entries: Iterable[Entry] = (), leases: Mapping[int, float] | None = None, revision: int = 0
    ) -> None:
        self.revision = revision
        self._entries = {entry.key: entry for entry in entries}
        self._keys = sorted(self._entries)
        self.leases = dict(leases or {})
        self._keys_of_lease: dict[int, set[str]] = {lease: set() for lease in self.leases}
        for entry in self._entries.values():
            if entry.lease in self._keys_of_lease:
                self._keys_of_lease[entry.lease].add(entry.key)

    def get(self, key: str) -> Entry | None:
        return self._entries.get(key)

    def range(self, prefix: str, *, after: str = "", limit: int | None = None) -> list[Entry]:
        found: list[Entry] = []
        first = bisect_right(self._keys, after) if after >= prefix else bisect_left(self._keys, prefix)
        for index in range(first, len(self._keys)):
            key = self._keys[index]
            if not key.startswith(prefix) or len(found) == limit:
                break
            found.append(self._entries[key])
        return found

    def until(self, entries: Iterable[Entry], revision: int) -> Plan:
        """What has changed until these are all that there is, as far as that can be told: the last change of
        each key, in order, and of those that are gone that they are.
        """
        plan = Plan(revision)
        there = {entry.key: entry for entry in entries}
        changed = [entry for entry in there.values() if entry != self._entries.get(entry.key)]
        gone = [key for key in self._keys if key not in there]
        changed.sort(key=lambda entry: entry.mod_revision)
        plan.entries.update((entry.key, entry) for entry in changed)
        plan.entries.update(dict.fromkeys(gone))
        plan.changes += [Change(entry.mod_revision, entry.key, entry.value) for entry in changed]
        plan.changes += [Change(revision, key, None) for key in gone]
        return plan

    def plan(self, steps: Iterable[Step]) -> Plan:
        """The outcome of each step, and the writes of those that succeed."""
        plan = Plan(self.revision)
        for step in steps:
            try:
                match step:
                    case Transaction():
                        self._plan_transaction(plan, step)
                    case Grant():
                        plan.leases[step.lease] = step.ttl_seconds
                    case Revoke():
                        self._plan_revoke(plan, step.lease)
            except (CompareFailed, LeaseNotFound) as refusal:
                plan.outcomes.append(refusal)
            else:
                plan.outcomes.append(plan.revision)
        return plan

    def apply(self, plan: Plan) -> None:
        """Makes the plan's writes what reads show."""
        for lease, ttl_seconds in plan.leases.items():
            if ttl_seconds is None:
                self.leases.pop(lease, None)
                self._keys_of_lease.pop(lease, None)
            else:
                self.leases[lease] = ttl_seconds
                self._keys_of_lease[lease] = set()
        for key, entry in plan.entries.items():
            before = self._entries.get(key)
            if before is not None and before.lease in self._keys_of_lease:
                self._keys_of_lease[before.lease].discard(key)
            if entry is None:
                if before is not None:
                    del self._entries[key]
                    del self._keys[bisect_left(self._keys, key)]
                continue
            if before is None:
                insort(self._keys, key)
            self._entries[key] = entry
            if entry.lease in self._keys_of_lease:
                self._keys_of_lease[entry.lease].add(key)
        self.revision = plan.revision

    def _plan_transaction(self, plan: Plan, step: Transaction) -> None:
        for compare in step.compares:
            entry = self._entry(plan, compare.key)
            if compare.mod_revision != (entry.mod_revision if entry else 0):
                raise CompareFailed(compare.key)
        if step.lease and not self._lease_lives(plan, step.lease):
            raise LeaseNotFound(step.lease)
        deletes = [key for key in step.deletes if self._entry(plan, key) is not None]
        if not step.puts and not deletes:
            return
        plan.revision += 1
        for key, value in step.puts.items():
            before = self._entry(plan, key)
            created = before.create_revision if before else plan.revision
            plan.entries[key] = Entry(key, value, created, plan.revision, step.lease)
            plan.changes.append(Change(plan.revision, key, value))
        self._plan_deletes(plan, deletes)

    def _plan_revoke(self, plan: Plan, lease: int) -> None:
        if not self._lease_lives(plan, lease):
            raise LeaseNotFound(lease)
        candidates = self._keys_of_lease.get(lease, set()) | plan.entries.keys()
        under_it = [key for key in sorted(candidates) if (e := self._entry(plan, key)) and e.lease == lease]
        plan.leases[lease] = None
        if under_it:
            plan.revision += 1
            self._plan_deletes(plan, under_it)

    def _plan_deletes(self, plan: Plan, keys: Sequence[str]) -> None:
        for key in keys:
            plan.entries[key] = None
            plan.changes.append(Change(plan.revision, key, None))

    def _entry(self, plan: Plan, key: str) -> Entry | None:
        return plan.entries[key] if key in plan.entries else self._entries.get(key)

    def _lease_lives(self, plan: Plan, lease: int) -> bool:
        if lease in plan.leases:
            return plan.leases[lease] is not None
        return lease in self.leases


def check_transaction(step: Transaction) -> None:
    """Refuses what no caller may ask for.

    Raises:
        ValueError: See `Catalog.transact`.
    """
    writes = len(step.puts) + len(step.deletes)
    if max(len(step.compares), writes) > MAX_OPERATIONS:
        raise ValueError(
            f"{len(step.compares)} compares and {writes} other operations in one transaction, of which there "
            f"may be {MAX_OPERATIONS} each"
        )
    size = 0
    for key in (*(compare.key for compare in step.compares), *step.puts, *step.deletes):
        length = len(key.encode())
        if not 0 < length <= MAX_KEY_BYTES:
            raise ValueError(f"a key of {length} bytes: {key[:64]!r}")
        size += 2 * length
    for key, value in step.puts.items():
        if len(value) > MAX_VALUE_BYTES:
            raise ValueError(f"a value of {len(value)} bytes for {key!r}, more than {MAX_VALUE_BYTES}")
        size += len(value)
    if size > MAX_TRANSACTION_BYTES:
        raise ValueError(f"{size} bytes in one transaction, more than {MAX_TRANSACTION_BYTES}")
    if len(set(step.deletes)) < len(step.deletes) or not step.puts.keys().isdisjoint(step.deletes):
        raise ValueError("a key is named twice in one transaction")
