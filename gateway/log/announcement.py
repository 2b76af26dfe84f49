"""What a segment is announced with: all that a catalog which is lost is read back from."""

import base64
import json
from typing import TYPE_CHECKING, Any

from gateway.catalog.keys import log_name
from gateway.log.partition import Partition
from gateway.log.segment import UNKNOWN, Segment
from wireproto.dafka.additions import Announcement

if TYPE_CHECKING:
    from gateway.log.context import LogContext


def announcement_of(
    context: "LogContext", partition: Partition, segment: Segment, snapshot: bytes, **more: Any
) -> Announcement:
    """The announcement of a segment of this partition: `snapshot` is the idempotence state that it begins
    with, `more` what its kind of segment tells besides.
    """
    topic = partition.topic
    details = {
        "topic_id": topic.id.hex(),
        "partition": partition.index,
        "partitions": len(topic.partitions),
        "replication_factor": topic.replication_factor,
        "configs": topic.configs,
        "epochs": partition.epochs.to_list(),
        "log_start": partition.log_start_offset,
        "opened_ms": segment.opened_ms,
        "producer_id_floor": context.producer_ids.floor,
        "producers": base64.b64encode(snapshot).decode(),
    }
    if segment.first_unstable != UNKNOWN:
        details["first_unstable"] = segment.first_unstable
    return Announcement(
        segment.address,
        topic.name,
        context.cluster_id,
        log_name(topic.id, partition.index),
        segment.epoch,
        segment.start_offset,
        segment.members,
        segment.w,
        json.dumps(details | more).encode(),
    )
