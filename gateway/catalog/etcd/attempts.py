"""One transaction of the catalog as one of etcd's: what it compares besides, and what became of it. Pure.

Below the prefix of a catalog etcd has:

::

    entries<key>             what the catalog holds: its keys begin with "/"
    history                  the name of this catalog's content, put anew by each transaction
    attempts/<session>/<n>   what a gateway has tried last, under a lease of an hour

Rule: each transaction compares that `history` has the name that was read, and was put as often as this
gateway has seen it put, or oftener. An etcd that was restored from an older copy, wiped, or filled with
something else fails that. (Not exactly as often: then of several gateways one would be served at a time.)

Rule: each transaction goes by a slot, a key of its gateway's own; it compares and puts that. Of a slot one
attempt is under way at a time. Where no answer came the slot is put with the same compare: either that
succeeds, and the attempt never happens, however late etcd comes to it; or the slot tells that the attempt has
happened. Nothing else says so: what is not there now may still be done from a queue.

The revision of a transaction is etcd's. It is that of `history`, too, so the catalog's sequence is where that
key was changed last, and other users of the same etcd do not raise it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gateway.catalog.etcd.words import (
    Body,
    Kv,
    NotUnderstood,
    delete,
    has_value,
    is_at,
    look_at,
    put,
    ranges,
    revision,
    txn,
    was_put_more_often_than,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.catalog.mirror import Transaction

_ENTRIES: Final = b"/entries"
_HISTORY: Final = b"/history"
_ATTEMPTS: Final = b"/attempts/"


class Names(NamedTuple):
    """The keys in etcd of one catalog."""

    prefix: bytes

    @property
    def everything(self) -> bytes:
        """What all of them begin with."""
        return self.prefix + b"/"

    @property
    def history(self) -> bytes:
        return self.prefix + _HISTORY

    def entry(self, key: str) -> bytes:
        return self.prefix + _ENTRIES + key.encode()

    def slot(self, session: str, number: int) -> bytes:
        return self.prefix + _ATTEMPTS + f"{session}/{number}".encode()

    def key(self, name: bytes) -> str | None:
        """The catalog's key that etcd has under this name; None for what is none: ours are in UTF-8."""
        start = self.prefix + _ENTRIES
        if not name.startswith(start):
            return None
        try:
            return name[len(start) :].decode()
        except UnicodeDecodeError:
            return None


@dataclass(frozen=True, slots=True)
class Seen:
    """What this gateway has seen of `history`: its value, how often it was put, and when last."""

    name: bytes
    version: int
    mod_revision: int


@dataclass(slots=True)
class Slot:
    """A key by which one attempt after the other goes. `mod_revision`: where it is, unless an attempt is
    `open`, of which nobody knows yet.
    """

    name: bytes
    mod_revision: int = 0
    attempts: int = 0
    is_open: bool = False

    @property
    def mark(self) -> bytes:
        """What the present attempt leaves in it."""
        return b"%d" % self.attempts


class Done(NamedTuple):
    """It has happened."""

    revision: int


class Failed(NamedTuple):
    """A compare did not hold: the compared keys as they were then, None where there was none, and where
    `history` was put last.
    """

    found: tuple[Kv | None, ...]
    revision: int


class SlotGone(NamedTuple):
    """The slot has gone with its lease: nothing can be tried by it any more."""


class WentBack(NamedTuple):
    """etcd has an older content than it had, or another one."""

    found: Kv | None


class NeverHappened(NamedTuple):
    """The attempt was settled: it does not happen any more."""


def attempt(names: Names, slot: Slot, lease: int, seen: Seen, step: Transaction) -> Body:
    """The next attempt by this slot, which has none that is open. It is open from now on."""
    assert not slot.is_open
    slot.attempts += 1
    slot.is_open = True
    compared = [(names.entry(compare.key), compare.mod_revision) for compare in step.compares]
    then = [put(names.entry(key), value, step.lease) for key, value in step.puts.items()]
    then += [delete(names.entry(key)) for key in step.deletes]
    if then:  # else it only compares
        then.append(put(names.history, seen.name))
    then.append(put(slot.name, slot.mark, lease))
    return txn(
        [
            has_value(names.history, seen.name),
            was_put_more_often_than(names.history, seen.version - 1),
            is_at(slot.name, slot.mod_revision),
            *(is_at(*each) for each in compared),
        ],
        then,
        [
            look_at(names.history, value=True),
            look_at(slot.name),
            *(look_at(name) for name, _ in compared),
        ],
    )


def outcome(slot: Slot, seen: Seen, told: Mapping[str, Any]) -> Done | Failed | SlotGone | WentBack:
    """What the answer to an attempt says. Raises NotUnderstood, and the attempt stays open."""
    at = revision(told)
    if told.get("succeeded"):
        slot.is_open = False
        slot.mod_revision = at
        return Done(at)
    looked = ranges(told)
    if len(looked) < 2:
        raise NotUnderstood("it says nothing of the history and of the slot")
    history, own, *found = looked
    slot.is_open = False
    if history is None or history.value != seen.name or history.version < seen.version:
        return WentBack(history)
    if (own.mod_revision if own else 0) != slot.mod_revision:
        return SlotGone()
    return Failed(tuple(found), history.mod_revision)


def settle(slot: Slot, lease: int) -> Body:
    """Makes the open attempt of this slot impossible, or tells that it has happened."""
    assert slot.is_open
    return txn(
        [is_at(slot.name, slot.mod_revision)],
        [put(slot.name, slot.mark + b" settled", lease)],
        [look_at(slot.name, value=True)],
    )


def settled(slot: Slot, told: Mapping[str, Any]) -> Done | NeverHappened | SlotGone:
    """What the answer says. It may be that to a second try, where the first one's did not come. Raises
    NotUnderstood, and the attempt stays open.
    """
    if told.get("succeeded"):
        slot.mod_revision = revision(told)
        slot.is_open = False
        return NeverHappened()
    found = ranges(told)
    if len(found) != 1:
        raise NotUnderstood("it says nothing of the slot")
    (own,) = found
    slot.is_open = False
    if own is None:
        return SlotGone()
    slot.mod_revision = own.mod_revision
    return Done(own.mod_revision) if own.value == slot.mark else NeverHappened()
