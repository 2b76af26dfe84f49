"""RenewDelegationToken (key 39), versions 1 and 2: a delegation token ends later (KIP-48).

Behaviour
  It ends after the period that is asked for, but no later than --delegation-token-expiry-time-ms from now,
  and never after it ends for good. Its owner and its renewers may do so, and nobody else, whatever ACLs say:
  DELEGATION_TOKEN_OWNER_MISMATCH. DELEGATION_TOKEN_NOT_FOUND; DELEGATION_TOKEN_EXPIRED: it has ended already.
  DELEGATION_TOKEN_REQUEST_NOT_ALLOWED and DELEGATION_TOKEN_AUTH_DISABLED: as CreateDelegationToken.

Version notes
  v2 is flexible.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from gateway.administration.token_requests import NO_TIME, may_ask
from gateway.answers.encoding import answer
from gateway.common.handlers import Request, Response, api
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker

_Answer: Any = RESPONSE_CLASSES[ApiKey.RENEW_DELEGATION_TOKEN]


@api(key=ApiKey.RENEW_DELEGATION_TOKEN, name="RenewDelegationToken", min_version=1, max_version=2)
async def renew_delegation_token(request: Request, broker: Broker) -> Response:
    """Put off its end."""
    if not may_ask(request):
        return answer(request, _told(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, NO_TIME))
    hmac, who = bytes(request.body.hmac), request.access.principal
    try:
        renew = partial(broker.delegation_tokens.renew, hmac, who, request.body.renew_period_ms)
        expires_ms = await broker.change_tokens(renew)
    except KafkaError as failed:
        return answer(request, _told(failed.code))
    await broker.remembered()
    return answer(request, _told(ErrorCode.NONE, expires_ms))


def _told(error: ErrorCode, expires_ms: int = 0) -> Any:
    return _Answer(error_code=error, expiry_timestamp_ms=expires_ms, throttle_time_ms=0)
