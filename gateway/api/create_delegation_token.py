"""CreateDelegationToken (key 38), versions 1 to 3: a name and a password to come in by, for a while (KIP-48).

Behaviour
  The token is in the catalog when the answer goes out; other gateways have it as they follow. Whoever comes
  in by it is its owner, and may what he may. DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: the client has not said
  who it is, or has come in by a token itself. A token for somebody else takes CREATE_TOKENS on the user
  `User:NAME`: DELEGATION_TOKEN_AUTHORIZATION_FAILED. INVALID_PRINCIPAL_TYPE: an owner or a renewer is no
  `User`. DELEGATION_TOKEN_AUTH_DISABLED: the gateway has no --delegation-token-secret-file.

Version notes
  v2 is flexible. v3 adds the owner, and who has asked (KIP-373).

Differs from Kafka
  Kafka takes owners of any type; here that would be gateways, to whom nothing is denied. How many tokens
  there may be, of an owner and in all, and how many renewers, is bounded: POLICY_VIOLATION.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from gateway.administration.token_requests import NO_TIME, may_ask
from gateway.answers.encoding import answer
from gateway.cluster.delegation_tokens import MAX_RENEWERS, Wanted
from gateway.common.handlers import Request, Response, api
from gateway.security.acls import Operation, ResourceType
from gateway.security.principal import USER, Principal
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker

_Answer: Any = RESPONSE_CLASSES[ApiKey.CREATE_DELEGATION_TOKEN]


@api(key=ApiKey.CREATE_DELEGATION_TOKEN, name="CreateDelegationToken", min_version=1, max_version=3)
async def create_delegation_token(request: Request, broker: Broker) -> Response:
    """Make one."""
    wanted = _wanted(request)
    if refusal := _refusal(request, wanted):
        return answer(request, _told(wanted, refusal, issue_ms=NO_TIME, expiry_ms=NO_TIME, max_ms=NO_TIME))
    try:
        make = partial(broker.delegation_tokens.create, wanted)
        token, hmac = await broker.change_tokens(make, is_more=True)
    except KafkaError as failed:
        return answer(request, _told(wanted, failed.code))
    await broker.remembered()
    times = {"issue_ms": token.issued_ms, "expiry_ms": token.expires_ms, "max_ms": token.max_ms}
    return answer(request, _told(wanted, ErrorCode.NONE, token.id, hmac, **times))


def _wanted(request: Request) -> Wanted:
    body, requester = request.body, request.access.principal
    owner = requester
    if body.owner_principal_name:
        owner = Principal(body.owner_principal_type or "", body.owner_principal_name)
    looked_at = body.renewers[: MAX_RENEWERS + 1]  # with so many it is refused
    renewers = tuple(Principal(one.principal_type, one.principal_name) for one in looked_at)
    return Wanted(owner, requester, renewers, body.max_lifetime_ms)


def _refusal(request: Request, wanted: Wanted) -> ErrorCode | None:
    """What is against it, whatever tokens there are."""
    if not may_ask(request):
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    is_own = wanted.owner == wanted.requester
    if not (is_own or request.access.may(Operation.CREATE_TOKENS, ResourceType.USER, str(wanted.owner))):
        return ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    if any(one.type != USER for one in (wanted.owner, *wanted.renewers)):
        return ErrorCode.INVALID_PRINCIPAL_TYPE
    return None


def _told(
    wanted: Wanted, error: ErrorCode, token_id: str = "", hmac: bytes = b"",
    *, issue_ms: int = 0, expiry_ms: int = 0, max_ms: int = 0,
) -> Any:  # fmt: skip
    return _Answer(
        error_code=error,
        principal_type=wanted.owner.type,
        principal_name=wanted.owner.name,
        token_requester_principal_type=wanted.requester.type,
        token_requester_principal_name=wanted.requester.name,
        issue_timestamp_ms=issue_ms,
        expiry_timestamp_ms=expiry_ms,
        max_timestamp_ms=max_ms,
        token_id=token_id,
        hmac=hmac,
        throttle_time_ms=0,
    )
