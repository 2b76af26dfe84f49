"""What has configs, by the numbers of its kinds, and whose right it takes to see or change them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.answers.denied import denied
from gateway.security.access import Access
from gateway.security.acls import CLUSTER_NAME, Operation, ResourceType
from wireproto.kafka.errors import KafkaError

UNKNOWN: Final = 0
TOPIC: Final = 2
BROKER: Final = 4
BROKER_LOGGER: Final = 8
CLIENT_METRICS: Final = 16
GROUP: Final = 32
"""Kinds of resources by their numbers (`ConfigResource.Type`)."""

_PROTECTED: Final[Mapping[int, ResourceType]] = {
    TOPIC: ResourceType.TOPIC,
    BROKER: ResourceType.CLUSTER,
    BROKER_LOGGER: ResourceType.CLUSTER,
    CLIENT_METRICS: ResourceType.CLUSTER,
    GROUP: ResourceType.GROUP,
}
"""What is asked about for each (`ConfigHelper`, `ControllerApis.authorizeAlterResource`)."""


def configs_denied(access: Access, operation: Operation, kind: int, name: str) -> KafkaError | None:
    """Why this may not be done with the configs of a resource; None: it may, or Kafka has no such kind."""
    protected = _PROTECTED.get(kind)
    if protected is None:
        return None
    asked = CLUSTER_NAME if protected is ResourceType.CLUSTER else name
    return None if access.may(operation, protected, asked) else denied(protected)
