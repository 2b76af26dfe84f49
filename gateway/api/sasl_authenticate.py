"""SaslAuthenticate (key 36), versions 0 to 2: a token of the client's, and the server's next one.

Behaviour
  SASL_AUTHENTICATION_FAILED, a tenth of a second later, and then the connection is closed; the message is one
  text for all reasons, but where the mechanism has a better one.
  ILLEGAL_SASL_STATE where no token is awaited. See `gateway.security.sasl_session`.

Version notes
  v1 tells how long the session lasts (KIP-368). v2 is flexible.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import trio

from gateway.answers.encoding import answer
from gateway.common.handlers import Request, Response, api
from gateway.security.sasl_session import SaslSession, Stage, Told
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.broker import Broker

FAILED_SECONDS: Final = 0.1
"""Before a client is told that it has failed: Kafka's `connection.failed.authentication.delay.ms`."""

PASSWORDS_AT_ONCE: Final = 2
"""Passwords that are hashed at the same time, for all who come in by PLAIN or by a delegation token."""

_limiter: trio.lowlevel.RunVar[trio.CapacityLimiter] = trio.lowlevel.RunVar("passwords at once")

_Answer: Any = RESPONSE_CLASSES[ApiKey.SASL_AUTHENTICATE]
_WITHOUT_SASL: Final = Told(
    ErrorCode.ILLEGAL_SASL_STATE,
    "SaslAuthenticate request received on a listener without SASL",
)


@api(key=ApiKey.SASL_AUTHENTICATE, name="SaslAuthenticate", min_version=0, max_version=2)
async def sasl_authenticate(request: Request, broker: Broker) -> Response:
    """Go on with an authentication."""
    told = _WITHOUT_SASL
    if request.sasl is not None:
        token, now_ms = bytes(request.body.auth_bytes), broker.context.now_ms()
        authenticate = partial(request.sasl.authenticate, token, request.header.api_version, now_ms)
        told = await step(request.sasl, token, authenticate)
    if told.closes:
        request.closes = f"authentication failed: {told.why or told.message}"
        if told.error is ErrorCode.SASL_AUTHENTICATION_FAILED:
            await trio.sleep(FAILED_SECONDS)
    response = _Answer(
        error_code=told.error,
        error_message=told.message or "",
        auth_bytes=told.token,
        session_lifetime_ms=told.lifetime_ms,
    )
    return answer(request, response)


async def step(sasl: SaslSession, token: bytes, take: Callable[[], Told]) -> Told:
    """What `take` makes of a token of this session; in a worker thread if that takes long, a few at a time.
    Who was deleted meanwhile, or has another password, does not come in.
    """
    if not sasl.takes_long(token):
        return take()
    told = await trio.to_thread.run_sync(take, limiter=_at_once())
    if sasl.stage is Stage.OPEN and sasl.is_stale:
        return Told(
            ErrorCode.SASL_AUTHENTICATION_FAILED,
            "Authentication failed: users were changed at this moment, try again",
            closes=True,
            why="users were changed in the middle of its login",
        )
    return told


def _at_once() -> trio.CapacityLimiter:
    try:
        return _limiter.get()
    except LookupError:
        _limiter.set(trio.CapacityLimiter(PASSWORDS_AT_ONCE))
        return _limiter.get()
