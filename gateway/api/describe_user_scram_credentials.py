"""DescribeUserScramCredentials (key 50), version 0: there are none (KIP-554).

A user that is named is RESOURCE_NOT_FOUND, one that is named twice DUPLICATE_RESOURCE, once; null and an
empty list mean all users, of whom there are none.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from gateway.answers.element_limit import check_elements
from gateway.answers.encoding import answer_of
from gateway.common.handlers import Request, Response, api
from gateway.configs.values import quoted
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker

_Answer: Any = RESPONSE_CLASSES[ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS]


@api(
    key=ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    name="DescribeUserScramCredentials",
    min_version=0,
    max_version=0,
)
async def describe_user_scram_credentials(request: Request, _broker: Broker) -> Response:
    """Nobody has any."""
    check_elements(len(request.body.users or ()), "users")
    times = Counter(user.name for user in request.body.users or ())
    results = await request.work.each(_result, times.items())
    whole = _Answer(throttle_time_ms=0, error_code=ErrorCode.NONE, error_message="", results=results)
    return await answer_of(len(results), request, whole)


def _result(named: tuple[str, int]) -> Any:
    name, times = named
    error = ErrorCode.RESOURCE_NOT_FOUND
    message = f"Attempt to describe a user credential that does not exist: {quoted(name)}"
    if times > 1:
        error = ErrorCode.DUPLICATE_RESOURCE
        message = "Cannot describe SCRAM credentials for the same user twice in a single request: " + quoted(
            name
        )
    return _Answer.DescribeUserScramCredentialsResult(
        user=name, error_code=error, error_message=message, credential_infos=[]
    )
