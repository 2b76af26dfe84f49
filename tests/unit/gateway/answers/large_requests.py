"""Requests with many elements, and so large answers."""

from __future__ import annotations

from typing import Any

from tests.unit.gateway.api.asking import request_class

Metadata, ListOffsets, Epochs = request_class(3), request_class(2), request_class(23)
Find, Create, Delete, Configs = request_class(10), request_class(19), request_class(20), request_class(32)


def requests(count: int) -> list[Any]:
    """One request of each API that takes a list, with `count` elements that do not exist."""
    names = [f"n{index}" for index in range(count)]
    partition = ListOffsets.ListOffsetsTopic.ListOffsetsPartition
    epoch = Epochs.OffsetForLeaderTopic.OffsetForLeaderPartition
    return [
        Metadata(
            version=12,
            topics=[Metadata.MetadataRequestTopic(name=name, topic_id=None) for name in names],
            allow_auto_topic_creation=False,
        ),
        ListOffsets(
            version=11,
            replica_id=-1,
            isolation_level=0,
            timeout_ms=0,
            topics=[
                ListOffsets.ListOffsetsTopic(
                    name="t",
                    partitions=[partition(partition_index=index, timestamp=-1) for index in range(count)],
                )
            ],
        ),
        Epochs(
            version=4,
            replica_id=-1,
            topics=[
                Epochs.OffsetForLeaderTopic(
                    topic="t",
                    partitions=[
                        epoch(partition=index, current_leader_epoch=-1, leader_epoch=0)
                        for index in range(count)
                    ],
                )
            ],
        ),
        Find(version=4, key_type=0, coordinator_keys=names),
        Create(
            version=7,
            timeout_ms=1000,
            validate_only=True,
            topics=[
                Create.CreatableTopic(
                    name=f"{name}/", num_partitions=1, replication_factor=1, assignments=[], configs=[]
                )
                for name in names
            ],
        ),
        Delete(version=5, topic_names=names, timeout_ms=1000),
        Configs(
            version=4,
            resources=[
                Configs.DescribeConfigsResource(resource_type=2, resource_name=name, configuration_keys=None)
                for name in names
            ],
        ),
    ]
