"""IncrementalAlterConfigs (key 44), versions 0 and 1: single configs are set, deleted, added to.

Behaviour
  What is not named stays as it is. Each resource is changed as a whole or not at all, on its own; it holds
  when the answer goes out, and is in the catalog. A value of a list is appended to, or subtracted from, what
  is set, or Kafka's default. A config of a topic is checked as when a topic is created; what takes effect
  does so for the next request (docs/topic-configs.md). Configs of this node, or (without a name) of all
  nodes of the cluster: those that are defaults of topic configs take effect on every topic without one of its
  own. With `validate_only` nothing changes and the answer is the same.

  It takes ALTER_CONFIGS on the topic, on the cluster for the rest. Whoever has no right hears that a resource
  is named twice, or its configs, that a value is missing, or that a broker cannot have it, all the same: so
  it is in Kafka, whose brokers look at that before they ask the controller.

Version notes
  v1 is flexible.

Differs from Kafka
  See `gateway.configs.broker_validation` for the broker configs that can be changed. Log levels, client
  metrics and groups are INVALID_REQUEST.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.administration.config_changes import Change, answer_changes
from gateway.administration.config_kinds import BROKER
from gateway.common.handlers import Request, Response, api
from gateway.configs.alteration import Alteration, altered, check_alterations, topic_list_default
from gateway.configs.broker_validation import broker_list_default, broker_not_a_list
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker

_Answer: Any = RESPONSE_CLASSES[ApiKey.INCREMENTAL_ALTER_CONFIGS]


@api(key=ApiKey.INCREMENTAL_ALTER_CONFIGS, name="IncrementalAlterConfigs", min_version=0, max_version=1)
async def incremental_alter_configs(request: Request, broker: Broker) -> Response:
    """Change what is asked for; one result per resource."""
    return await answer_changes(request, broker, _Answer, _change_of)


def _change_of(resource: Any, kind: int) -> Change:
    alterations = [Alteration(one.name, one.config_operation, one.value) for one in resource.configs]
    check_alterations(alterations)
    if kind == BROKER:
        return lambda configs: altered(configs, alterations, broker_list_default, broker_not_a_list)
    return lambda configs: altered(configs, alterations, topic_list_default)
