"""Which frames a connection of a listener with SASL may send, and what becomes of those that are tokens.

The rules are in `gateway.security.sasl_session`; requests that begin or go on with an authentication are APIs
like others (`gateway.api.sasl_handshake`, `sasl_authenticate`). What is here is what no API can do: refuse
others before they are decoded, and take frames that are no requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.security.sasl_session import SaslSession, Stage, Told, Verdict
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.framing import BIG_FRAME_BYTES

if TYPE_CHECKING:
    from gateway.front.dispatch import Route

MAX_UNKNOWN_FRAME_BYTES: Final = 512 * 1024
"""Largest frame of who is not known yet: Kafka's `sasl.server.max.receive.size`."""

MAX_TOKEN_FRAME_BYTES: Final = BIG_FRAME_BYTES - 1
"""Largest frame that is a token: it needs no memory of its own."""

_OF_THE_SESSION: Final = frozenset((ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE))


class Unauthenticated(Exception):
    """The connection is to be closed; the message says why, for the log."""


def max_frame_bytes(session: SaslSession | None, of_known: int) -> int:
    """What the next frame of this connection may have; `of_known`: one of a client that is known."""
    if session is None or session.principal is not None:
        return of_known
    return MAX_TOKEN_FRAME_BYTES if session.stage is Stage.FRAMES else MAX_UNKNOWN_FRAME_BYTES


def check(session: SaslSession, route: Route, version: int, now_ms: int) -> None:
    """Whether this request may be served now. Raises Unauthenticated."""
    if route.key in _OF_THE_SESSION:
        if route.key == ApiKey.SASL_AUTHENTICATE and session.stage is Stage.NEW:
            raise Unauthenticated(f"{route.name} before SaslHandshake has said by which mechanism")
        return
    is_known_version = route.min_version <= version <= route.max_version
    if session.judge(route.key, now_ms, is_known_version=is_known_version) is Verdict.SERVE:
        return
    if session.stage is Stage.OPEN:
        raise Unauthenticated(f"{route.name} after the end of its session: it has not authenticated again")
    raise Unauthenticated(
        f"{route.name} before it is known who the client is: this listener wants SASL, and the client's "
        "security.protocol may have none"
    )


def framed(told: Told) -> bytes:
    """The answer to a frame that is a token. Raises Unauthenticated: of what has failed nothing is sent."""
    if told.closes:
        raise Unauthenticated(f"authentication failed: {told.why}")
    return len(told.token).to_bytes(4, "big") + told.token
