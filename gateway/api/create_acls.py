"""CreateAcls (key 30), versions 1 to 3: who may, or may not, do what with which resources.

Behaviour
  Each is judged on its own, and the good ones are created together; they are in force on this gateway when
  the answer goes out, and on others as they follow. One that is there already, or twice in a request, is
  created. Without an authorizer each is SECURITY_DISABLED. A client needs ALTER on the cluster.

  INVALID_REQUEST: a cluster of another name, an empty name, a resource type, operation or permission that is
  "any" or not known, a pattern that is not literal or prefixed, a principal without a colon. Nothing else is
  checked, as in Kafka: neither the principal's type, nor the host, nor whether the operation is one of the
  resource. A field that says "unknown" (code 0) closes the connection (`CreateAclsRequest.validate`).

Version notes
  v2 is flexible, v3 knows one more kind of resource.

Differs from Kafka
  Where something is "any", or a pattern "match", Kafka fails inside, and every ACL of the request with it.
  Limits of `gateway.cluster.acls`, on the bytes of an ACL and on all ACLs, are POLICY_VIOLATION. So are, as
  in Kafka, more new ones than one request may create; then nothing is done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.administration.acl_requests import acl_of, check_known, may
from gateway.administration.no_authorizer import security_disabled
from gateway.answers.element_limit import check_elements
from gateway.answers.encoding import answer_of
from gateway.cluster.acls import key_of
from gateway.common.costs import ELEMENT
from gateway.common.handlers import Request, Response, api
from gateway.security.acls import Operation
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker
    from gateway.security.acls import Acl

_Answer: Any = RESPONSE_CLASSES[ApiKey.CREATE_ACLS]
_Result: Any = _Answer.AclCreationResult


@api(key=ApiKey.CREATE_ACLS, name="CreateAcls", min_version=1, max_version=3)
async def create_acls(request: Request, broker: Broker) -> Response:
    """Create those that can be. Raises MalformedRequest."""
    creations = request.body.creations
    check_elements(len(creations), "ACLs")
    codes = (
        (one.resource_type, one.resource_pattern_type, one.operation, one.permission_type)
        for one in creations
    )
    await check_known(codes, "an ACL to be created", request.work)
    if not may(request, Operation.ALTER):
        refusal = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        results = [_Result(error_code=refusal, error_message=refusal.message)] * len(creations)
    elif not broker.acls.is_on:
        results = [security_disabled(_Result)] * len(creations)
    else:
        results = await request.work.each(_result, await _create(request, broker))
    return await answer_of(len(creations), request, _Answer(throttle_time_ms=0, results=results))


async def _create(request: Request, broker: Broker) -> list[KafkaError | None]:
    """What is against each."""
    refusals: list[KafkaError | None] = []
    wanted: dict[str, Acl] = {}
    for creation in request.body.creations:
        await request.work.before(ELEMENT)
        try:
            acl = acl_of(creation)
        except KafkaError as refused:
            refusals.append(refused)
        else:
            wanted[key_of(acl)] = acl
            refusals.append(None)
    if wanted:
        try:
            await broker.create_acls(wanted)
        except KafkaError as failed:
            return [failed if refused is None else refused for refused in refusals]
        await broker.remembered()
    return refusals


def _result(refused: KafkaError | None) -> Any:
    if refused is None:
        return _Result(error_code=ErrorCode.NONE, error_message="")  # as Kafka says nothing
    return _Result(error_code=refused.code, error_message=refused.message)
