"""DescribeAcls (key 29), versions 1 to 3: SECURITY_DISABLED, as in a Kafka without an authorizer.

Tools take that for "ACLs are off" and go on. v2 is flexible, v3 knows one more kind of resource.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.administration.no_authorizer import NO_AUTHORIZER_ON_BROKER, security_disabled
from gateway.answers.encoding import answer
from gateway.common.handlers import Request, Response, api
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker

_Answer: Any = RESPONSE_CLASSES[ApiKey.DESCRIBE_ACLS]


@api(key=ApiKey.DESCRIBE_ACLS, name="DescribeAcls", min_version=1, max_version=3)
async def describe_acls(request: Request, _broker: Broker) -> Response:
    """There are none to describe."""
    whole = security_disabled(_Answer, NO_AUTHORIZER_ON_BROKER, throttle_time_ms=0, resources=[])
    return answer(request, whole)
