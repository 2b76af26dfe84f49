"""The delegation tokens of a cluster (KIP-48): `/tokens/<id>` of the catalog, in force on every gateway as
soon as it follows.

Rule: what is kept of a token lets nobody come in: its password is made from its id by a secret that gateways
have in a file, all of them the same one. Which secret that was is noted, so that a gateway with another one
knows: such a token is nobody's there, and it is said.

What clients come in by is derived from the password once, by the first login on this gateway, in a worker
thread, and kept with the token; so two derivations are all that somebody can cause who knows an id.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gateway.catalog import keys
from gateway.catalog.interface import Compare, CompareFailed
from gateway.security.delegation_tokens import DelegationToken, TokenSecret, is_id, new_id
from gateway.security.principal import USER, Principal
from gateway.security.scram import Hash, Known, ScramCredential
from wireproto.kafka.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from gateway.catalog.interface import Catalog, Entry
    from gateway.common.settings import LogSettings

MAX_TOKENS: Final = 10_000
"""Tokens of a cluster, with those that are over and not swept yet."""

MAX_TOKENS_OF_OWNER: Final = 1_000
"""Those of one owner."""

MAX_RENEWERS: Final = 32
"""Of one token, besides its owner."""

MAX_TOKEN_BYTES: Final = 2_048
"""Bytes that the catalog has of one."""

SWEPT_AT_ONCE: Final = 50
"""Tokens that are deleted in one transaction."""

logger = logging.getLogger(__name__)


class BadToken(ValueError):
    """An entry that is no token. The message says why."""


class Wanted(NamedTuple):
    """A token that somebody asks for. `max_lifetime_ms` of 0 or less: as long as may be."""

    owner: Principal
    requester: Principal
    renewers: tuple[Principal, ...] = ()
    max_lifetime_ms: int = -1


class _Kept(NamedTuple):
    token: DelegationToken
    hmac: bytes
    """b"": it was made with another secret."""
    credentials: dict[Hash, ScramCredential]
    """Those that were asked for."""


def pack(token: DelegationToken, mark: str) -> bytes:
    """A token as the catalog has it; `mark` is that of the secret."""
    return keys.pack(
        {
            "owner": token.owner,
            "requester": token.requester,
            "renewers": token.renewers,
            "issued_ms": token.issued_ms,
            "expires_ms": token.expires_ms,
            "max_ms": token.max_ms,
            "secret": mark,
        }
    )


def unpack(token_id: str, value: bytes) -> tuple[DelegationToken, str]:
    """A token, and the mark of the secret that it was made with. Raises BadToken."""
    if not is_id(token_id):
        raise BadToken("its key is no id")
    try:
        record = keys.unpack(value)
        owner, requester, mark = (
            _principal(record["owner"]),
            _principal(record["requester"]),
            record["secret"],
        )
        renewers = tuple(_principal(one) for one in record["renewers"])
        times = [record[name] for name in ("issued_ms", "expires_ms", "max_ms")]
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise BadToken(f"it lacks something, or that is wrong: {error}") from None
    if owner.type != USER:
        raise BadToken("its owner is no user")
    if not isinstance(mark, str) or not all(type(one) is int and one >= 0 for one in times):
        raise BadToken("its times are to be numbers, and its secret's mark a text")
    return DelegationToken(token_id, owner, requester, renewers, *times), mark


def _principal(pair: Any) -> Principal:
    kind, name = pair
    if not (isinstance(kind, str) and isinstance(name, str)):
        raise TypeError("a principal has two texts")
    return Principal(kind, name)


class DelegationTokens:
    """Those of a cluster, as of the last key that was taken (`gateway.cluster.following`). Without a `secret`
    there are none to come in by.
    """

    def __init__(
        self, catalog: Catalog, secret: TokenSecret | None, settings: LogSettings, now_ms: Callable[[], int]
    ) -> None:
        self._catalog = catalog
        self._secret = secret
        self._settings = settings
        self._now_ms = now_ms
        self._kept: dict[str, _Kept] = {}
        self._ids: dict[bytes, str] = {}
        """By their HMACs."""
        self._of_owner: Counter[Principal] = Counter()
        self._on_revoked: list[Callable[[str], None]] = []
        self._has_warned = False
        for entry in catalog.range(keys.TOKENS):
            self.take(entry.key)

    @property
    def is_on(self) -> bool:
        """Whether there is a secret to make tokens with."""
        return self._secret is not None

    def on_revoked(self, tell: Callable[[str], None]) -> None:
        """Have this called with the id of a token that is gone, or is over sooner than it was, and by which
        somebody may have come in here.
        """
        self._on_revoked.append(tell)

    # what there is -----------------------------------------------------------------------------------------

    def known_keys(self) -> Iterable[str]:
        """Of all that there are in memory."""
        return [keys.token_key(token_id) for token_id in self._kept]

    def take(self, key: str) -> None:
        """This one may be different. One that cannot be read is none: nobody comes in by it."""
        token_id = keys.token_of(key)
        before, now = self._kept.pop(token_id, None), self._read(token_id, self._catalog.get(key))
        if before is not None:
            self._ids.pop(before.hmac, None)
            self._of_owner[before.token.owner] -= 1
            if not self._of_owner[before.token.owner]:
                del self._of_owner[before.token.owner]
        if now is not None:
            self._kept[token_id] = now if before is None else now._replace(credentials=before.credentials)
            self._of_owner[now.token.owner] += 1
            if now.hmac:
                self._ids[now.hmac] = token_id
        if before is None or not before.credentials:
            return  # who would have come in by it?
        if now is None or now.token.expires_ms < before.token.expires_ms:
            for tell in self._on_revoked:
                tell(token_id)

    def _read(self, token_id: str, entry: Entry | None) -> _Kept | None:
        if entry is None:
            return None
        try:
            token, mark = unpack(token_id, entry.value)
        except BadToken as error:
            logger.error("nobody comes in by the token at %s of the catalog: %s", entry.key, error)
            return None
        if self._secret is None or mark != self._secret.mark:
            self._warn()
            return _Kept(token, b"", {})
        return _Kept(token, self._secret.hmac_of(token_id), {})

    def _warn(self) -> None:
        if self._secret is not None and not self._has_warned:
            self._has_warned = True
            logger.warning(
                "some delegation tokens were made with another secret, and nobody comes in by them here: "
                "give all gateways the same --delegation-token-secret-file"
            )

    def all(self) -> Iterator[tuple[DelegationToken, bytes]]:
        """Every token by which somebody may come in here, and its HMAC; those too that are over and not swept
        yet.
        """
        return ((kept.token, kept.hmac) for kept in list(self._kept.values()) if kept.hmac)

    def known(self, kind: Hash, token_id: str) -> Known | None:
        """Who comes in by a token. When it is asked for first this takes milliseconds of processor time, and
        may be called from a worker thread.
        """
        kept = self._kept.get(token_id)
        if self._secret is None or kept is None or not kept.hmac or kept.token.is_over(self._now_ms()):
            return None
        credential = kept.credentials.get(kind)
        if credential is None:
            credential = kept.credentials[kind] = self._secret.credential(kind, token_id)
        return Known(credential, kept.token.owner, kept.token.expires_ms, token_id)

    # changes -----------------------------------------------------------------------------------------------

    async def create(self, wanted: Wanted) -> tuple[DelegationToken, bytes]:
        """A new one, and its HMAC.

        Raises KafkaError: DELEGATION_TOKEN_AUTH_DISABLED, there is no secret; POLICY_VIOLATION, there are too
        many tokens, or renewers, or their names are too long.
        """
        secret = self._needed_secret()
        await self._make_room(wanted)
        now_ms, settings = self._now_ms(), self._settings
        lasts = settings.delegation_token_max_lifetime_ms
        if wanted.max_lifetime_ms > 0:
            lasts = min(lasts, wanted.max_lifetime_ms)
        max_ms = now_ms + lasts
        expires_ms = min(max_ms, now_ms + settings.delegation_token_expiry_time_ms)
        made = DelegationToken(
            new_id(), wanted.owner, wanted.requester, wanted.renewers, now_ms, expires_ms, max_ms
        )
        value = pack(made, secret.mark)
        if len(value) > MAX_TOKEN_BYTES:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"the names in a token take {len(value)} bytes, more than {MAX_TOKEN_BYTES}",
            )
        key = keys.token_key(made.id)
        await self._catalog.transact([Compare(key, 0)], {key: value})
        self.take(key)
        return made, secret.hmac_of(made.id)

    async def _make_room(self, wanted: Wanted) -> None:
        """Raises KafkaError: POLICY_VIOLATION."""
        if len(wanted.renewers) > MAX_RENEWERS:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"a token has at most {MAX_RENEWERS} renewers",
            )
        if self._is_full(wanted.owner):
            while await self.sweep():
                pass
        if self._is_full(wanted.owner):
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"there are {len(self._kept)} tokens, {self._of_owner[wanted.owner]} of this owner: there "
                f"may be {MAX_TOKENS}, and {MAX_TOKENS_OF_OWNER} of one owner; expire some",
            )

    def _is_full(self, owner: Principal) -> bool:
        return len(self._kept) >= MAX_TOKENS or self._of_owner[owner] >= MAX_TOKENS_OF_OWNER

    async def renew(self, hmac: bytes, who: Principal, period_ms: int) -> int:
        """Put off the end of a token: when that is then. A period of 0 or less: as long as may be.

        Raises KafkaError: as `_found`; DELEGATION_TOKEN_EXPIRED; DELEGATION_TOKEN_OWNER_MISMATCH, he is
        neither its owner nor one of its renewers.
        """
        while True:
            token, revision = self._found(hmac)
            now_ms, lasts = self._now_ms(), self._settings.delegation_token_expiry_time_ms
            if token.is_over(now_ms):
                raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
            if not token.is_of(who):
                raise KafkaError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
            if period_ms > 0:
                lasts = min(lasts, period_ms)
            if await self._put_end(token, now_ms + lasts, revision):
                return min(token.max_ms, now_ms + lasts)

    async def expire(self, hmac: bytes, who: Principal, period_ms: int) -> int:
        """End a token after this time, or at once if that is below 0, whether it is over or not: when it ends
        then. Raises KafkaError: as `renew`.
        """
        while True:
            token, revision = self._found(hmac)
            if not token.is_of(who):
                raise KafkaError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
            if period_ms < 0:
                if await self._delete({keys.token_key(token.id): revision}):
                    return period_ms
                continue
            now_ms = self._now_ms()
            if token.is_over(now_ms):
                raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
            if await self._put_end(token, now_ms + period_ms, revision):
                return min(token.max_ms, now_ms + period_ms)

    async def sweep(self) -> bool:
        """Delete tokens that are over; whether there are more of them. Several gateways may do so at once."""
        now_ms = self._now_ms()
        over = [token_id for token_id, kept in self._kept.items() if kept.token.is_over(now_ms)]
        revisions = {}
        for token_id in over[:SWEPT_AT_ONCE]:
            there = self._there(token_id)
            if there is not None and there[0].is_over(now_ms):
                revisions[keys.token_key(token_id)] = there[1]
        is_done = not revisions or await self._delete(revisions)
        return is_done and len(over) > SWEPT_AT_ONCE

    def _needed_secret(self) -> TokenSecret:
        """Raises KafkaError: DELEGATION_TOKEN_AUTH_DISABLED."""
        if self._secret is None:
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
        return self._secret

    def _found(self, hmac: bytes) -> tuple[DelegationToken, int]:
        """As the catalog has it now, and its revision there. Raises KafkaError: DELEGATION_TOKEN_NOT_FOUND,
        or DELEGATION_TOKEN_AUTH_DISABLED.
        """
        self._needed_secret()
        token_id = self._ids.get(hmac)
        there = None if token_id is None else self._there(token_id)
        if there is None:
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        return there

    def _there(self, token_id: str) -> tuple[DelegationToken, int] | None:
        """As the catalog has it now, and its revision there."""
        entry = self._catalog.get(keys.token_key(token_id))
        try:
            return None if entry is None else (unpack(token_id, entry.value)[0], entry.mod_revision)
        except BadToken:
            return None

    async def _put_end(self, token: DelegationToken, expires_ms: int, revision: int) -> bool:
        """False: somebody else was faster."""
        key, changed = keys.token_key(token.id), token._replace(expires_ms=min(token.max_ms, expires_ms))
        try:
            value = pack(changed, self._needed_secret().mark)
            await self._catalog.transact([Compare(key, revision)], {key: value})
        except CompareFailed:
            return False
        self.take(key)
        return True

    async def _delete(self, revisions: dict[str, int]) -> bool:
        """False: somebody else was faster with one of them, and all are still there, or others."""
        compares = [Compare(key, revision) for key, revision in revisions.items()]
        try:
            await self._catalog.transact(compares, {}, tuple(revisions))
        except CompareFailed:
            return False
        for key in revisions:
            self.take(key)
        return True
