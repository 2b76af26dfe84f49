"""DescribeAcls (key 29), versions 1 to 3: the ACLs that a filter means, by the pattern that they are of.

Behaviour
  Those that are in force on this gateway. A pattern type "match" asks for all that say something about the
  resource of a name. A code that Kafka does not define means no ACL; "unknown" (code 0) closes the connection
  (`DescribeAclsRequest.normalizeAndValidate`). Without an authorizer: SECURITY_DISABLED, which tools take for
  "ACLs are off". A client needs DESCRIBE on the cluster.

Version notes
  v2 is flexible, v3 knows one more kind of resource.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.administration.acl_requests import (
    check_known,
    codes_of_filter,
    filter_of,
    matching,
    may,
    reserve_answer,
)
from gateway.administration.no_authorizer import NO_AUTHORIZER_ON_BROKER, security_disabled
from gateway.answers.encoding import answer, answer_of
from gateway.common.costs import ELEMENT
from gateway.common.handlers import Request, Response, api
from gateway.security.acls import Operation
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker
    from gateway.security.acls import Acl

_Answer: Any = RESPONSE_CLASSES[ApiKey.DESCRIBE_ACLS]
_Resource: Any = _Answer.DescribeAclsResource
_Description: Any = _Resource.AclDescription


@api(key=ApiKey.DESCRIBE_ACLS, name="DescribeAcls", min_version=1, max_version=3)
async def describe_acls(request: Request, broker: Broker) -> Response:
    """Describe what the filter means. Raises MalformedRequest."""
    await check_known([codes_of_filter(request.body)], "a filter of ACLs", request.work)
    if not may(request, Operation.DESCRIBE):
        refusal = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        whole = _Answer(throttle_time_ms=0, error_code=refusal, error_message=refusal.message, resources=[])
        return answer(request, whole)
    if not broker.acls.is_on:
        whole = security_disabled(_Answer, NO_AUTHORIZER_ON_BROKER, throttle_time_ms=0, resources=[])
        return answer(request, whole)
    found = (await matching(broker.acls.all(), filter_of(request.body), request.work)).values()
    await reserve_answer(request, found)
    by_pattern: dict[tuple[int, str, int], list[Any]] = {}
    for acl in found:
        await request.work.before(ELEMENT)
        pattern = acl.resource_type, acl.name, acl.pattern_type
        by_pattern.setdefault(pattern, []).append(_described(acl))
    resources = await request.work.each(_resource, by_pattern.items())
    whole = _Answer(throttle_time_ms=0, error_code=ErrorCode.NONE, error_message="", resources=resources)
    return await answer_of(len(found) + len(resources), request, whole)


def _described(acl: Acl) -> Any:
    return _Description(
        principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission
    )


def _resource(entry: tuple[tuple[int, str, int], list[Any]]) -> Any:
    (kind, name, pattern), acls = entry
    return _Resource(resource_type=kind, resource_name=name, pattern_type=pattern, acls=acls)
