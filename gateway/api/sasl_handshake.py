"""SaslHandshake (key 17), versions 0 and 1: the client says by which mechanism it will show who it is.

Behaviour
  UNSUPPORTED_SASL_MECHANISM, with those that there are, and then the connection is closed. On a listener
  without SASL, and on a connection that is authenticated and need not be again, ILLEGAL_SASL_STATE, and the
  connection goes on. See `gateway.security.sasl_session`.

Version notes
  After v0 come frames that are tokens and nothing else; after v1 SaslAuthenticate (KIP-152).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from gateway.answers.encoding import answer
from gateway.common.handlers import Request, Response, api
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker

_MECHANISM: Final = re.compile(r"[A-Z0-9_-]{1,20}")
"""As mechanisms are called (RFC 4422, 3.1)."""

_Answer: Any = RESPONSE_CLASSES[ApiKey.SASL_HANDSHAKE]


@api(key=ApiKey.SASL_HANDSHAKE, name="SaslHandshake", min_version=0, max_version=1)
async def sasl_handshake(request: Request, broker: Broker) -> Response:
    """Begin an authentication."""
    if request.sasl is None:
        return answer(request, _Answer(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[]))
    mechanism = request.body.mechanism
    shaken = request.sasl.handshake(mechanism, request.header.api_version, broker.context.now_ms())
    if shaken.closes:
        request.closes = f"SaslHandshake by {_shown(mechanism)}: {shaken.error.message}"
    return answer(request, _Answer(error_code=shaken.error, mechanisms=list(shaken.mechanisms)))


def _shown(mechanism: str) -> str:
    """A mechanism, in the log; whatever else stands in its place may be a secret that has got there."""
    return mechanism if _MECHANISM.fullmatch(mechanism) else "what is no mechanism's name"
