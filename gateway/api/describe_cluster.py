"""DescribeCluster (key 60), versions 0 to 2: the nodes that clients may talk to.

Behaviour
  The gateways that are alive, and the controller among them, as Metadata tells them. Authorized operations
  are the lowest int32, "not asked for", unless they are; then all that the client may do, or 0 if DESCRIBE on
  the cluster is not among it. Everything else is told to everybody.

Version notes
  v1 asks for brokers or for controllers (KIP-919): a broker's listener refuses the latter with
  MISMATCHED_ENDPOINT_TYPE, anything else with UNSUPPORTED_ENDPOINT_TYPE. v2 may include fenced brokers
  (KIP-1073): there are none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.answers.encoding import answer
from gateway.common.handlers import Request, Response, api
from gateway.security.acls import CLUSTER_NAME, Operation, ResourceType
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker
    from gateway.security.access import Access

BROKERS: Final = 1
CONTROLLERS: Final = 2

_Answer: Any = RESPONSE_CLASSES[ApiKey.DESCRIBE_CLUSTER]


@api(key=ApiKey.DESCRIBE_CLUSTER, name="DescribeCluster", min_version=0, max_version=2)
async def describe_cluster(request: Request, broker: Broker) -> Response:
    """Describe the gateways of the cluster."""
    body = request.body
    if body.endpoint_type != BROKERS:
        return answer(request, _refused(body.endpoint_type))
    nodes = [
        _Answer.DescribeClusterBroker(
            broker_id=one.id, host=one.host, port=one.port, rack=one.rack, is_fenced=False
        )
        for one in broker.gateways.brokers(request.local_address)
    ]
    response = _Answer(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        error_message=None,
        endpoint_type=BROKERS,
        cluster_id=broker.cluster_id,
        controller_id=broker.gateways.controller(request.local_address),
        brokers=nodes,
        authorized_operations=(
            _operations(request.access) if body.include_cluster_authorized_operations else None
        ),
    )
    return answer(request, response)


def _operations(access: Access) -> frozenset[Operation]:
    """What the client may do with the cluster, if it may know."""
    if not access.sees(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return frozenset()
    return access.operations(ResourceType.CLUSTER, CLUSTER_NAME)


def _refused(endpoint_type: int) -> Any:
    if endpoint_type == CONTROLLERS:
        error = ErrorCode.MISMATCHED_ENDPOINT_TYPE
        message = (
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
        )
    else:
        error = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        message = f"Unsupported endpoint type {endpoint_type}"
    return _Answer(
        throttle_time_ms=0,
        error_code=error,
        error_message=message,
        endpoint_type=BROKERS,
        cluster_id="",
        controller_id=-1,
        brokers=[],
        authorized_operations=None,
    )
