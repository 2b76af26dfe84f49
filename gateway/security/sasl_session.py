"""Who a connection is, and which requests it may make before that is known and once it is over.

Pure: requests in; out comes what is answered, and whether the connection is closed after it. One object is
one connection on a listener with SASL. Theory (KIP-12, KIP-43, KIP-152, KIP-255, KIP-368;
``SaslServerAuthenticator``)::

    NEW --handshake 1--> TOKENS --the last token--> OPEN --handshake, when it expires--> AGAIN --> OPEN
    NEW --handshake 0--> FRAMES --the last token--> OPEN

* NEW: one ApiVersions and one SaslHandshake, and nothing else: whoever sends another request is a client
  without SASL, and would not understand an answer;
* TOKENS and AGAIN: SaslAuthenticate. FRAMES: frames that are a token and nothing else, both ways;
* OPEN: everything, until the session is over. Then a request is not answered: clients authenticate again
  before that. A SaslHandshake begins it, by the same mechanism and for the same principal.

Rule: whatever fails closes the connection, and what the client is told is one text for all reasons, but where
a mechanism says otherwise. So nobody learns who exists, or which part was wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Final, NamedTuple

from gateway.security.mechanism import Authenticated, Exchange, Refused
from gateway.security.principal import Principal
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode

LIFETIMES_FROM: Final = 1
"""The version of SaslAuthenticate that tells how long a session lasts."""

MIN_BETWEEN_HANDSHAKES_MS: Final = 1000
"""Sooner than that nobody authenticates again (``SaslServerAuthenticator``)."""

MAX_UNKNOWN_VERSIONS: Final = 4
"""ApiVersions of versions that are not known, before one that is: a client that begins with the newest that
it knows needs one of them."""


class Stage(Enum):
    """See above."""

    NEW = auto()
    TOKENS = auto()
    FRAMES = auto()
    OPEN = auto()
    AGAIN = auto()


class Verdict(Enum):
    """What becomes of a request that is not the session's own."""

    SERVE = auto()
    ILLEGAL_STATE = auto()
    """Answer it with ILLEGAL_SASL_STATE, and close."""
    CLOSE = auto()
    """Say nothing."""


class Shaken(NamedTuple):
    """The answer to a SaslHandshake."""

    error: ErrorCode
    mechanisms: tuple[str, ...]
    closes: bool


class Told(NamedTuple):
    """The answer to a token. `why` is for the log, of a failure: what the client is told is `message`."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    token: bytes = b""
    lifetime_ms: int = 0
    """How long the session lasts; 0: for ever, or it is not told."""
    closes: bool = False
    why: str = ""


class SaslSession:
    """`mechanisms` begin an exchange, by their names; `max_session_ms` is `connections.max.reauth.ms`, 0: a
    session lasts as long as what the client has shown. `revoked` counts credentials that have become wrong.
    """

    def __init__(
        self,
        mechanisms: Mapping[str, Callable[[], Exchange]],
        max_session_ms: int = 0,
        revoked: Callable[[], int] = lambda: 0,
    ) -> None:
        self.principal: Principal | None = None
        """Who it is, once that is known; it never changes."""
        self.token_id = ""
        """The delegation token by which it came in last; "": it was none."""
        self.stage = Stage.NEW
        self._mechanisms = mechanisms
        self._max_session_ms = max_session_ms
        self._revoked = revoked
        self._revoked_before = 0
        self._mechanism = ""
        self._exchange: Exchange | None = None
        self._is_other_mechanism = False
        self._has_asked_versions = False
        self._unknown_versions = 0
        self._began_ms = 0
        """When it was authenticated last."""
        self._ends_ms: int | None = None
        """When the session is over; None: never."""

    @property
    def is_stale(self) -> bool:
        """Whether somebody's credentials have become wrong since this authentication began."""
        return self._revoked() != self._revoked_before

    @property
    def mechanism(self) -> str:
        """By which the client says who it is; "" before it has said."""
        return self._mechanism

    def takes_long(self, token: bytes) -> bool:
        """Whether this token may take milliseconds of processor time: it belongs into a worker thread."""
        return self._exchange is not None and self._exchange.takes_long(token)

    # requests ----------------------------------------------------------------------------------------------

    def judge(self, api_key: int, now_ms: int, *, is_known_version: bool = True) -> Verdict:
        """What becomes of a request that is neither SaslHandshake nor SaslAuthenticate.

        An ApiVersions of a version that is not known gets its error, and the next one is the first; of such
        there may be a few, so that nobody is answered without end who has not said who he is.
        """
        if self.stage is Stage.OPEN:
            return Verdict.CLOSE if self.is_over(now_ms) else Verdict.SERVE
        if self.stage is not Stage.NEW:
            return Verdict.ILLEGAL_STATE
        if api_key != ApiKey.API_VERSIONS or self._has_asked_versions:
            return Verdict.CLOSE
        self._has_asked_versions = is_known_version
        self._unknown_versions += not is_known_version
        return Verdict.SERVE if self._unknown_versions <= MAX_UNKNOWN_VERSIONS else Verdict.CLOSE

    def is_over(self, now_ms: int) -> bool:
        """Whether the session has ended: only what authenticates it again is still listened to."""
        return self._ends_ms is not None and now_ms >= self._ends_ms

    def handshake(self, mechanism: str, version: int, now_ms: int) -> Shaken:
        """SaslHandshake: the client says how it will show who it is."""
        if self.stage is Stage.OPEN and not self._may_begin_again(now_ms):
            return Shaken(ErrorCode.ILLEGAL_SASL_STATE, (), closes=False)
        if self.stage not in {Stage.NEW, Stage.OPEN}:
            return Shaken(ErrorCode.ILLEGAL_SASL_STATE, (), closes=True)
        offered = tuple(self._mechanisms)
        begin = self._mechanisms.get(mechanism)
        if begin is None:
            return Shaken(ErrorCode.UNSUPPORTED_SASL_MECHANISM, offered, closes=True)
        self._exchange = begin()
        self._revoked_before = self._revoked()
        if self.stage is Stage.OPEN:
            self._is_other_mechanism = mechanism != self._mechanism
            self.stage = Stage.AGAIN
        else:
            self._mechanism = mechanism
            self.stage = Stage.TOKENS if version else Stage.FRAMES
        return Shaken(ErrorCode.NONE, offered, closes=False)

    def authenticate(self, token: bytes, version: int, now_ms: int) -> Told:
        """SaslAuthenticate: the client's next token."""
        if self.stage not in {Stage.TOKENS, Stage.AGAIN}:
            said = "SaslAuthenticate request received after successful authentication"
            is_open = self.stage is Stage.OPEN and not self.is_over(now_ms)
            return Told(ErrorCode.ILLEGAL_SASL_STATE, said, closes=not is_open)
        told = self._step(token, now_ms)
        return told if version >= LIFETIMES_FROM else told._replace(lifetime_ms=0)

    def frame(self, token: bytes, now_ms: int) -> Told:
        """A token without a request around it, after SaslHandshake 0. Of what failed nothing is sent."""
        assert self.stage is Stage.FRAMES, "only then there are such frames"
        return self._step(token, now_ms)

    # tokens ------------------------------------------------------------------------------------------------

    def _step(self, token: bytes, now_ms: int) -> Told:
        assert self._exchange is not None, "a handshake has begun one"
        try:
            if self._is_other_mechanism:
                raise Refused("it authenticates again by another mechanism than before")
            step = self._exchange.step(token)
            if step.authenticated is None:
                return Told(token=step.token)
            self._check_same(step.authenticated)
        except Refused as refusal:
            return self._failed(refusal)
        return Told(token=step.token, lifetime_ms=self._open(step.authenticated, now_ms))

    def _check_same(self, authenticated: Authenticated) -> None:
        if self.principal not in {None, authenticated.principal}:
            raise Refused(
                f"it was {self.principal} before, and now is {authenticated.principal}",
                f"Cannot change principals during re-authentication from {self.principal}: "
                f"{authenticated.principal}",
            )

    def _failed(self, refusal: Refused) -> Told:
        doing = "re-authentication" if self.stage is Stage.AGAIN else "authentication"
        told = refusal.told or (
            f"Authentication failed during {doing} due to invalid credentials with SASL mechanism "
            f"{self._mechanism}"
        )
        return Told(ErrorCode.SASL_AUTHENTICATION_FAILED, told, closes=True, why=refusal.why)

    def _open(self, authenticated: Authenticated, now_ms: int) -> int:
        """The session begins; how long it lasts, in ms."""
        self.principal, self.stage, self._exchange = authenticated.principal, Stage.OPEN, None
        self.token_id = authenticated.token_id
        self._began_ms = now_ms
        lasts = [self._max_session_ms] if self._max_session_ms else []
        if authenticated.expires_ms is not None:
            lasts.append(max(0, authenticated.expires_ms - now_ms))
        self._ends_ms = now_ms + min(lasts) if lasts else None
        return min(lasts, default=0)

    def _may_begin_again(self, now_ms: int) -> bool:
        return self._ends_ms is not None and now_ms - self._began_ms > MIN_BETWEEN_HANDSHAKES_MS
