"""What of topics somebody may see and change: one topic of each right in each request (`rights`), some of
which there are and some not.
"""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import (
    AlterConfigsRequest,
    AlterPartitionReassignmentsRequest,
    AlterReplicaLogDirsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    DescribeProducersRequest,
    DescribeTopicPartitionsRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
    ListPartitionReassignmentsRequest,
)
from kafka.protocol.metadata import MetadataRequest

from tests.differential.case import as_each
from tests.differential.cases import (
    alter_configs,
    alter_replica_log_dirs,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_configs,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    leaders,
    metadata,
)
from tests.differential.principals import CLUSTER_RIGHTS, EVERYBODY, WITH_RIGHTS
from tests.differential.rights import both, own, own_names, there
from tests.differential.side import Side

CHOICE_SINCE = 4
"""Before that Metadata creates every topic that it is asked for."""
OPERATIONS_SINCE, OPERATIONS_OF_CLUSTER_UNTIL = 8, 10
IDS_SINCE = 12
EMPTY_IS_NONE_SINCE = 1
MANAGERS = (*WITH_RIGHTS, *(user for user in CLUSTER_RIGHTS if user.endswith(("-all", "-create", "-delete"))))
RETENTION = "retention.ms"


Pairs = list[tuple[str, str | None]]


def _with_operations(version: int) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if version >= OPERATIONS_SINCE:
        fields["include_topic_authorized_operations"] = True
        if version <= OPERATIONS_OF_CLUSTER_UNTIL:
            fields["include_cluster_authorized_operations"] = True
    return fields


@as_each(MetadataRequest, principals=EVERYBODY)
def seen(side: Side, version: int) -> None:
    wanted = both(side) if version >= CHOICE_SINCE else there(side)
    metadata.ask(side, version, metadata.topics(*wanted), "named")
    if version >= OPERATIONS_SINCE:
        metadata.ask(side, version, metadata.topics(*wanted), "operations", **_with_operations(version))
    if version >= IDS_SINCE:
        ids = tuple(side.id_of(name) for name in wanted)
        metadata.ask(side, version, metadata.topics(ids=ids), "by id", **_with_operations(version))
    if version >= EMPTY_IS_NONE_SINCE:
        metadata.ask(side, version, [], "none", **_with_operations(version))


@as_each(MetadataRequest)
def all_that_are_seen(side: Side, version: int) -> None:
    """Other cases' topics are there too: what is compared is which of ours are among them."""
    mine = set(there(side))
    answer = metadata.ask(side, version, None if version >= EMPTY_IS_NONE_SINCE else [], "all")
    answer.topics = [topic for topic in answer.topics if topic.name in mine]


@as_each(MetadataRequest, principals=MANAGERS)
def made_by_asking(side: Side, version: int) -> None:
    wanted = metadata.topics(*own_names(side))
    metadata.ask(side, version, wanted, "new ones", allow_auto_topic_creation=True)


@as_each(DescribeTopicPartitionsRequest)
def partitions_seen(side: Side, version: int) -> None:
    side.ask(describe_topic_partitions.request(both(side)))


@as_each(DescribeTopicPartitionsRequest)
def pages_seen(side: Side, version: int) -> None:
    side.ask(describe_topic_partitions.request(both(side), 3), "three partitions")


@as_each(CreateTopicsRequest, principals=MANAGERS)
def created(side: Side, version: int) -> None:
    """Each beside one that there is; then some faults that come before who asks, or after."""
    new, old = own_names(side), there(side)
    pairs = [name for two in zip(new, old, strict=True) for name in two]
    topics = [create_topics.topic(name, retention_ms="1234567") for name in pairs]
    create_topics.ask(side, version, topics, "validated", only=True)
    twice = [create_topics.topic(name) for name in (*new, *new)]
    create_topics.ask(side, version, twice, "twice", only=True)
    bad = [create_topics.topic(name, 0) for name in new]
    create_topics.ask(side, version, bad, "without partitions", only=True)
    odd = [create_topics.topic(name) for name in ("", "a/b", "__cluster_metadata", "__consumer_offsets")]
    create_topics.ask(side, version, odd, "odd names", only=True)
    create_topics.ask(side, version, topics, "created")


@as_each(DeleteTopicsRequest, principals=MANAGERS)
def deleted(side: Side, version: int) -> None:
    """By name and, from version 6 on, by id; then it is seen which of them are left."""
    made = own(side)
    absent = own_names(side, "absent")
    pairs = [name for two in zip(made, absent, strict=True) for name in two]
    if version >= delete_topics.BY_ID:
        by_id = own(side, "by-id")
        states = [delete_topics.state(topic_id=side.id_of(name)) for name in (*by_id, *absent)]
        request = DeleteTopicsRequest(version=version, timeout_ms=10_000, topics=states)
        side.ask(request, "by id")
    delete_topics.ask(side, version, pairs, "by name")


@as_each(CreatePartitionsRequest)
def grown(side: Side, version: int) -> None:
    for label, count in {"more": 2, "as many": 1}.items():
        topics = [create_partitions.topic(name, count) for name in both(side)]
        side.ask(create_partitions.request(version, *topics, only=True), label)
    name = own(side)
    side.ask(create_partitions.request(version, *(create_partitions.topic(one, 2) for one in name)), "grown")


@as_each(DeleteRecordsRequest)
def emptied(side: Side, version: int) -> None:
    wanted = [*both(side), "__consumer_offsets"]
    side.ask(delete_records.request(version, *((name, {0: 0}) for name in wanted)), "to the beginning")
    side.ask(delete_records.request(version, *((name, {0: -1}) for name in own(side))), "to the end")


@as_each(DescribeConfigsRequest, principals=EVERYBODY)
def configs_seen(side: Side, version: int) -> None:
    topics = [describe_configs.resource(describe_configs.TOPIC, name, [RETENTION]) for name in both(side)]
    describe_configs.ask(side, version, topics, "topics")
    groups = [
        describe_configs.resource(describe_configs.GROUP, name, ["no.such.config"]) for name in both(side)
    ]
    describe_configs.ask(side, version, groups, "groups")
    own_id = str(side.server.node_id)
    others = [
        describe_configs.resource(describe_configs.BROKER, "", ["log.retention.hours"]),
        describe_configs.resource(describe_configs.BROKER, own_id, ["log.retention.hours"]),
        describe_configs.resource(describe_configs.LOGGER, own_id, ["no.such.logger"]),
        describe_configs.resource(describe_configs.CLIENT_METRICS, "any", ["no.such.config"]),
    ]
    fields: dict[str, Any] = {"include_documentation": False} if version >= 3 else {}
    for label, one in zip(("cluster-wide", "broker", "logger", "client metrics"), others, strict=True):
        request = DescribeConfigsRequest(version=version, resources=[one], include_synonyms=False, **fields)
        side.ask_own_id(request, label)


@as_each(AlterConfigsRequest, principals=EVERYBODY)
def configs_replaced(side: Side, version: int) -> None:
    pair: Pairs = [(RETENTION, "7654321")]
    topics = [(alter_configs.TOPIC, name, pair) for name in both(side)]
    side.ask(alter_configs.legacy(version, *topics, only=True), "topics")
    of_groups: Pairs = [("consumer.session.timeout.ms", "50000")]
    groups = [(describe_configs.GROUP, name, of_groups) for name in both(side)]
    side.ask(alter_configs.legacy(version, *groups, only=True), "groups")
    of_brokers: Pairs = [("log.retention.ms", "1000000")]
    side.ask(alter_configs.legacy(version, (alter_configs.BROKER, "", of_brokers), only=True), "brokers")
    of_metrics: Pairs = [("interval.ms", "1000")]
    metrics = (alter_configs.CLIENT_METRICS, "any", of_metrics)
    side.ask(alter_configs.legacy(version, metrics, only=True), "client metrics")
    changed = [(alter_configs.TOPIC, name, pair) for name in own(side)]
    side.ask(alter_configs.legacy(version, *changed), "changed")


@as_each(IncrementalAlterConfigsRequest, principals=EVERYBODY)
def configs_changed(side: Side, version: int) -> None:
    ops: alter_configs.Ops = [(RETENTION, alter_configs.SET, "7654321")]
    topics = [(alter_configs.TOPIC, name, ops) for name in both(side)]
    side.ask(alter_configs.incremental(version, *topics, only=True), "topics")
    bad: alter_configs.Ops = [(RETENTION, alter_configs.SET, None), (RETENTION, alter_configs.DELETE, None)]
    faults = [(alter_configs.TOPIC, name, bad) for name in both(side)]
    side.ask(alter_configs.incremental(version, *faults, only=True), "faults")
    side.ask(alter_configs.incremental(version, *(topics[:2] * 2), only=True), "twice")
    of_groups: alter_configs.Ops = [("consumer.session.timeout.ms", alter_configs.SET, "50000")]
    groups = [(describe_configs.GROUP, name, of_groups) for name in both(side)]
    side.ask(alter_configs.incremental(version, *groups, only=True), "groups")
    of_brokers: alter_configs.Ops = [("log.retention.ms", alter_configs.SET, "1000000")]
    resource = (alter_configs.BROKER, "", of_brokers)
    side.ask(alter_configs.incremental(version, resource, only=True), "brokers")
    of_metrics: alter_configs.Ops = [("interval.ms", alter_configs.SET, "1000")]
    metrics = (alter_configs.CLIENT_METRICS, "any", of_metrics)
    side.ask(alter_configs.incremental(version, metrics, only=True), "client metrics")
    changed = [(alter_configs.TOPIC, name, ops) for name in own(side)]
    side.ask(alter_configs.incremental(version, *changed), "changed")


@as_each(ListConfigResourcesRequest, principals=EVERYBODY)
def config_resources(side: Side, version: int) -> None:
    for types in [[16], [32], [99]] if version >= 1 else [[]]:
        fields: dict[str, Any] = {"resource_types": types} if version >= 1 else {}
        side.ask(ListConfigResourcesRequest(version=version, **fields), f"types {types}")


@as_each(DescribeProducersRequest)
def producers_seen(side: Side, version: int) -> None:
    side.ask(describe_producers.of({name: [0, 7] for name in (*both(side), "a/b")}))


@as_each(DescribeLogDirsRequest, principals=EVERYBODY)
def log_directories(side: Side, version: int) -> None:
    side.ask(describe_log_dirs.request(version, {name: [0] for name in both(side)}))


@as_each(AlterReplicaLogDirsRequest, principals=EVERYBODY)
def moved_logs(side: Side, version: int) -> None:
    directory = (alter_replica_log_dirs.NOWHERE, {name: [0] for name in both(side)})
    side.ask(alter_replica_log_dirs.request(version, directory))


@as_each(ElectLeadersRequest, principals=EVERYBODY)
def elected(side: Side, version: int) -> None:
    side.ask(leaders.elect(version, {name: [0, 9] for name in both(side)}), "named")
    side.ask(leaders.elect(version, {}), "none")


@as_each(AlterPartitionReassignmentsRequest, principals=EVERYBODY)
def reassigned(side: Side, version: int) -> None:
    side.ask(leaders.reassign(version, {name: {0: [leaders.NOBODY], 9: None} for name in both(side)}))


@as_each(ListPartitionReassignmentsRequest, principals=EVERYBODY)
def reassignments_seen(side: Side, version: int) -> None:
    one = ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics
    topics = [one(name=name, partition_indexes=[0]) for name in both(side)]
    side.ask(ListPartitionReassignmentsRequest(version=0, timeout_ms=10_000, topics=topics), "named")
    side.ask(ListPartitionReassignmentsRequest(version=0, timeout_ms=10_000, topics=None), "all")
