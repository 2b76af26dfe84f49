"""ListPartitionReassignments (key 46), version 0: there never are any (KIP-455).

A segment that gets another member (`dafka store replace`) is no reassignment of Kafka's: Metadata shows the
new store when it has all of it, and nothing can be cancelled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.answers.encoding import answer
from gateway.common.handlers import Request, Response, api
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker

_Answer: Any = RESPONSE_CLASSES[ApiKey.LIST_PARTITION_REASSIGNMENTS]


@api(
    key=ApiKey.LIST_PARTITION_REASSIGNMENTS,
    name="ListPartitionReassignments",
    min_version=0,
    max_version=0,
)
async def list_partition_reassignments(request: Request, _broker: Broker) -> Response:
    """None."""
    none = _Answer(throttle_time_ms=0, error_code=ErrorCode.NONE, error_message=None, topics=[])
    return answer(request, none)
