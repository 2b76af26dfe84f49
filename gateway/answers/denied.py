"""What somebody is told who may not do what he asks for: the codes and words of Kafka.

Where Kafka throws `ClusterAuthorizationException` (`AuthHelper.authorizeClusterOperation`) the whole request
is refused, by the code at the top of the answer where its schema has one, else by the code of every item.
Kafka's message is a dump of the request then; ours names what is missing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from gateway.common.costs import ELEMENT
from gateway.common.handlers import Request
from gateway.security.access import Access
from gateway.security.acls import CLUSTER_NAME, Operation, ResourceType
from wireproto.kafka.errors import ErrorCode, KafkaError

_DENIED: Final[Mapping[ResourceType, tuple[ErrorCode, str]]] = {
    ResourceType.TOPIC: (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed."),
    ResourceType.GROUP: (ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group authorization failed."),
    ResourceType.CLUSTER: (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed."),
}
"""Code and message by what it is that somebody may not use (`Errors`)."""


def denied(resource_type: ResourceType) -> KafkaError:
    """The error of one item, by the type of what may not be used."""
    return KafkaError(*_DENIED[resource_type])


def cluster_denied(access: Access, operation: Operation) -> KafkaError | None:
    """Why the whole request is refused, which needs this operation on the cluster; None if it is not."""
    if access.may(operation, ResourceType.CLUSTER, CLUSTER_NAME):
        return None
    message = f"The request is not authorized: it needs {operation.name} on the cluster."
    return KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, message)


async def permitted(
    request: Request, operation: Operation, resource_type: ResourceType, names: Iterable[str]
) -> Collection[str]:
    """Those of these resources with which it may be done; a name that comes twice is asked about once."""
    once = dict.fromkeys(names)
    if request.access.is_unrestricted:
        return once
    found = []
    for name in once:
        await request.work.before(ELEMENT)
        if request.access.may(operation, resource_type, name):
            found.append(name)
    return frozenset(found)
