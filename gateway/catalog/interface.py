"""What the catalog offers: versioned keys, transactions, watches and leases, in the shape of etcd's v3 API.

Three implementations have the same semantics and share their tests: `SqliteCatalog` (one file, embedded),
`EtcdCatalog` (a cluster of etcd's, which other gateways may change as well), and `MemoryCatalog` (tests).

* The catalog has one **revision**, which each transaction that changes something raises. A key's entry says
  at which revision it was created and last changed; 0 stands for "there is no such key".
* Its **sequence** is the revision of the last transaction: what the name of a history ends with
  (`gateway.cluster.lineage`). The end of a lease may raise the revision alone.
* A **transaction** compares the modification revisions of some keys and, if all are as expected, puts and
  deletes others, all or nothing. It returns once the change is durable. There is no other way to write.
  What it puts or deletes it compares with what was read before: so says `gateway.catalog.fence_rules`, and
  a gateway uses the catalog through `gateway.catalog.fenced`, which refuses anything else, and which
  compares besides that the gateway has not been deposed.
* A transaction that was sent and not answered is not left open: it is **settled**, by a write that makes it
  impossible if it has not happened yet. So who waits for one learns what has become of it, however long the
  catalog was away; `trouble` says meanwhile why nothing can be changed.
* **Reads** come from memory, never wait, and show only what is durable. They may be some milliseconds old
  where others change the catalog, too: `fresh` returns when they show all that was there before.
* A **watch** gives every change under a prefix from a revision on, in order, none left out, none twice.
* A **lease** is a promise to be alive: keys put under it disappear when nobody has kept it alive for its
  time.

::

    entry = catalog.get("topics/orders")
    await catalog.transact([Compare("topics/orders", entry.mod_revision)], {"topics/orders": b"..."})

What is done where a compare fails: `gateway.log.fences` for partitions; others read again and decide anew.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from gateway.common.failures import DiskFailed, ProcessEnds

MAX_KEY_BYTES: Final = 1024
"""Bytes of a key in UTF-8. Ours are paths of names and numbers: a topic name has 249 at most."""

MAX_TRANSACTION_BYTES: Final = 1_450_000
"""Bytes of the values of one transaction, and twice those of its keys (compared ones are asked for where a
compare fails): etcd's default bound on a whole request is 1.5 MiB (`--max-request-bytes`)."""

MAX_VALUE_BYTES: Final = 1_400_000
"""Bytes of a value."""

MAX_OPERATIONS: Final = 120
"""Compares of one transaction, and likewise its puts and deletes together: etcd's default is 128 of each
(`--max-txn-ops`), of which some are the catalog's own."""

HISTORY_CHANGES: Final = 10_000
"""Changes kept in memory for watches that are behind; who is further behind reads anew."""

HISTORY_BYTES: Final = 16 * 1024 * 1024
"""Bytes of values in those changes: the other bound, whichever is met first."""


class Entry(NamedTuple):
    """A key that exists. Revisions are those of the catalog; `lease` is 0 for an entry that stays."""

    key: str
    value: bytes
    create_revision: int
    mod_revision: int
    lease: int = 0


class Compare(NamedTuple):
    """A condition: the key was last changed at `mod_revision`; 0: it does not exist."""

    key: str
    mod_revision: int


class Change(NamedTuple):
    """What a transaction did to one key; `value` is None where it was deleted."""

    revision: int
    key: str
    value: bytes | None


class CompareFailed(Exception):
    """A compare did not hold, so nothing was changed. The caller reads again and decides anew."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class LeaseNotFound(Exception):
    """The lease has ended, was revoked, or never was."""

    def __init__(self, lease: int) -> None:
        super().__init__(lease)
        self.lease = lease


class HistoryLost(Exception):
    """A watch asked for changes older than those kept: read the keys anew, then watch from `revision` + 1."""

    def __init__(self, revision: int) -> None:
        super().__init__(revision)
        self.revision = revision


class CatalogLost(ProcessEnds):
    """What the catalog holds is not what this process knows of it, or takes no request from it any more: the
    message says why and what to do.
    """

    exit_code = 2


class CatalogFailed(DiskFailed):
    """The disk failed in a transaction: whether that one is durable is unknown, and no other one will be
    tried.

    Whoever sees it ends the process (`exit_code`); a start on the same file finds out what was written.
    As after any failed fsync, trying again on the same handle could report success for what is lost.
    """


class Readable(Protocol):
    """What says how a key is now."""

    def get(self, key: str, /) -> Entry | None:
        """The entry of a key."""
        ...


def unchanged(catalog: Readable, changed: Iterable[str]) -> list[Compare]:
    """That these keys are as they are read now: for what was decided in this very moment."""
    found = {key: catalog.get(key) for key in changed}
    return [Compare(key, 0 if entry is None else entry.mod_revision) for key, entry in found.items()]


class Catalog(Protocol):
    """See the module. Keys are `str`, values `bytes` (JSON, by convention of the callers)."""

    @property
    def revision(self) -> int:
        """The revision that reads show."""
        ...

    @property
    def sequence(self) -> int:
        """The revision of the last transaction that reads show, 0 before the first one."""
        ...

    @property
    def trouble(self) -> str:
        """Why nothing can be changed at present, and reads may be old; "" while all is well."""
        ...

    @property
    def where(self) -> str:
        """Where the catalog is, for people: a directory, or addresses."""
        ...

    @property
    def put_back(self) -> str:
        """How people get the newest catalog back where this one is older than it was, or another one: what
        to do, without a full stop.
        """
        ...

    async def fresh(self) -> None:
        """Return when reads show every transaction that was durable when this was called.

        Raises:
            CatalogLost: See there.
        """
        ...

    def get(self, key: str) -> Entry | None:
        """The entry of a key."""
        ...

    def range(self, prefix: str, *, after: str = "", limit: int | None = None) -> list[Entry]:
        """The entries whose keys begin with `prefix`, in the order of keys; with `after` those behind that
        key, and with `limit` the first ones, so many at most.
        """
        ...

    async def transact(
        self,
        compares: Sequence[Compare],
        puts: Mapping[str, bytes],
        deletes: Sequence[str] = (),
        lease: int | None = None,
    ) -> int:
        """Puts and deletes if all `compares` hold; returns the revision once it is durable.

        The puts go under `lease`; without one they stay, also where the key had one. To delete a key that
        does not exist is no change; a transaction without any change returns the revision that there is, or
        a newer one without changes. When it returns, or raises CompareFailed, reads show why.

        Cancelled while it waits, it has happened or not. Nothing bounds the wait for a catalog that is away:
        who must answer somebody looks at `trouble` before.

        Raises:
            CompareFailed: A compare did not hold. LeaseNotFound: There is no such lease. CatalogFailed:
                The disk failed. CatalogLost: See there. ValueError: A key is put and deleted, a name or value
                is too long, or there are too many operations.
        """
        ...

    def watch(self, prefix: str, from_revision: int) -> AsyncIterator[Change]:
        """The changes under `prefix` from `from_revision` on (usually `revision` + 1 of a read), waiting
        for more.

        Of one transaction: puts in the order they were given, then deletes.

        Raises:
            HistoryLost: Of the iteration: they are no longer kept.
            CatalogFailed: Of the iteration: the disk failed, and there will be no more.
        """
        ...

    def changes(self, from_revision: int) -> list[Change]:
        """All changes from `from_revision` up to `revision`, in order, without waiting.

        Raises:
            HistoryLost: They are no longer kept.
        """
        ...

    async def grant_lease(self, ttl_seconds: float) -> int:
        """A lease of that time at least, which begins now.

        Raises:
            CatalogFailed: The disk failed.
        """
        ...

    async def keep_alive(self, lease: int) -> None:
        """Lets the lease's time begin again.

        Raises:
            LeaseNotFound: It has ended.
        """
        ...

    async def revoke(self, lease: int) -> None:
        """Ends the lease and deletes the keys under it.

        Raises:
            LeaseNotFound: It has ended.
            CatalogFailed: The disk failed.
        """
        ...

    async def run(self) -> None:
        """What the catalog does by itself, until cancelled: it ends leases whose time is over, and follows
        what others change. Nothing is promised without this running.

        Raises:
            CatalogFailed: The disk failed.
            CatalogLost: See there.
        """
        ...

    async def aclose(self) -> None:
        """Waits for what is being written, then closes; later writes raise `trio.ClosedResourceError`."""
        ...
