"""Which incarnation a store is: its data directory and its database have to agree.

Rules:

* The database learns an incarnation before the directory's identity names it, so it may know one more: then
  it is that one, and the identity follows.
* An identity that the database does not know, and that was not made by this very start, says that the
  database was emptied, or that another one is mounted in its place. What the incarnation acknowledged is not
  here: the store becomes another one at once, and nobody counts on it for what it never had.
* A database of before there was any of this is taken over once.
"""

import logging
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from mesh.store import keys, values
from mesh.store.db import Database, StoreFailed

MAX_INCARNATIONS = 64
"""Incarnations that a database remembers to have been: one more for each loss, so no store has so many."""

logger = logging.getLogger(__name__)


class Identity(Protocol):
    """Where a store's incarnation is kept beside its database."""

    @property
    def incarnation(self) -> str:
        """As it is kept."""

    @property
    def is_new(self) -> bool:
        """Whether this very process made it: no database can know it yet."""

    def check_may_change(self, cause: str) -> None:
        """Called before anything is changed, when the store is about to become another one for this cause:
        raises where it must not.
        """

    def become(self, incarnation: str) -> None:
        """Keep another one."""


def make_incarnation() -> str:
    """32 upper-case hex characters, never given before."""
    return uuid4().hex.upper()


def known_incarnations(database: Database) -> tuple[str, ...]:
    """Every incarnation that this database was, the latest last. Raises `StoreCorrupt`."""
    return values.unpack_names("incarnations", database.get(keys.INCARNATIONS))


def learn(database: Database, incarnation: str) -> None:
    """The database is of this incarnation from now on, durably. Raises `StoreCorrupt`, `StoreFailed`."""
    known = [*known_incarnations(database), incarnation][-MAX_INCARNATIONS:]
    database.put_now(
        {keys.FORMAT_KEY: values.pack_number(keys.FORMAT), keys.INCARNATIONS: values.pack_names(known)}
    )
    database.to_tables()  # an older version reads no log of ours, and is to see the format


def settle(database: Database, identity: Identity) -> str:
    """The incarnation that this store is, in both places. Raises `StoreCorrupt`, `StoreFailed`, and what
    `identity` raises.
    """
    found = values.unpack_number("format", database.get(keys.FORMAT_KEY))
    if found > keys.FORMAT:
        raise StoreFailed(f"it has format {found}, and this version knows none above {keys.FORMAT}")
    known, named = known_incarnations(database), identity.incarnation
    if known and found < keys.FORMAT:
        database.put_now({keys.FORMAT_KEY: values.pack_number(keys.FORMAT)})
        database.to_tables()
    if named in known:
        if known[-1] != named:
            identity.become(known[-1])
        return known[-1]
    if identity.is_new or (not known and not database.is_empty()):
        learn(database, named)
        return named
    return _become_another(database, identity, known)


def become_another(path: Path, identity: Identity) -> str:
    """Make another incarnation of a stopped store, whose database is in `path`. Raises as `settle`."""
    database = Database(path)
    try:
        new = make_incarnation()
        learn(database, new)
    finally:
        database.close()
    identity.become(new)
    return new


def _become_another(database: Database, identity: Identity, known: tuple[str, ...]) -> str:
    old, new = identity.incarnation, make_incarnation()
    mounted = known[-1] if known else None
    cause = "the database is empty" if mounted is None else f"the database is that of store {mounted}"
    identity.check_may_change(cause)
    learn(database, new)
    identity.become(new)
    logger.warning(
        "%s, so nothing of what store %s acknowledged is here: it is another store now, %s. If %s, stop it "
        "and mount the right one; else let it count with 'dafka store admit %s', and have it fetch what it "
        "lacks with 'dafka store replace %s %s'%s",
        cause,
        old,
        new,
        "a disk is not mounted" if mounted is None else "this is another store's disk",
        new,
        mounted or old,
        new,
        "" if mounted is None else f" (and take the place of {old} too, if it was admitted)",
    )
    return new
