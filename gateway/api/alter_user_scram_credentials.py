"""AlterUserScramCredentials (key 51), version 0: users and their passwords are made and deleted.

Behaviour
  The client salts the password; what comes is SaltedPassword, of which the keys are kept that SCRAM needs
  (KIP-554). Each user has one result, by name. UNACCEPTABLE_CREDENTIAL: no name, too few or too many
  iterations (4,096 to 16,384), no salt, or a name that SCRAM cannot carry (Kafka takes that, and nobody can
  come in by it);
  UNSUPPORTED_SASL_MECHANISM; RESOURCE_NOT_FOUND, there is nothing to delete; DUPLICATE_RESOURCE, a user is
  named twice. The others are changed all the same, one after the other. It takes ALTER on the cluster:
  CLUSTER_AUTHORIZATION_FAILED for each user.

Differs from Kafka
  There may be 10,000 users, which Kafka does not bound: another one is POLICY_VIOLATION. A request that names
  more than 10,000 closes the connection.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from gateway.answers.denied import cluster_denied
from gateway.answers.element_limit import MAX_CHANGED, check_elements
from gateway.answers.encoding import answer_of
from gateway.cluster.scram_users import Change, Deletion, Refusal, Upsertion
from gateway.common.costs import ELEMENT
from gateway.common.handlers import Request, Response, api
from gateway.security.acls import Operation
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker

ERRORS: Final = {
    Refusal.NO_MECHANISM: ErrorCode.UNSUPPORTED_SASL_MECHANISM,
    Refusal.TOO_MANY_USERS: ErrorCode.POLICY_VIOLATION,
    Refusal.TWICE: ErrorCode.DUPLICATE_RESOURCE,
    Refusal.NONE_THERE: ErrorCode.RESOURCE_NOT_FOUND,
}
"""All others are UNACCEPTABLE_CREDENTIAL."""

_Outcome: TypeAlias = tuple[ErrorCode, str | None]

DONE: Final[_Outcome] = (ErrorCode.NONE, None)

_Answer: Any = RESPONSE_CLASSES[ApiKey.ALTER_USER_SCRAM_CREDENTIALS]


@api(key=ApiKey.ALTER_USER_SCRAM_CREDENTIALS, name="AlterUserScramCredentials", min_version=0, max_version=0)
async def alter_user_scram_credentials(request: Request, broker: Broker) -> Response:
    """Change users; one result for each."""
    body = request.body
    check_elements(len(body.deletions) + len(body.upsertions), "users", MAX_CHANGED)
    if denied := cluster_denied(request.access, Operation.ALTER):
        users = sorted({one.name for one in (*body.deletions, *body.upsertions)})
        failed = partial(_result, outcome=(denied.code, denied.message))
        results = await request.work.each(failed, users)
        return await answer_of(len(results), request, _Answer(throttle_time_ms=0, results=results))
    changes: list[Change] = [Deletion(one.name, one.mechanism) for one in body.deletions]
    changes += [
        Upsertion(one.name, one.mechanism, one.iterations, bytes(one.salt), bytes(one.salted_password))
        for one in body.upsertions
    ]
    outcomes = {user: _outcome(refusal) for user, refusal in broker.scram_users.refusals(changes).items()}
    is_changed = False
    for change in changes:
        await request.work.before(ELEMENT)
        if outcomes[change.user] == DONE:
            outcomes[change.user] = await _make(broker, change)
            is_changed = is_changed or outcomes[change.user] == DONE
    if is_changed:
        await broker.remembered()
    results = [_result(*one) for one in sorted(outcomes.items())]
    return await answer_of(len(results), request, _Answer(throttle_time_ms=0, results=results))


async def _make(broker: Broker, change: Change) -> _Outcome:
    try:
        return _outcome(await broker.alter_user(change))
    except KafkaError as error:
        return error.code, error.message


def _outcome(refusal: Refusal | None) -> _Outcome:
    if refusal is None:
        return DONE
    return ERRORS.get(refusal, ErrorCode.UNACCEPTABLE_CREDENTIAL), refusal.value


def _result(user: str, outcome: _Outcome) -> Any:
    error, message = outcome
    return _Answer.AlterUserScramCredentialsResult(user=user, error_code=error, error_message=message)
