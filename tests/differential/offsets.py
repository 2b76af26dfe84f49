"""Requests of the offset APIs, for cases and tests: topics by name or by id, as the version wants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from kafka.protocol.consumer import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest

BY_ID = 10
SEVERAL_GROUPS = 8
REQUIRE_STABLE = 7

Wanted = Mapping[str, Sequence[Any]] | Sequence[tuple[str, Sequence[Any]]]
"""Of each topic its partitions: what `offset` makes to commit, numbers to fetch or delete."""


def _pairs(wanted: Wanted) -> list[tuple[str, Sequence[Any]]]:
    return list(wanted.items() if isinstance(wanted, Mapping) else wanted)


def offset(index: int, number: int, epoch: int = -1, metadata: str | None = "") -> Any:
    """An offset to commit."""
    return OffsetCommitRequest.OffsetCommitRequestTopic.OffsetCommitRequestPartition(
        partition_index=index,
        committed_offset=number,
        committed_leader_epoch=epoch,
        committed_metadata=metadata,
    )


def commit(
    group: str,
    wanted: Wanted,
    *,
    version: int = 9,
    ids: Mapping[str, UUID] | None = None,
    generation: int = -1,
    member: str = "",
    instance: str | None = None,
    retention_ms: int = -1,
) -> Any:
    """An OffsetCommit request. From version 10 on `ids` has the topics' ids."""
    topic = OffsetCommitRequest.OffsetCommitRequestTopic
    fields: dict[str, Any] = {}
    if version >= 7:
        fields["group_instance_id"] = instance
    if version <= 4:
        fields["retention_time_ms"] = retention_ms
    return OffsetCommitRequest(
        version=version,
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=[
            topic(
                partitions=list(partitions),
                **({"topic_id": (ids or {})[name]} if version >= BY_ID else {"name": name}),
            )
            for name, partitions in _pairs(wanted)
        ],
        **fields,
    )


def fetch(
    groups: str | Sequence[tuple[str, Wanted | None]],
    wanted: Wanted | None = None,
    *,
    version: int = 9,
    ids: Mapping[str, UUID] | None = None,
    stable: bool = False,
) -> Any:
    """An OffsetFetch request: of one group, or of several (each with what is wanted). None: all topics."""
    request = OffsetFetchRequest
    fields: dict[str, Any] = {"require_stable": stable} if version >= REQUIRE_STABLE else {}
    if version < SEVERAL_GROUPS:
        assert isinstance(groups, str)
        topics = None
        if wanted is not None:
            of = request.OffsetFetchRequestTopic
            topics = [of(name=name, partition_indexes=list(found)) for name, found in _pairs(wanted)]
        return request(version=version, group_id=groups, topics=topics, **fields)
    group = request.OffsetFetchRequestGroup

    def topics_of(wanted: Wanted | None) -> Any:
        if wanted is None:
            return None
        return [
            group.OffsetFetchRequestTopics(
                partition_indexes=list(found),
                **({"topic_id": (ids or {})[name]} if version >= BY_ID else {"name": name}),
            )
            for name, found in _pairs(wanted)
        ]

    if isinstance(groups, str):
        groups = [(groups, wanted)]
    return request(
        version=version,
        groups=[group(group_id=name, topics=topics_of(found)) for name, found in groups],
        **fields,
    )


def delete(group: str, wanted: Wanted) -> Any:
    """An OffsetDelete request."""
    topic = OffsetDeleteRequest.OffsetDeleteRequestTopic
    return OffsetDeleteRequest(
        version=0,
        group_id=group,
        topics=[
            topic(
                name=name,
                partitions=[topic.OffsetDeleteRequestPartition(partition_index=index) for index in indexes],
            )
            for name, indexes in _pairs(wanted)
        ],
    )
