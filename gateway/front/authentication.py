"""Which frames a connection of a listener with SASL may send, and what becomes of those that are tokens.

The rules are in `gateway.security.sasl_session`; requests that begin or go on with an authentication are APIs
like others (`gateway.api.sasl_handshake`, `sasl_authenticate`). What is here is what no API can do: refuse
others, by an answer only while a token is awaited, as who has begun SASL understands it; and take frames that
are no requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from gateway.answers.refused_whole import refused_whole
from gateway.api.sasl_authenticate import FAILED_SECONDS
from gateway.common.handlers import Request, Response
from gateway.security.sasl_session import SaslSession, Stage, Told, Verdict
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.framing import BIG_FRAME_BYTES
from wireproto.kafka.responses import encode_response

if TYPE_CHECKING:
    from gateway.front.dispatch import Route

MAX_UNKNOWN_FRAME_BYTES: Final = 512 * 1024
"""Largest frame of who is not known yet: Kafka's `sasl.server.max.receive.size`."""

MAX_REFUSED_FRAME_BYTES: Final = 16 * 1024
"""Largest request that is answered with an error while a token is awaited: who sends a larger one is hung up
on, and nothing of it is decoded."""

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


def is_served(session: SaslSession, route: Route, version: int, now_ms: int) -> bool:
    """Whether this request may be served now; if not, it is answered with an error (`refuse`). Raises
    Unauthenticated: it is not answered at all.
    """
    if route.key in _OF_THE_SESSION:
        if route.key == ApiKey.SASL_AUTHENTICATE and session.stage is Stage.NEW:
            raise Unauthenticated(f"{route.name} before SaslHandshake has said by which mechanism")
        return True
    is_known_version = route.min_version <= version <= route.max_version
    verdict = session.judge(route.key, now_ms, is_known_version=is_known_version)
    if verdict is not Verdict.CLOSE:
        return verdict is Verdict.SERVE
    if session.stage is Stage.OPEN:
        raise Unauthenticated(f"{route.name} after the end of its session: it has not authenticated again")
    raise Unauthenticated(
        f"{route.name} before it is known who the client is: this listener wants SASL, and the client's "
        "security.protocol may have none"
    )


async def refuse(request: Request, _broker: object) -> Response:
    """The answer to a request that comes while a token is awaited, a little later as to whoever has failed;
    then the connection is closed (`SaslServerAuthenticator.handleSaslToken`). Raises MalformedRequest.
    """
    key, version = request.header.api_key, request.header.api_version
    if key == ApiKey.API_VERSIONS and request.body is None:
        version = 0  # it has asked in one that is not known
    name = ApiKey(key).name
    words = f"Unexpected Kafka request of type {name} during SASL authentication."
    response = refused_whole(key, version, request.body, ErrorCode.ILLEGAL_SASL_STATE, words)
    request.closes = f"{name} while a token of its authentication is awaited"
    await trio.sleep(FAILED_SECONDS)
    return encode_response(response, version, request.header.correlation_id)


def framed(told: Told) -> bytes:
    """The answer to a frame that is a token. Raises Unauthenticated: of what has failed nothing is sent."""
    if told.closes:
        raise Unauthenticated(f"authentication failed: {told.why}")
    return len(told.token).to_bytes(4, "big") + told.token
