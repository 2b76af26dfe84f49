"""The ACLs of a cluster: kept in the catalog, in force on every gateway as soon as it follows.

Rule: the authorizer in memory is made of what is durable in the catalog and nothing else. It is made anew
when somebody asks it after a change, so a hundred changes that come together cost one.

An ACL is an entry of its own, so two administrators who change different ones do not meet. Its key is a
digest of what it says, since names may be longer than keys; creating it twice is creating it once.

An entry that cannot be read may be one that denies: as long as there is one, only super users may do
anything.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from gateway.catalog import keys
from gateway.security.access import Access, ByAcls, Question, Unrestricted
from gateway.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from gateway.security.authorizer import Authorizer
from gateway.security.gateways import GATEWAY
from gateway.security.principal import Principal

if TYPE_CHECKING:
    from gateway.catalog.interface import Catalog
    from gateway.common.settings import LogSettings

logger = logging.getLogger(__name__)

BY_ACLS: Final = "acl"
"""The value of `LogSettings.authorizer` with which ACLs decide."""


class BadAcl(ValueError):
    """An entry that is no ACL. The message says why."""


def _nobody_is_told(_access: ByAcls, _question: Question) -> None:
    """There is no audit."""


def pack(acl: Acl) -> bytes:
    """An ACL as the catalog has it."""
    return json.dumps(list(acl), separators=(",", ":"), ensure_ascii=False).encode()


def unpack(value: bytes) -> Acl:
    """Of what `pack` gave. Raises BadAcl."""
    try:
        kind, name, pattern, principal, host, operation, permission = json.loads(value)
        texts = (name, principal, host)
        if not all(isinstance(text, str) for text in texts):
            raise BadAcl("its name, principal and host are to be texts")
        return Acl(
            ResourceType(kind), name, PatternType(pattern), principal, host, Operation(operation),
            Permission(permission),
        )  # fmt: skip
    except (TypeError, ValueError) as error:
        raise BadAcl(str(error)) from None


def key_of(acl: Acl) -> str:
    """Where the catalog has it."""
    return keys.ACLS + hashlib.sha256(pack(acl)).hexdigest()[:32]


class Acls:
    """Those of a cluster, as of the last key that was taken (`gateway.cluster.following`)."""

    def __init__(self, catalog: Catalog, settings: LogSettings) -> None:
        self._catalog = catalog
        self._settings = settings
        self._by_key: dict[str, Acl | None] = {}
        """None: it cannot be read."""
        self._authorizer: Authorizer | None = None
        self.denied: Callable[[ByAcls, Question], object] = _nobody_is_told
        """Called for each denied request of who is granted access after this is set."""
        for entry in catalog.range(keys.ACLS):
            self.take(entry.key)

    @property
    def is_on(self) -> bool:
        """Whether they decide; otherwise everybody may do everything, and there are none."""
        return self._settings.authorizer == BY_ACLS

    def authorizer(self) -> Authorizer:
        """The one in force; another object after each change."""
        found = self._authorizer
        if found is None:
            acls = [acl for acl in self._by_key.values() if acl is not None]
            is_whole = len(acls) == len(self._by_key)
            found = self._authorizer = Authorizer(
                acls if is_whole else (),
                self._settings.super_user,
                allow_everyone=is_whole and self._settings.allow_everyone_if_no_acl_found,
            )
        return found

    def grant(self, principal: Principal, address: str) -> Access:
        """What somebody may do who comes from an address (as the socket has it)."""
        if not self.is_on or principal.type == GATEWAY:
            return Unrestricted(principal)
        return ByAcls(principal, address, self.authorizer, self.denied)

    def known_keys(self) -> Iterable[str]:
        """Of all that there are in memory."""
        return list(self._by_key)

    def take(self, key: str) -> None:
        """This one may be different."""
        entry = self._catalog.get(key)
        self._by_key.pop(key, None)
        self._authorizer = None
        if entry is not None:
            try:
                self._by_key[key] = unpack(entry.value)
            except BadAcl as error:
                self._by_key[key] = None
                logger.error(
                    "the ACL at %s of the catalog cannot be read, so only super users may do anything: %s",
                    key,
                    error,
                )
