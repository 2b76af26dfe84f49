"""The sum of what a catalog holds: which entries and leases, with what in them, in no order.

Each row has a hash, and the sum of all is brought up to date by what a commit adds and takes. So rows that
are missing, come twice, or are of another revision are noticed, for the cost of the rows that change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Final, NamedTuple, Self

from gateway.catalog.interface import Entry
from gateway.catalog.mirror import Mirror, Plan

SUM_BYTES: Final = 16
"""The size of a row's hash, and of their sum: nobody finds other rows with the same one by accident."""


class Content(NamedTuple):
    """The sum of the hashes of some rows."""

    total: int = 0

    @classmethod
    def of(cls, entries: Iterable[Entry], leases: Mapping[int, float]) -> Self:
        return cls(sum(map(_of_entry, entries)) + sum(_of_lease(*lease) for lease in leases.items()))

    def after(self, plan: Plan, before: Mirror) -> Content:
        """The sum once the plan is applied to what is there."""
        total = self.total
        for key, entry in plan.entries.items():
            old = before.get(key)
            total += (_of_entry(entry) if entry else 0) - (_of_entry(old) if old else 0)
        for lease, seconds in plan.leases.items():
            old_seconds = before.leases.get(lease)
            total += 0 if seconds is None else _of_lease(lease, seconds)
            total -= 0 if old_seconds is None else _of_lease(lease, old_seconds)
        return Content(total)

    def to_bytes(self) -> bytes:
        """As it is stored: the sum modulo 2^128."""
        return (self.total % (1 << 8 * SUM_BYTES)).to_bytes(SUM_BYTES)


def _of_entry(entry: Entry) -> int:
    numbers = f"{entry.key}\0{entry.create_revision}\0{entry.mod_revision}\0{entry.lease}\0"
    return _hash(numbers.encode() + entry.value)


def _of_lease(lease: int, ttl_seconds: float) -> int:
    return _hash(f"\0{lease}\0{float(ttl_seconds)!r}".encode())


def _hash(row: bytes) -> int:
    return int.from_bytes(blake2b(row, digest_size=SUM_BYTES).digest())
