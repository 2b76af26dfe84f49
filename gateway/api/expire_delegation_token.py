"""ExpireDelegationToken (key 40), versions 1 and 2: a delegation token ends sooner, or is gone (KIP-48).

Behaviour
  A period below 0 deletes it at once, whether it has ended or not; otherwise it ends after that, and never
  after it ends for good. Connections that have come in by it are closed, and may come again as long as it has
  not ended. Its owner and its renewers may do so, and nobody else, whatever ACLs say:
  DELEGATION_TOKEN_OWNER_MISMATCH. DELEGATION_TOKEN_NOT_FOUND; DELEGATION_TOKEN_EXPIRED: it has ended already.
  DELEGATION_TOKEN_REQUEST_NOT_ALLOWED and DELEGATION_TOKEN_AUTH_DISABLED: as CreateDelegationToken.

Version notes
  v2 is flexible.

Differs from Kafka
  Kafka leaves connections alone until they authenticate again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.administration.token_requests import move_end
from gateway.common.handlers import Request, Response, api
from wireproto.kafka.api_keys import ApiKey

if TYPE_CHECKING:
    from gateway.broker import Broker


@api(key=ApiKey.EXPIRE_DELEGATION_TOKEN, name="ExpireDelegationToken", min_version=1, max_version=2)
async def expire_delegation_token(request: Request, broker: Broker) -> Response:
    """End it."""
    return await move_end(
        request, broker, broker.delegation_tokens.expire, request.body.expiry_time_period_ms
    )
