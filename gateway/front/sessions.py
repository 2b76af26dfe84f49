"""What a connection of a listener with SASL goes through: the mechanisms that there are, over the users and
delegation tokens that there are.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Final

from gateway.security import gateways
from gateway.security.mechanism import Exchange
from gateway.security.oauthbearer import MECHANISM as OAUTHBEARER
from gateway.security.oauthbearer import Bearer, OauthBearerExchange
from gateway.security.plain import PlainExchange
from gateway.security.sasl_session import SaslSession
from gateway.security.scram import NONCE_BYTES, Hash, Known, ScramExchange, is_password, nobody

if TYPE_CHECKING:
    from gateway.cluster.scram_users import ScramUsers
    from gateway.front.listeners import Listener


PLAIN: Final = "PLAIN"
"""The mechanism's name (RFC 4616)."""


MECHANISMS: Final = (*(kind.value for kind in Hash), PLAIN)
"""Those that are over the cluster's users."""


class Sessions:
    """`secret` is the cluster's (`ScramUsers.secret`); `max_session_ms` is `connections.max.reauth.ms`.
    `mechanisms` are the names of those that are offered. `validate` says whom a token of OAUTHBEARER is
    about; without it that is not offered.
    """

    def __init__(
        self,
        users: ScramUsers,
        secret: bytes,
        max_session_ms: int = 0,
        mechanisms: Collection[str] = MECHANISMS,
        validate: Callable[[str], Bearer] | None = None,
        known_token: Callable[[Hash, str], Known | None] = lambda _kind, _id: None,
    ) -> None:
        self._users = users
        self._known_token = known_token
        self._secret = secret
        self._max_session_ms = max_session_ms
        known: dict[str, Callable[[], Exchange]] = {kind.value: partial(self._scram, kind) for kind in Hash}
        known[PLAIN] = lambda: PlainExchange(self._is_right)
        self._mechanisms = {name: begin for name, begin in known.items() if name in mechanisms}
        if validate is not None:
            self._mechanisms[OAUTHBEARER] = partial(OauthBearerExchange, validate)

    def begin(self, listener: Listener) -> SaslSession | None:
        """That of a new connection; None where nobody is asked who he is."""
        if not listener.protocol.has_sasl:
            return None
        return SaslSession(self._mechanisms, self._max_session_ms, self._users.revoked)

    def _scram(self, kind: Hash) -> ScramExchange:
        def lookup(name: str, is_token: bool) -> Known | None:
            if is_token:
                return self._known_token(kind, name)
            gateway = gateways.gateway_of(name)
            if gateway is None:
                return self._users.known(kind, name)
            return Known(gateways.credential(kind, gateway, self._secret), gateways.principal_of(gateway))

        return ScramExchange(kind, lookup, self._secret, secrets.token_bytes(NONCE_BYTES))

    def _is_right(self, user: str, password: str) -> bool:
        """Whether it is the user's password, by whichever mechanism it was set."""
        kept = self._users.of(user) or {}
        # As many hashes for everybody, so that the time does not tell who exists, or what he has.
        found = [
            is_password(kind, kept.get(kind) or nobody(kind, user, self._secret), password) for kind in Hash
        ]
        return True in found
