"""The ACLs of a cluster: kept in the catalog, in force on every gateway as soon as it follows.

Rule: the authorizer in memory is made of what is durable in the catalog and nothing else. Another one is made
when somebody asks it after a change, so a hundred changes that come together cost one; after some hundred it
is made in any case, so that nobody waits for one of ten thousand.

An ACL is an entry of its own, so two administrators who change different ones do not meet. Its key is a
digest of what it says, since names may be longer than keys; creating it twice is creating it once.

Many are created or deleted in several transactions. What denies comes before what allows, and goes after it:
nobody may do for a moment what he may do neither before nor after.

An entry that cannot be read may be one that denies: as long as there is one, only super users may do
anything.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from gateway.catalog import keys
from gateway.catalog.interface import Compare, CompareFailed, unchanged
from gateway.catalog.pieces import in_transactions
from gateway.security.access import Access, ByAcls, Question, Unrestricted
from gateway.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from gateway.security.authorizer import Authorizer
from gateway.security.gateways import GATEWAY
from gateway.security.principal import Principal
from wireproto.kafka.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from gateway.catalog.interface import Catalog
    from gateway.common.settings import LogSettings

logger = logging.getLogger(__name__)

BY_ACLS: Final = "acl"
"""The value of `LogSettings.authorizer` with which ACLs decide."""


MAX_ACLS: Final = 50_000
"""All that there may be: some 30 MB of memory on each gateway. Gateways that create some at the same moment
may go above it by what one request may create."""

MAX_CHANGED_ACLS: Final = 10_000
"""ACLs that one request may create or delete (`QuorumController.MAX_RECORDS_PER_USER_OP`)."""

RENEWED_AT_ONCE: Final = 256
"""ACLs that change before another authorizer is made though nobody asks: a millisecond, or two, for whoever
does."""

MAX_ACL_BYTES: Final = 2_048
"""Bytes of the name, principal and host of one together."""


class BadAcl(ValueError):
    """An entry that is no ACL. The message says why."""


def _nobody_is_told(_access: ByAcls, _question: Question) -> None:
    """There is no audit."""


def pack(acl: Acl) -> bytes:
    """An ACL as the catalog has it."""
    return keys.pack(acl)


def unpack(value: bytes) -> Acl:
    """Of what `pack` gave. Raises BadAcl."""
    try:
        kind, name, pattern, principal, host, operation, permission = keys.unpack(value)
        acl = Acl(
            ResourceType(kind), name, PatternType(pattern), principal, host, Operation(operation),
            Permission(permission),
        )  # fmt: skip
        if not all(isinstance(text, str) for text in (name, principal, host)):
            raise BadAcl("its name, principal and host are to be texts")
        f"{name}{principal}{host}".encode()  # half a character could not be told to anybody
        if not acl.is_definite:
            raise BadAcl("it has a kind of something that filters alone have")
        if pack(acl) != value:
            raise BadAcl("it is written otherwise than it would be here")
        return acl
    except (TypeError, ValueError, RecursionError) as error:
        raise BadAcl(str(error)) from None


def key_of(acl: Acl) -> str:
    """Where the catalog has it."""
    return _key(pack(acl))


def _key(packed: bytes) -> str:
    return keys.ACLS + hashlib.sha256(packed).hexdigest()[:32]


def check(key: str, value: bytes) -> Acl:
    """The ACL that an entry of the catalog is. Raises BadAcl."""
    acl = unpack(value)
    if key != _key(value):
        raise BadAcl("its key is that of another ACL")
    return acl


class Acls:
    """Those of a cluster, as of the last key that was taken (`gateway.cluster.following`)."""

    def __init__(self, catalog: Catalog, settings: LogSettings) -> None:
        self._catalog = catalog
        self._settings = settings
        self._by_key: dict[str, Acl] = {}
        self._unreadable: set[str] = set()
        """Keys of entries that are no ACLs."""
        self._closed = Authorizer((), settings.super_user)
        self._authorizer = Authorizer(
            (), settings.super_user, allow_everyone=settings.allow_everyone_if_no_acl_found
        )
        self._taken: dict[str, Acl | None] = {}
        """By key, what the authorizer has of those that were taken since it was made."""
        self.denied: Callable[[ByAcls, Question], object] = _nobody_is_told
        """Called for each denied request of who is granted access after this is set."""
        if self.is_on and not settings.super_user:
            logger.warning(
                "--authorizer acl without --super-user: where no ACL allows it already, nobody may make the "
                "first one; give --super-user User:NAME"
            )
        for entry in catalog.range(keys.ACLS):
            self._read(entry.key)
        self._renew()

    @property
    def is_on(self) -> bool:
        """Whether they decide; otherwise everybody may do everything, and there are none."""
        return self._settings.authorizer == BY_ACLS

    def authorizer(self) -> Authorizer:
        """The one in force; another object after each change."""
        if self._taken:
            self._renew()
        return self._closed if self._unreadable else self._authorizer

    def grant(self, principal: Principal, address: str) -> Access:
        """What somebody may do who comes from an address (as the socket has it)."""
        if not self.is_on or principal.type == GATEWAY:
            return Unrestricted(principal)
        return ByAcls(principal, address, self.authorizer, self.denied)

    def all(self) -> Mapping[str, Acl]:
        """Those that there are now, by key; it does not change any more."""
        return dict(self._by_key)

    def revision(self, key: str) -> int | None:
        """Of the entry at a key; None: there is none."""
        entry = self._catalog.get(key)
        return None if entry is None else entry.mod_revision

    def known_keys(self) -> Iterable[str]:
        """Of all that there are in memory."""
        return [*self._by_key, *self._unreadable]

    def take(self, key: str) -> None:
        """This one may be different."""
        self._read(key)
        if len(self._taken) >= RENEWED_AT_ONCE:
            self._renew()

    def _renew(self) -> None:
        before = [acl for acl in self._taken.values() if acl is not None]
        now = [acl for key in self._taken if (acl := self._by_key.get(key)) is not None]
        self._authorizer = self._authorizer.changed(before, now)
        self._taken = {}

    def _read(self, key: str) -> None:
        entry = self._catalog.get(key)
        before = self._by_key.pop(key, None)
        self._taken.setdefault(key, before)
        self._unreadable.discard(key)
        if entry is not None:
            try:
                self._by_key[key] = check(key, entry.value)
            except BadAcl as error:
                self._unreadable.add(key)
                logger.error(
                    "the ACL at %s of the catalog cannot be read, so only super users may do anything: %s",
                    key,
                    error,
                )

    # changes ----------------------------------------------------------------------------------------------

    async def create(self, acls: Mapping[str, Acl]) -> None:
        """Have these, by their keys. Those that are there already stay.

        Raises KafkaError: POLICY_VIOLATION, there would be too many, or they are too many at once: nothing
        was done.
        """
        new = {key: acl for key, acl in acls.items() if key not in self._by_key}
        if len(new) > MAX_CHANGED_ACLS:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"One request may create {MAX_CHANGED_ACLS} ACLs: ask for fewer at a time.",
            )
        if new and len(new) + len(self._by_key) > MAX_ACLS:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"There are {len(self._by_key)} ACLs, and there may be {MAX_ACLS}: delete those that nobody "
                "needs, or have prefixed ones instead of one for each name.",
            )
        in_order = sorted(new.items(), key=_allows)
        for piece in in_transactions((key, pack(acl)) for key, acl in in_order):
            await self._put(piece)

    async def _put(self, piece: Mapping[str, bytes]) -> None:
        while missing := {key: value for key, value in piece.items() if not self._has(key, value)}:
            try:
                await self._catalog.transact(unchanged(self._catalog, missing), missing)
            except CompareFailed:
                continue  # another gateway has created one of them, or deleted it again

    def _has(self, key: str, value: bytes) -> bool:
        entry = self._catalog.get(key)
        return entry is not None and entry.value == value

    async def delete(self, revisions: Mapping[str, int]) -> set[str]:
        """Delete those that are as they were at these revisions; gives the keys of those that it has deleted:
        what others have deleted meanwhile, or created anew, is not among them.
        """
        deleted: set[str] = set()
        in_order = sorted(((key, self._by_key.get(key)) for key in revisions), key=_allows, reverse=True)
        for piece in in_transactions((key, b"") for key, _ in in_order):
            deleted |= await self._delete({key: revisions[key] for key in piece})
        return deleted

    async def _delete(self, revisions: Mapping[str, int]) -> set[str]:
        while there := [key for key, revision in revisions.items() if self.revision(key) == revision]:
            try:
                await self._catalog.transact([Compare(key, revisions[key]) for key in there], {}, there)
            except CompareFailed:
                continue  # another gateway has deleted one of them
            return set(there)
        return set()


def _allows(entry: tuple[str, Acl | None]) -> bool:
    acl = entry[1]
    return acl is not None and acl.permission is Permission.ALLOW
