"""What the lines of a watch say: whole revisions, in order. Pure.

etcd sends the changes of a revision together, many revisions in one line where it has many. With `fragment`
a line that would be too long comes in pieces, and a revision may begin in one and end in the next. A revision
is given when it has ended, so a watch that breaks goes on after the last one that was given, and nobody ever
sees half of a transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from gateway.catalog.etcd.words import Kv, NotUnderstood, Refused, judge_error, number, revision

MAX_HELD_BYTES: Final = 64 * 1024 * 1024
"""Bytes of a line, and of a revision whose end has not come: etcd's default bound on a transaction is 1.5
MiB, and its pieces have 2 MiB."""


class WatchEnded(Exception):
    """The watch gives nothing more, and another one may: the text says why."""


class Compacted(Exception):
    """etcd has forgotten changes that were asked for."""


class Event(NamedTuple):
    """What happened to a key; `kv` has nothing but key and revision where it was deleted."""

    kv: Kv
    is_deleted: bool


class Revision(NamedTuple):
    """All that happened below the prefix at one revision, in order."""

    number: int
    events: list[Event]


class Following:
    """One watch. `last`: the revision that the catalog is at, all of whose changes were given."""

    def __init__(self, last: int) -> None:
        self.last = last
        self._begun: Revision | None = None
        self._begun_bytes = 0

    def line(self, told: Mapping[str, Any]) -> list[Revision]:
        """The revisions that have ended with this line.

        Raises WatchEnded, Compacted; NotUnderstood: it is none of etcd's, or out of order.
        """
        if "error" in told:
            error = judge_error(told)
            raise WatchEnded(error.message if isinstance(error, Refused) else error.reason)
        result = told.get("result")
        if not isinstance(result, dict):
            raise NotUnderstood("a line of a watch has no result")
        if result.get("canceled"):
            if number(result, "compact_revision"):
                raise Compacted
            raise WatchEnded(str(result.get("cancel_reason", "etcd has cancelled the watch"))[:200])
        revision(result)
        ended: list[Revision] = []
        events = result.get("events", [])
        if not isinstance(events, list):
            raise NotUnderstood("the events of a watch are no list")
        for each in events:
            self._take(each, ended)
        if self._begun is not None and not result.get("fragment"):
            self._end(ended)
        return ended

    def _take(self, told: Any, ended: list[Revision]) -> None:
        if not isinstance(told, dict) or told.get("type", "PUT") not in ("PUT", "DELETE"):
            raise NotUnderstood(f"an event of a watch: {told!r:.200}")
        kv = Kv.of(told.get("kv"))
        begun = self._begun
        if begun is not None and kv.mod_revision != begun.number:
            self._end(ended)
            begun = None
        if kv.mod_revision <= self.last:
            raise NotUnderstood(f"revision {kv.mod_revision} of a watch comes after {self.last}")
        if begun is None:
            begun = self._begun = Revision(kv.mod_revision, [])
            self._begun_bytes = 0
        self._begun_bytes += len(kv.key) + len(kv.value)
        if self._begun_bytes > MAX_HELD_BYTES:
            raise NotUnderstood(f"revision {kv.mod_revision} has more than {MAX_HELD_BYTES} bytes")
        begun.events.append(Event(kv, told.get("type") == "DELETE"))

    def _end(self, ended: list[Revision]) -> None:
        assert self._begun is not None
        self.last = self._begun.number
        ended.append(self._begun)
        self._begun = None
