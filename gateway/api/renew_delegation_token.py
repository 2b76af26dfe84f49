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

from typing import TYPE_CHECKING

from gateway.administration.token_requests import move_end
from gateway.common.handlers import Request, Response, api
from wireproto.kafka.api_keys import ApiKey

if TYPE_CHECKING:
    from gateway.broker import Broker


@api(key=ApiKey.RENEW_DELEGATION_TOKEN, name="RenewDelegationToken", min_version=1, max_version=2)
async def renew_delegation_token(request: Request, broker: Broker) -> Response:
    """Put off its end."""
    return await move_end(request, broker, broker.delegation_tokens.renew, request.body.renew_period_ms)
