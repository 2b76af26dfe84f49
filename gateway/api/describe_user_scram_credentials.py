"""DescribeUserScramCredentials (key 50), version 0: by which mechanisms users may come in (KIP-554).

A user that is named and not there is RESOURCE_NOT_FOUND, one that is named twice DUPLICATE_RESOURCE, once;
null and an empty list mean all users. Nothing of a password is told but how often it is hashed. It takes
DESCRIBE on the cluster: CLUSTER_AUTHORIZATION_FAILED at the top, and for each user that is named, but without
its name, as in Kafka (`DescribeUserScramCredentialsRequest.getErrorResponse`).
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

from gateway.answers.denied import cluster_denied
from gateway.answers.element_limit import check_elements
from gateway.answers.encoding import answer_of
from gateway.common.handlers import Request, Response, api
from gateway.configs.values import quoted
from gateway.security.acls import Operation
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker

_Answer: Any = RESPONSE_CLASSES[ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS]
_Result: Any = _Answer.DescribeUserScramCredentialsResult


@api(
    key=ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    name="DescribeUserScramCredentials",
    min_version=0,
    max_version=0,
)
async def describe_user_scram_credentials(request: Request, broker: Broker) -> Response:
    """Tell the mechanisms of users."""
    check_elements(len(request.body.users or ()), "users")
    if denied := cluster_denied(request.access, Operation.DESCRIBE):
        return await _refused(request, denied)
    times = Counter(user.name for user in request.body.users or ())
    if not times:
        times = Counter(user for user, _ in broker.scram_users.all())
    results = await request.work.each(partial(_result, broker), times.items())
    whole = _Answer(throttle_time_ms=0, error_code=ErrorCode.NONE, error_message="", results=results)
    return await answer_of(len(results), request, whole)


async def _refused(request: Request, denied: KafkaError) -> Response:
    code, message = denied.code, denied.message
    results = await request.work.each(lambda _: _failed("", code, message), request.body.users or ())
    whole = _Answer(throttle_time_ms=0, error_code=code, error_message=message, results=results)
    return await answer_of(len(results), request, whole)


def _result(broker: Broker, named: tuple[str, int]) -> Any:
    name, times = named
    if times > 1:
        message = "Cannot describe SCRAM credentials for the same user twice in a single request: "
        return _failed(name, ErrorCode.DUPLICATE_RESOURCE, message + quoted(name))
    credentials = broker.scram_users.of(name)
    if credentials is None:
        message = f"Attempt to describe a user credential that does not exist: {quoted(name)}"
        return _failed(name, ErrorCode.RESOURCE_NOT_FOUND, message)
    infos = [
        _Result.CredentialInfo(mechanism=kind.number, iterations=one.iterations)
        for kind, one in sorted(credentials.items(), key=lambda item: item[0].number)
    ]
    return _Result(user=name, error_code=ErrorCode.NONE, error_message="", credential_infos=infos)


def _failed(name: str, error: ErrorCode, message: str) -> Any:
    return _Result(user=name, error_code=error, error_message=message, credential_infos=[])
