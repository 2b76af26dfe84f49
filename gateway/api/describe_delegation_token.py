"""DescribeDelegationToken (key 41), versions 1 to 3: delegation tokens, with their passwords (KIP-48).

Behaviour
  Who asks sees the tokens that are his, those that he may renew, those on whose id he has DESCRIBE, and
  those on whose owner, a user `User:NAME`, he has DESCRIBE_TOKENS; the others are left out without an error.
  Null owners are all, an empty list is none. Tokens that have ended are there until they are swept, within an
  hour.
  DELEGATION_TOKEN_REQUEST_NOT_ALLOWED and DELEGATION_TOKEN_AUTH_DISABLED: as CreateDelegationToken.

  What is told of a token is all that it takes to come in by it: so it is in Kafka, too.

Version notes
  v2 is flexible. v3 tells who has asked for a token (KIP-373).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.administration.token_requests import may_ask
from gateway.answers.element_limit import check_elements
from gateway.answers.encoding import answer_of
from gateway.common.costs import ELEMENT
from gateway.common.handlers import Request, Response, api
from gateway.security.acls import Operation, ResourceType
from gateway.security.principal import Principal
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker
    from gateway.security.delegation_tokens import DelegationToken

_Answer: Any = RESPONSE_CLASSES[ApiKey.DESCRIBE_DELEGATION_TOKEN]
_Token: Any = _Answer.DescribedDelegationToken
_Renewer: Any = _Token.DescribedDelegationTokenRenewer


@api(key=ApiKey.DESCRIBE_DELEGATION_TOKEN, name="DescribeDelegationToken", min_version=1, max_version=3)
async def describe_delegation_token(request: Request, broker: Broker) -> Response:
    """Tell those that the client may see. Raises MalformedRequest."""
    owners = request.body.owners
    check_elements(len(owners or ()), "owners")
    error = ErrorCode.NONE
    if not may_ask(request):
        error = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    elif not broker.delegation_tokens.is_on:
        error = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    tokens = [] if error else await _seen(request, broker)
    elements = sum(1 + len(token.renewers) for token in tokens)
    return await answer_of(elements, request, _Answer(error_code=error, tokens=tokens, throttle_time_ms=0))


async def _seen(request: Request, broker: Broker) -> list[Any]:
    named: set[Principal] | None = None
    if request.body.owners is not None:
        named = set(await request.work.each(_owner, request.body.owners))
    found = []
    for token, hmac in broker.delegation_tokens.all():
        await request.work.before(ELEMENT)
        if (named is None or token.owner in named) and _sees(request, token):
            found.append(_told(token, hmac))
    return found


def _owner(owner: Any) -> Principal:
    return Principal(owner.principal_type, owner.principal_name)


def _sees(request: Request, token: DelegationToken) -> bool:
    access = request.access
    return (
        token.is_of(access.principal)
        or access.sees(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.id)
        or access.sees(Operation.DESCRIBE_TOKENS, ResourceType.USER, str(token.owner))
    )


def _told(token: DelegationToken, hmac: bytes) -> Any:
    return _Token(
        principal_type=token.owner.type,
        principal_name=token.owner.name,
        token_requester_principal_type=token.requester.type,
        token_requester_principal_name=token.requester.name,
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.max_ms,
        token_id=token.id,
        hmac=hmac,
        renewers=[_Renewer(principal_type=one.type, principal_name=one.name) for one in token.renewers],
    )
