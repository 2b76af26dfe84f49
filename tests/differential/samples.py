"""A small right request for every API and version: what the framing cases spoil."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from kafka.protocol.admin import (
    AlterClientQuotasRequest,
    AlterConfigsRequest,
    AlterPartitionReassignmentsRequest,
    AlterReplicaLogDirsRequest,
    AlterUserScramCredentialsRequest,
    CreateAclsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteAclsRequest,
    DeleteGroupsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    DescribeAclsRequest,
    DescribeClientQuotasRequest,
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    DescribeProducersRequest,
    DescribeQuorumRequest,
    DescribeTopicPartitionsRequest,
    DescribeTransactionsRequest,
    DescribeUserScramCredentialsRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
    ListGroupsRequest,
    ListPartitionReassignmentsRequest,
    ListTransactionsRequest,
    UpdateFeaturesRequest,
)
from kafka.protocol.consumer import ListOffsetsRequest, OffsetForLeaderEpochRequest
from kafka.protocol.metadata import ApiVersionsRequest, FindCoordinatorRequest, MetadataRequest
from kafka.protocol.producer import InitProducerIdRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from tests.differential import groups, offsets, transactions
from tests.differential.batches import batch_of
from tests.differential.requests import fetch, fetch_partition, produce
from tests.differential.side import Side
from wireproto.kafka.messages import (
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
    UnregisterBrokerRequest,
)

TOPIC = "no-such-topic"
IDS = {TOPIC: UUID(int=4711)}
GROUP = "no-such-group"
NOBODY = "nobody"


def _create(_: Side, version: int) -> Any:
    topic = CreateTopicsRequest.CreatableTopic(
        name="a/b", num_partitions=1, replication_factor=1, assignments=[], configs=[]
    )
    return CreateTopicsRequest(version=version, topics=[topic], timeout_ms=100, validate_only=True)


def _delete(_: Side, version: int) -> Any:
    state = DeleteTopicsRequest.DeleteTopicState(name=TOPIC, topic_id=None)
    which: dict[str, Any] = {"topics": [state]} if version >= 6 else {"topic_names": [TOPIC]}
    return DeleteTopicsRequest(version=version, timeout_ms=100, **which)


def _configs(_: Side, version: int) -> Any:
    one = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=2, resource_name=TOPIC, configuration_keys=["retention.ms"]
    )
    return DescribeConfigsRequest(version=version, resources=[one], include_synonyms=False)


def _offsets(_: Side, version: int) -> Any:
    of = ListOffsetsRequest.ListOffsetsTopic
    partition = of.ListOffsetsPartition(partition_index=0, timestamp=-1)
    return ListOffsetsRequest(version=version, replica_id=-1, topics=[of(name=TOPIC, partitions=[partition])])


def _epochs(_: Side, version: int) -> Any:
    of = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    partition = of.OffsetForLeaderPartition(partition=0, leader_epoch=0)
    return OffsetForLeaderEpochRequest(version=version, topics=[of(topic=TOPIC, partitions=[partition])])


def _metadata(_: Side, version: int) -> Any:
    # An invalid name: before version 4 a valid one would be created.
    topic = MetadataRequest.MetadataRequestTopic(name="a/b", topic_id=None)
    return MetadataRequest(version=max(version, 0), topics=[topic], allow_auto_topic_creation=False)


def _partitions(_: Side, version: int) -> Any:
    topic = CreatePartitionsRequest.CreatePartitionsTopic(name=TOPIC, count=2, assignments=None)
    return CreatePartitionsRequest(version=version, topics=[topic], timeout_ms=100, validate_only=True)


def _alter(_: Side, version: int) -> Any:
    one = AlterConfigsRequest.AlterConfigsResource
    config = one.AlterableConfig(name="retention.ms", value="1")
    resource = one(resource_type=2, resource_name=TOPIC, configs=[config])
    return AlterConfigsRequest(version=version, resources=[resource], validate_only=True)


def _alter_one(_: Side, version: int) -> Any:
    one = IncrementalAlterConfigsRequest.AlterConfigsResource
    config = one.AlterableConfig(name="retention.ms", config_operation=0, value="1")
    resource = one(resource_type=2, resource_name=TOPIC, configs=[config])
    return IncrementalAlterConfigsRequest(version=version, resources=[resource], validate_only=True)


def _records(_: Side, version: int) -> Any:
    of = DeleteRecordsRequest.DeleteRecordsTopic
    topic = of(name=TOPIC, partitions=[of.DeleteRecordsPartition(partition_index=0, offset=0)])
    return DeleteRecordsRequest(version=version, topics=[topic], timeout_ms=100)


def _moved_logs(_: Side, version: int) -> Any:
    directory = AlterReplicaLogDirsRequest.AlterReplicaLogDir
    topic = directory.AlterReplicaLogDirTopic(name=TOPIC, partitions=[0])
    return AlterReplicaLogDirsRequest(version=version, dirs=[directory(path="/nowhere", topics=[topic])])


def _features(_: Side, version: int) -> Any:
    update = UpdateFeaturesRequest.FeatureUpdateKey(feature="nonsense", max_version_level=1)
    return UpdateFeaturesRequest(version=version, feature_updates=[update])


def _log_dirs(_: Side, version: int) -> Any:
    topic = DescribeLogDirsRequest.DescribableLogDirTopic(topic=TOPIC, partitions=[0])
    return DescribeLogDirsRequest(version=version, topics=[topic])


def _elect(_: Side, version: int) -> Any:
    topic = ElectLeadersRequest.TopicPartitions(topic=TOPIC, partitions=[0])
    return ElectLeadersRequest(version=version, topic_partitions=[topic], timeout_ms=100)


def _reassign(_: Side, version: int) -> Any:
    of = AlterPartitionReassignmentsRequest.ReassignableTopic
    topic = of(name=TOPIC, partitions=[of.ReassignablePartition(partition_index=0, replicas=None)])
    return AlterPartitionReassignmentsRequest(version=version, timeout_ms=100, topics=[topic])


def _acls(_: Side, version: int) -> Any:
    return DescribeAclsRequest(
        version=version, resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1
    )


def _new_acls(_: Side, version: int) -> Any:
    one = CreateAclsRequest.AclCreation(
        resource_type=2, resource_name=TOPIC, resource_pattern_type=3, principal="User:a", host="*",
        operation=3, permission_type=3,
    )  # fmt: skip
    return CreateAclsRequest(version=version, creations=[one])


def _acls_deleted(_: Side, version: int) -> Any:
    one = DeleteAclsRequest.DeleteAclsFilter(
        resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1
    )
    return DeleteAclsRequest(version=version, filters=[one])


def _quotas(_: Side, version: int) -> Any:
    of = AlterClientQuotasRequest.EntryData
    entry = of(
        entity=[of.EntityData(entity_type="user", entity_name=NOBODY)],
        ops=[of.OpData(key="consumer_byte_rate", value=0.0, remove=True)],
    )
    return AlterClientQuotasRequest(version=version, entries=[entry], validate_only=False)


def _no_user_deleted(_: Side, version: int) -> Any:
    one = AlterUserScramCredentialsRequest.ScramCredentialDeletion(name=NOBODY, mechanism=1)
    return AlterUserScramCredentialsRequest(version=version, deletions=[one], upsertions=[])


def _quorum(_: Side, version: int) -> Any:
    of = DescribeQuorumRequest.TopicData
    topic = of(topic_name=TOPIC, partitions=[of.PartitionData(partition_index=0)])
    return DescribeQuorumRequest(version=version, topics=[topic])


def _producers(_: Side, version: int) -> Any:
    topic = DescribeProducersRequest.TopicRequest(name=TOPIC, partition_indexes=[0])
    return DescribeProducersRequest(version=version, topics=[topic])


def _partitions_of_a_transaction(_: Side, version: int) -> Any:
    if version >= transactions.ADD_SEVERAL:
        return transactions.add_as_broker((NOBODY, 1, 0, {TOPIC: [0]}), version=version)
    return transactions.add_partitions(NOBODY, 1, 0, {TOPIC: [0]}, version=version)


def _pages(_: Side, version: int) -> Any:
    of = DescribeTopicPartitionsRequest
    return of(version=version, topics=[of.TopicRequest(name=TOPIC)], response_partition_limit=10)


def _create_token(_: Side, version: int) -> Any:
    # On a listener where nobody says who he is nobody gets one.
    return CreateDelegationTokenRequest(version=version, renewers=[], max_lifetime_ms=-1)


_SAMPLES: dict[int, Callable[[Side, int], Any]] = {
    0: lambda side, version: produce(side, version, {TOPIC: {0: batch_of(b"x")}}),
    1: lambda side, version: fetch(side, version, {TOPIC: [fetch_partition(0, 0)]}),
    2: _offsets,
    3: _metadata,
    8: lambda _, version: offsets.commit(
        GROUP, {TOPIC: [offsets.offset(0, 1)]}, version=version, ids=IDS, member=NOBODY
    ),
    9: lambda _, version: offsets.fetch(GROUP, {TOPIC: [0]}, version=version, ids=IDS),
    10: lambda _, version: FindCoordinatorRequest(version=version, key="k", coordinator_keys=["k"]),
    11: lambda _, version: groups.join(GROUP, NOBODY, version=version),
    12: lambda _, version: groups.heartbeat(GROUP, NOBODY, 1, version=version),
    13: lambda _, version: groups.leave(GROUP, (NOBODY, None), version=version),
    14: lambda _, version: groups.sync(GROUP, NOBODY, 1, version=version),
    15: lambda _, version: groups.describe(GROUP, version=version),
    16: lambda _, version: ListGroupsRequest(version=version),
    17: lambda _, version: SaslHandshakeRequest(version=version, mechanism="NONSENSE"),
    18: lambda _, version: ApiVersionsRequest(
        version=version, client_software_name="differential", client_software_version="1"
    ),
    19: _create,
    20: _delete,
    21: _records,
    22: lambda _, version: InitProducerIdRequest(
        version=version, transactional_id=None, transaction_timeout_ms=1
    ),
    23: _epochs,
    24: _partitions_of_a_transaction,
    25: lambda _, version: transactions.add_offsets(NOBODY, 1, 0, GROUP, version=version),
    26: lambda _, version: transactions.end(NOBODY, 1, 0, True, version=version),
    27: lambda _, version: transactions.write_markers(
        transactions.marker(1, 0, True, {TOPIC: [0]}), version=version
    ),
    28: lambda _, version: transactions.commit_offsets(NOBODY, 1, 0, GROUP, {TOPIC: {0: 1}}, version=version),
    29: _acls,
    30: _new_acls,
    31: _acls_deleted,
    32: _configs,
    33: _alter,
    34: _moved_logs,
    35: _log_dirs,
    36: lambda _, version: SaslAuthenticateRequest(version=version, auth_bytes=b"nonsense"),
    37: _partitions,
    38: _create_token,
    39: lambda _, version: RenewDelegationTokenRequest(version=version, hmac=b"x", renew_period_ms=-1),
    40: lambda _, version: ExpireDelegationTokenRequest(version=version, hmac=b"x", expiry_time_period_ms=-1),
    41: lambda _, version: DescribeDelegationTokenRequest(version=version, owners=None),
    42: lambda _, version: DeleteGroupsRequest(version=version, groups_names=[GROUP]),
    43: _elect,
    44: _alter_one,
    45: _reassign,
    46: lambda _, version: ListPartitionReassignmentsRequest(version=version, timeout_ms=100, topics=None),
    47: lambda _, __: offsets.delete(GROUP, {TOPIC: [0]}),
    48: lambda _, version: DescribeClientQuotasRequest(version=version, components=[], strict=False),
    49: _quotas,
    50: lambda _, version: DescribeUserScramCredentialsRequest(version=version, users=None),
    51: _no_user_deleted,
    55: _quorum,
    57: _features,
    60: lambda _, version: DescribeClusterRequest(version=version),
    61: _producers,
    64: lambda _, version: UnregisterBrokerRequest(version=version, broker_id=999),
    65: lambda _, version: DescribeTransactionsRequest(version=version, transactional_ids=["t"]),
    66: lambda _, version: ListTransactionsRequest(version=version, state_filters=[], producer_id_filters=[]),
    74: lambda _, version: ListConfigResourcesRequest(version=version),
    75: _pages,
}


def sample(side: Side, api_key: int, version: int) -> Any:
    """A request that is answered and changes nothing."""
    return _SAMPLES[api_key](side, version)
