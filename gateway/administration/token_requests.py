"""Who may ask for delegation tokens, what is answered to others, and how the end of a token is moved."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from gateway.answers.encoding import answer
from gateway.security.principal import ANONYMOUS
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.cluster.cluster import Cluster
    from gateway.common.handlers import Request, Response
    from gateway.security.principal import Principal

NO_TIME: Final = -1
"""A time in an answer to who may not ask (`DelegationTokenManager.ERROR_TIMESTAMP`)."""


def may_ask(request: Request) -> bool:
    """Whether who asks has shown who he is, and not by a token (`KafkaApis.allowTokenRequests`): otherwise a
    token would live for ever, by others that are asked for with it.
    """
    if request.sasl is None:
        return request.access.principal != ANONYMOUS
    return not request.sasl.token_id


async def move_end(
    request: Request,
    cluster: Cluster,
    move: Callable[[bytes, Principal, int], Awaitable[int]],
    period_ms: int,
) -> Response:
    """Have the token of the request's `hmac` end at another time, and tell when: what RenewDelegationToken
    and ExpireDelegationToken share. `move` is a method of `DelegationTokens`.
    """
    if not may_ask(request):
        return _told(request, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, NO_TIME)
    hmac, who = bytes(request.body.hmac), request.access.principal
    try:
        expires_ms = await cluster.change_tokens(partial(move, hmac, who, period_ms))
    except KafkaError as failed:
        return _told(request, failed.code, 0)
    await cluster.remembered()
    return _told(request, ErrorCode.NONE, expires_ms)


def _told(request: Request, error: ErrorCode, expires_ms: int) -> Response:
    answer_class: Any = RESPONSE_CLASSES[request.header.api_key]
    return answer(request, answer_class(error_code=error, expiry_timestamp_ms=expires_ms, throttle_time_ms=0))
