"""CreateAcls (key 30), versions 1 to 3: SECURITY_DISABLED for each, as in a Kafka without an authorizer.

A field that says "unknown" (code 0) closes the connection, as in Kafka (`CreateAclsRequest.validate`). v2 is
flexible, v3 knows one more kind of resource.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.administration.no_authorizer import security_disabled
from gateway.answers.element_limit import check_elements
from gateway.answers.encoding import answer_of
from gateway.common.handlers import Request, Response, api
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import MalformedRequest
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker

_Answer: Any = RESPONSE_CLASSES[ApiKey.CREATE_ACLS]


@api(key=ApiKey.CREATE_ACLS, name="CreateAcls", min_version=1, max_version=3)
async def create_acls(request: Request, _broker: Broker) -> Response:
    """None is created. Raises MalformedRequest."""
    creations = request.body.creations
    check_elements(len(creations), "ACLs")
    if any(
        0 in {one.resource_type, one.resource_pattern_type, one.operation, one.permission_type}
        for one in creations
    ):
        raise MalformedRequest("an ACL to be created has an unknown element")
    refused = security_disabled(_Answer.AclCreationResult)
    whole = _Answer(throttle_time_ms=0, results=[refused] * len(creations))
    return await answer_of(len(creations), request, whole)
