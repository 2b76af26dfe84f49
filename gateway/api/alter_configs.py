"""AlterConfigs (key 33), versions 0 to 2: all configs of a resource at once.

Behaviour
  The configs that are named become all that the resource has of its own: whatever else was set is deleted.
  Everything else is as with IncrementalAlterConfigs, which Kafka prefers since 2.3.

Version notes
  v2 is flexible.

Differs from Kafka
  As IncrementalAlterConfigs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.api.answers import answer_of
from gateway.api.config_changes import Change, change_resources
from gateway.api.registry import Request, Response, api
from gateway.configs.alteration import Alteration, Operation, altered, check_alterations
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker

_Answer: Any = RESPONSE_CLASSES[ApiKey.ALTER_CONFIGS]


@api(key=ApiKey.ALTER_CONFIGS, name="AlterConfigs", min_version=0, max_version=2)
async def alter_configs(request: Request, broker: Broker) -> Response:
    """Change what is asked for; one result per resource."""
    body = request.body
    outcomes = await change_resources(broker, body.resources, _change_of, validate_only=body.validate_only)
    results = [
        _Answer.AlterConfigsResourceResponse(
            error_code=error,
            error_message=message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        for resource, (error, message) in zip(body.resources, outcomes, strict=True)
    ]
    return await answer_of(len(results), request, _Answer(throttle_time_ms=0, responses=results))


def _change_of(resource: Any, _kind: int) -> Change:
    alterations = [Alteration(one.name, Operation.SET, one.value) for one in resource.configs]
    check_alterations(alterations)
    return lambda _configs: altered({}, alterations, lambda _name: None)
