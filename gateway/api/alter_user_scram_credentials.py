"""AlterUserScramCredentials (key 51), version 0: users and their passwords are made and deleted.

Behaviour
  The client salts the password; what comes is SaltedPassword, of which the keys are kept that SCRAM needs
  (KIP-554). Each user has one result, by name. UNACCEPTABLE_CREDENTIAL: no name, too few or too many
  iterations (4,096 to 16,384), no salt, or a name that SCRAM cannot carry (Kafka takes that, and nobody can
  come in by it);
  UNSUPPORTED_SASL_MECHANISM; RESOURCE_NOT_FOUND, there is nothing to delete; DUPLICATE_RESOURCE, a user is
  named twice. The others are changed all the same. It takes ALTER on the cluster:
  CLUSTER_AUTHORIZATION_FAILED for each user.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from gateway.answers.denied import cluster_denied
from gateway.answers.element_limit import check_elements
from gateway.answers.encoding import answer_of
from gateway.cluster.scram_users import Change, Deletion, Refusal, Upsertion
from gateway.common.handlers import Request, Response, api
from gateway.security.acls import Operation
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker

ERRORS: Final = {
    Refusal.NO_MECHANISM: ErrorCode.UNSUPPORTED_SASL_MECHANISM,
    Refusal.TWICE: ErrorCode.DUPLICATE_RESOURCE,
    Refusal.NONE_THERE: ErrorCode.RESOURCE_NOT_FOUND,
}
"""All others are UNACCEPTABLE_CREDENTIAL."""

_Answer: Any = RESPONSE_CLASSES[ApiKey.ALTER_USER_SCRAM_CREDENTIALS]


@api(key=ApiKey.ALTER_USER_SCRAM_CREDENTIALS, name="AlterUserScramCredentials", min_version=0, max_version=0)
async def alter_user_scram_credentials(request: Request, broker: Broker) -> Response:
    """Change users."""
    body = request.body
    check_elements(len(body.deletions) + len(body.upsertions), "users")
    if denied := cluster_denied(request.access, Operation.ALTER):
        users = sorted({one.name for one in (*body.deletions, *body.upsertions)})
        results = await request.work.each(partial(_failed, error=denied.code, message=denied.message), users)
        return await answer_of(len(results), request, _Answer(throttle_time_ms=0, results=results))
    changes: list[Change] = [Deletion(one.name, one.mechanism) for one in body.deletions]
    changes += [
        Upsertion(one.name, one.mechanism, one.iterations, bytes(one.salt), bytes(one.salted_password))
        for one in body.upsertions
    ]
    refused = await broker.scram_users.alter(changes)
    results = [_result(user, refusal) for user, refusal in sorted(refused.items())]
    return await answer_of(len(results), request, _Answer(throttle_time_ms=0, results=results))


def _result(user: str, refusal: Refusal | None) -> Any:
    if refusal is None:
        return _failed(user, ErrorCode.NONE, None)
    return _failed(user, ERRORS.get(refusal, ErrorCode.UNACCEPTABLE_CREDENTIAL), refusal.value)


def _failed(user: str, error: ErrorCode, message: str | None) -> Any:
    return _Answer.AlterUserScramCredentialsResult(user=user, error_code=error, error_message=message)
