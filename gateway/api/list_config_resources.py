"""ListConfigResources (key 74), versions 0 and 1: what has configs (KIP-714, KIP-1142).

Behaviour
  Topics, the broker, and the broker as the owner of loggers; client metrics and groups have none here. Types
  restrict that; an empty list means all of them. A type that Kafka does not know is UNSUPPORTED_VERSION for
  the whole request. It takes DESCRIBE_CONFIGS on the cluster, and shows all topics then.

Version notes
  v0 lists client metrics alone: there are none. v1 has types in the request and in the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.administration.config_kinds import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from gateway.answers.denied import cluster_denied
from gateway.answers.encoding import answer_of
from gateway.common.handlers import Request, Response, api
from gateway.security.acls import Operation
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker

_Answer: Any = RESPONSE_CLASSES[ApiKey.LIST_CONFIG_RESOURCES]


@api(key=ApiKey.LIST_CONFIG_RESOURCES, name="ListConfigResources", min_version=0, max_version=1)
async def list_config_resources(request: Request, broker: Broker) -> Response:
    """List what is asked for."""
    known = (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP)
    if request.header.api_version == 0:
        wanted = {CLIENT_METRICS}
    else:
        wanted = set(request.body.resource_types) or set(known)
    found: list[tuple[str, int]] = []
    error = ErrorCode.NONE
    if denied := cluster_denied(request.access, Operation.DESCRIBE_CONFIGS):
        error = denied.code
    elif not wanted <= set(known):
        error = ErrorCode.UNSUPPORTED_VERSION
    else:
        brokers = [str(one.id) for one in broker.gateways.brokers(request.local_address)]
        names = {TOPIC: [topic.name for topic in broker.topics.all()], BROKER: brokers}
        names[BROKER_LOGGER] = names[BROKER]
        found = [(name, kind) for kind in known if kind in wanted for name in names.get(kind, ())]
    resources = [_Answer.ConfigResource(resource_name=name, resource_type=kind) for name, kind in found]
    answer = _Answer(throttle_time_ms=0, error_code=error, config_resources=resources)
    return await answer_of(len(resources), request, answer)
