"""What is known of a catalog in etcd: its entries, its history, and how both follow what happens. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.catalog.etcd.attempts import Names, Seen, WentBack
from gateway.catalog.interface import Change, Entry
from gateway.catalog.mirror import Mirror, Plan

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gateway.catalog.etcd.following import Revision
    from gateway.catalog.etcd.words import Kv


class Content:
    """As of `mirror.revision`. `seen` is None where there is no catalog below the prefix yet."""

    def __init__(self, names: Names, kvs: Iterable[Kv], revision: int) -> None:
        """Raises NotUnderstood."""
        self._names = names
        self.seen: Seen | None = None
        entries = []
        for kv in kvs:
            key = names.key(kv.key)
            if key is not None:
                entries.append(_entry(key, kv))
            elif kv.key == names.history:
                self.seen = seen_in(kv)
        self.mirror = Mirror(entries, revision=revision)

    def follow(self, revision: Revision) -> list[Change] | WentBack:
        """Take what has happened next; the changes, in order. Raises NotUnderstood, and nothing is taken."""
        plan = Plan(revision.number)
        seen = self.seen
        for event in revision.events:
            kv = event.kv
            key = self._names.key(kv.key)
            if key is not None:
                plan.entries[key] = None if event.is_deleted else _entry(key, kv)
                plan.changes.append(Change(revision.number, key, None if event.is_deleted else kv.value))
            elif kv.key == self._names.history:
                if event.is_deleted or (seen is not None and not has_gone_on(seen, seen_in(kv))):
                    return WentBack(None if event.is_deleted else kv)
                seen = seen_in(kv)
        self.mirror.apply(plan)
        self.seen = seen
        return plan.changes

    def replace(self, newer: Content) -> list[Change] | WentBack:
        """Take all of it anew, as it was read; what has changed meanwhile, as far as that can be told: the
        last change of each key, and of those that are gone that they are.
        """
        before, now = self.mirror, newer.mirror
        if newer.seen is None or (self.seen is not None and not has_gone_on(self.seen, newer.seen)):
            return WentBack(None)
        if now.revision < before.revision:
            return WentBack(None)
        plan = before.until(now.range(""), now.revision)
        before.apply(plan)
        self.seen = newer.seen
        return plan.changes


def has_gone_on(seen: Seen, newer: Seen) -> bool:
    """Whether this `history` may come after the one that was seen."""
    return (
        newer.name == seen.name and newer.version >= seen.version and newer.mod_revision >= seen.mod_revision
    )


def seen_in(kv: Kv) -> Seen:
    return Seen(kv.value, kv.version, kv.mod_revision)


def _entry(key: str, kv: Kv) -> Entry:
    return Entry(key, kv.value, kv.create_revision, kv.mod_revision, kv.lease)
