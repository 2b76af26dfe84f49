"""Users and what is kept of their passwords, by mechanism: `/scram/<user>` of the catalog (KIP-554).

Rule: what is kept lets a client be checked and nobody be one. It is still worth hiding: with it a password
can be guessed, as fast as machines are. So it is in no log, no answer and no metric.
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gateway.catalog import keys
from gateway.catalog.interface import CompareFailed, unchanged
from gateway.security.gateways import RESERVED
from gateway.security.principal import USER, Principal
from gateway.security.scram import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    Hash,
    Known,
    ScramCredential,
    from_salted,
)

if TYPE_CHECKING:
    from gateway.catalog.interface import Catalog, Entry

SECRET_BYTES: Final = 32
"""Length of the cluster's own secret, which makes the salts of users that there are not."""

MAX_USERS: Final = 10_000
"""Users of a cluster: each gateway has all of them in memory, half a kilobyte for each mechanism, and
the stores keep a copy."""

MAX_NAME_BYTES: Final = 255
"""Longest name of a user: it is part of a key, with three characters for each that is not plain."""


class Refusal(Enum):
    """Why a change is not made."""

    NO_NAME = "Username must not be empty"
    BAD_NAME = "The name is not what SCRAM can carry: at most 255 ASCII characters, without NUL"
    RESERVED_NAME = f"Names that begin with {RESERVED} are those of gateways"
    NO_MECHANISM = "Unknown SCRAM mechanism"
    TOO_FEW = "Too few iterations"
    TOO_MANY = "Too many iterations"
    NO_SALT = "The salt, or the salted password, is empty"
    TOO_MANY_USERS = f"There are {MAX_USERS} users, and there may be no more: delete some"
    TWICE = "A user credential cannot be altered twice in the same request"
    NONE_THERE = "Attempt to delete a user credential that does not exist"


class Deletion(NamedTuple):
    """A credential is to go. `mechanism` is a number, of whatever the client sent."""

    user: str
    mechanism: int


class Upsertion(NamedTuple):
    """A credential is to be, or to be another one. The password was salted by the client."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes


Change = Deletion | Upsertion

_BY_NUMBER: Final[Mapping[int, Hash]] = {kind.number: kind for kind in Hash}


class BadUser(ValueError):
    """What is in the catalog is not a user."""


def pack(credentials: Mapping[Hash, ScramCredential]) -> bytes:
    """The value of a user."""
    return keys.pack(
        {
            kind.value: {
                "salt": b64encode(one.salt).decode(),
                "stored_key": b64encode(one.stored_key).decode(),
                "server_key": b64encode(one.server_key).decode(),
                "iterations": one.iterations,
            }
            for kind, one in credentials.items()
        }
    )


def unpack(value: bytes) -> dict[Hash, ScramCredential]:
    """What is kept of a user. Raises BadUser."""
    try:
        found = {Hash(name): _credential(Hash(name), one) for name, one in keys.unpack(value).items()}
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise BadUser(str(error)) from None
    if not found:
        raise BadUser("it has no mechanism")
    return found


def _credential(kind: Hash, told: Mapping[str, Any]) -> ScramCredential:
    """Raises KeyError, TypeError, ValueError: it is none."""
    salt, stored_key, server_key = (
        b64decode(told[name], validate=True) for name in ("salt", "stored_key", "server_key")
    )
    size, iterations = hashlib.new(kind.algorithm).digest_size, told["iterations"]
    if not (salt and len(stored_key) == len(server_key) == size):
        raise ValueError("its salt is empty, or one of its keys has another length than the hash")
    if type(iterations) is not int or not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
        raise ValueError("its iterations are not what a credential may have")
    return ScramCredential(salt, stored_key, server_key, iterations)


class ScramUsers:
    """Those of a cluster, as of the last key that was taken (`gateway.cluster.following`)."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._users: dict[str, dict[Hash, ScramCredential]] = {}
        self._revoked = 0
        self._on_revoked: list[Callable[[str, frozenset[Hash]], None]] = []
        self.load()

    def on_revoked(self, tell: Callable[[str, frozenset[Hash]], None]) -> None:
        """Have this called with a user, and the mechanisms by which he came in with what is not right any
        more.
        """
        self._on_revoked.append(tell)

    def revoked(self) -> int:
        """How often something that somebody came in by has become wrong."""
        return self._revoked

    def load(self) -> None:
        """Take all of them anew."""
        self._users = {}
        for entry in self._catalog.range(keys.SCRAM):
            self.take(entry.key)

    def known_keys(self) -> Iterable[str]:
        """Of all users."""
        return [keys.scram_key(user) for user in self._users]

    def take(self, key: str) -> None:
        """This one may be different. One that cannot be read is nobody: he cannot come in."""
        user, entry = keys.user_of_scram(key), self._catalog.get(key)
        before = self._users.pop(user, {})
        now: dict[Hash, ScramCredential] = {}
        if entry is not None:
            with contextlib.suppress(BadUser):
                now = self._users[user] = unpack(entry.value)
        revoked = frozenset(kind for kind, credential in before.items() if credential != now.get(kind))
        self._revoked += len(revoked)
        for tell in self._on_revoked if revoked else ():
            tell(user, revoked)

    def of(self, user: str) -> Mapping[Hash, ScramCredential] | None:
        """What is kept of a user; None: there is no such user."""
        return self._users.get(user)

    def all(self) -> Iterator[tuple[str, Mapping[Hash, ScramCredential]]]:
        """Every user, by name."""
        yield from sorted(self._users.items())

    def known(self, kind: Hash, user: str) -> Known | None:
        """Somebody who may come in by this mechanism."""
        credential = self._users.get(user, {}).get(kind)
        return None if credential is None else Known(credential, Principal(USER, user))

    async def secret(self) -> bytes:
        """The cluster's own, for salts of users that there are not; made when it is asked for first."""
        while True:
            entry = self._catalog.get(keys.SCRAM_SECRET)
            if entry is not None:
                return entry.value
            made = {keys.SCRAM_SECRET: secrets.token_bytes(SECRET_BYTES)}
            try:
                await self._catalog.transact(unchanged(self._catalog, made), made)
            except CompareFailed:
                continue  # another gateway was faster

    def refusals(self, changes: Iterable[Change]) -> dict[str, Refusal | None]:
        """By user, what is against these changes: of several things the first one. A user who is named twice
        is not changed at all (`ScramControlManager`).
        """
        found: dict[str, Refusal | None] = {}
        for change in changes:
            user = change.user
            if user not in found:
                found[user] = _refusal(change) or (None if self._may_be(change) else Refusal.NONE_THERE)
            elif found[user] is None:
                found[user] = Refusal.TWICE
        return found

    def _may_be(self, change: Change) -> bool:
        """Whether there is what it wants to delete. What cannot be read may be that."""
        if isinstance(change, Upsertion):
            return True
        there = self.of(change.user)
        if there is None:
            return self._catalog.get(keys.scram_key(change.user)) is not None
        return _BY_NUMBER[change.mechanism] in there

    async def make(self, change: Change) -> Refusal | None:
        """Make a change that nothing is against by itself (`refusals`); what is against it as users are now.
        What cannot be read of a user is replaced, or deleted, whole.
        """
        key, kind = keys.scram_key(change.user), _BY_NUMBER[change.mechanism]
        while True:
            entry = self._catalog.get(key)
            there = self._readable(entry)
            if isinstance(change, Upsertion):
                if entry is None and len(self._users) >= MAX_USERS:
                    return Refusal.TOO_MANY_USERS
                there[kind] = from_salted(kind, change.salted_password, change.salt, change.iterations)
            elif entry is None or (there and there.pop(kind, None) is None):
                return Refusal.NONE_THERE
            puts = {key: pack(there)} if there else {}
            deletes = () if there else (key,)
            try:
                await self._catalog.transact(unchanged(self._catalog, [key]), puts, deletes)
            except CompareFailed:
                continue  # changed by somebody else meanwhile
            self.take(key)
            return None

    @staticmethod
    def _readable(entry: Entry | None) -> dict[Hash, ScramCredential]:
        try:
            return {} if entry is None else unpack(entry.value)
        except BadUser:
            return {}


def bad_name(user: str) -> Refusal | None:
    """What is against this name for a user."""
    if not user:
        return Refusal.NO_NAME
    if user.startswith(RESERVED):
        return Refusal.RESERVED_NAME
    is_good = user.isascii() and "\0" not in user and len(user) <= MAX_NAME_BYTES
    return None if is_good else Refusal.BAD_NAME


def _refusal(change: Change) -> Refusal | None:
    if not change.user:
        return Refusal.NO_NAME
    if change.mechanism not in _BY_NUMBER:
        return Refusal.NO_MECHANISM
    if isinstance(change, Deletion):
        return None
    if refusal := bad_name(change.user):
        return refusal
    if change.iterations < MIN_ITERATIONS:
        return Refusal.TOO_FEW
    if change.iterations > MAX_ITERATIONS:
        return Refusal.TOO_MANY
    return None if change.salt and change.salted_password else Refusal.NO_SALT
