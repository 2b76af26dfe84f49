"""DeleteAcls (key 31), versions 1 to 3: SECURITY_DISABLED for each, as in a Kafka without an authorizer.

A field that says "unknown" (code 0) closes the connection, as in Kafka (`DeleteAclsRequest.validate`). v2 is
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

_Answer: Any = RESPONSE_CLASSES[ApiKey.DELETE_ACLS]


@api(key=ApiKey.DELETE_ACLS, name="DeleteAcls", min_version=1, max_version=3)
async def delete_acls(request: Request, _broker: Broker) -> Response:
    """There are none to delete. Raises MalformedRequest."""
    filters = request.body.filters
    check_elements(len(filters), "filters of ACLs")
    if any(
        0 in {one.resource_type_filter, one.pattern_type_filter, one.operation, one.permission_type}
        for one in filters
    ):
        raise MalformedRequest("a filter of ACLs to be deleted has an unknown element")
    refused = security_disabled(_Answer.DeleteAclsFilterResult, matching_acls=[])
    whole = _Answer(throttle_time_ms=0, filter_results=[refused] * len(filters))
    return await answer_of(len(filters), request, whole)
