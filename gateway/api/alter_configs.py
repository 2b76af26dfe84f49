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

from gateway.administration.config_changes import Change, answer_changes
from gateway.administration.config_kinds import BROKER_LOGGER
from gateway.common.handlers import Request, Response, api
from gateway.configs.alteration import Alteration, Operation, altered, check_alterations
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker

_Answer: Any = RESPONSE_CLASSES[ApiKey.ALTER_CONFIGS]


@api(key=ApiKey.ALTER_CONFIGS, name="AlterConfigs", min_version=0, max_version=2)
async def alter_configs(request: Request, broker: Broker) -> Response:
    """Change what is asked for; one result per resource."""
    return await answer_changes(request, broker, _Answer, _change_of)


def _change_of(resource: Any, kind: int) -> Change:
    alterations = [Alteration(one.name, Operation.SET, one.value) for one in resource.configs]
    check_alterations(alterations)
    if kind == BROKER_LOGGER:  # this request has never had them, so no right is asked for
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")
    return lambda _configs: altered({}, alterations, lambda _name: None)
