"""What somebody may see and change of the whole cluster, and what everybody may."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import (
    AlterClientQuotasRequest,
    AlterUserScramCredentialsRequest,
    CreateAclsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
    DescribeClientQuotasRequest,
    DescribeClusterRequest,
    DescribeQuorumRequest,
    DescribeUserScramCredentialsRequest,
    UpdateFeaturesRequest,
)
from kafka.protocol.metadata import ApiVersionsRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from tests.differential.case import as_each
from tests.differential.cases import client_quotas, nothing_there, update_features
from tests.differential.cases.sasl import ask_versions
from tests.differential.principals import EVERYBODY, PASSWORDS, SEE_THE_CLUSTER
from tests.differential.rights import credential
from tests.differential.side import Side
from wireproto.kafka.messages import UnregisterBrokerRequest

NOWHERE = "User:nobody-has-any"


@as_each(ApiVersionsRequest)
def api_versions(side: Side, version: int) -> None:
    """Everybody, and again and again."""
    for label in ("first", "second"):
        ask_versions(side, version, label)


@as_each(SaslHandshakeRequest)
def shaken_again(side: Side, version: int) -> None:
    for mechanism in ("PLAIN", "NONSENSE"):
        side.ask(SaslHandshakeRequest(version=version, mechanism=mechanism), mechanism)
    side.ask(DescribeClusterRequest(version=0), "it goes on")


@as_each(SaslAuthenticateRequest)
def authenticated_again(side: Side, version: int) -> None:
    side.ask(SaslAuthenticateRequest(version=version, auth_bytes=b"\0x\0y"), "a token")
    side.ask(DescribeClusterRequest(version=0), "it goes on")


@as_each(DescribeClusterRequest, principals=EVERYBODY)
def cluster(side: Side, version: int) -> None:
    for wanted in (False, True):
        request = DescribeClusterRequest(version=version, include_cluster_authorized_operations=wanted)
        side.ask(request, f"operations {wanted}")


@as_each(DescribeQuorumRequest, principals=EVERYBODY)
def quorum(side: Side, version: int) -> None:
    """Not the metadata's own: each server tells of its own ways there."""
    one = DescribeQuorumRequest.TopicData
    topic = one(topic_name="no-such-topic", partitions=[one.PartitionData(partition_index=0)])
    side.ask(DescribeQuorumRequest(version=version, topics=[topic]), "a topic")
    side.ask(DescribeQuorumRequest(version=version, topics=[]), "nothing")


@as_each(DescribeClientQuotasRequest, principals=EVERYBODY)
def quotas(side: Side, version: int) -> None:
    one = DescribeClientQuotasRequest.ComponentData
    for label, kind in {"users": "user", "an unknown type": "group"}.items():
        component = one(entity_type=kind, match_type=0, match="nobody")
        side.ask(DescribeClientQuotasRequest(version=version, components=[component], strict=False), label)


@as_each(AlterClientQuotasRequest, principals=EVERYBODY)
def quotas_changed(side: Side, version: int) -> None:
    """What is not there is removed, so that all may ask."""
    gone = client_quotas.entry([("user", "nobody")], [("producer_byte_rate", None)])
    wrong = client_quotas.entry([("user", "nobody")], [("no_such_rate", 1.0)])
    for label, entries in {"one": [gone], "a wrong one": [gone, wrong]}.items():
        side.ask(client_quotas.alteration(version, *entries), label)


@as_each(DescribeUserScramCredentialsRequest, principals=EVERYBODY)
def users(side: Side, version: int) -> None:
    one = DescribeUserScramCredentialsRequest.UserName
    for label, found in {"some": ["denied", "nobody", "allowed"], "twice": ["denied", "denied"]}.items():
        wanted = [one(name=name) for name in found]
        side.ask(DescribeUserScramCredentialsRequest(version=version, users=wanted), label)
    if side.principal in SEE_THE_CLUSTER:  # to others Kafka never answers
        answer = side.ask(DescribeUserScramCredentialsRequest(version=version, users=None), "all")
        answer.results = [one for one in answer.results if one.user in PASSWORDS]  # other cases make some


@as_each(AlterUserScramCredentialsRequest, principals=EVERYBODY)
def users_changed(side: Side, version: int) -> None:
    """Nobody is there to be deleted, so that all may ask."""
    one = AlterUserScramCredentialsRequest.ScramCredentialDeletion
    gone = [one(name=name, mechanism=1) for name in ("nobody-b", "nobody-a", "")]
    bad = [credential("nobody-c", "secret", iterations=1), credential("nobody-a", "secret")]
    side.ask(AlterUserScramCredentialsRequest(version=version, deletions=gone, upsertions=bad), "both")
    side.ask(AlterUserScramCredentialsRequest(version=version, deletions=[], upsertions=[]), "none")


@as_each(UpdateFeaturesRequest, principals=EVERYBODY)
def features(side: Side, version: int) -> None:
    side.ask(update_features.request(version, ("nonsense", 99, update_features.UPGRADE)), "nonsense")


@as_each(UnregisterBrokerRequest, principals=EVERYBODY)
def brokers(side: Side, version: int) -> None:
    side.ask(UnregisterBrokerRequest(version=version, broker_id=4711))


@as_each(DescribeAclsRequest, principals=EVERYBODY)
def acls(side: Side, version: int) -> None:
    for label, principal in {"of everybody": None, "of nobody": NOWHERE}.items():
        request = DescribeAclsRequest(
            version=version,
            resource_type_filter=nothing_there.ANY,
            resource_name_filter=f"{side.server.run}-all-x",
            pattern_type_filter=2,
            principal_filter=principal,
            host_filter=None,
            operation=nothing_there.ANY,
            permission_type=nothing_there.ANY,
        )
        side.ask(request, label)


@as_each(CreateAclsRequest, principals=EVERYBODY)
def acls_created(side: Side, version: int) -> None:
    """Of nobody, and some that are refused, whoever asks."""

    def one(**changed: Any) -> Any:
        usual = {
            "resource_type": nothing_there.TOPIC,
            "resource_name": side.own_name("t"),
            "resource_pattern_type": 3,
            "principal": NOWHERE,
            "host": "*",
            "operation": nothing_there.READ,
            "permission_type": nothing_there.DENY,
        }
        return CreateAclsRequest.AclCreation(**usual | changed)

    side.ask(CreateAclsRequest(version=version, creations=[one(), one(resource_name="")]), "two")
    side.ask(CreateAclsRequest(version=version, creations=[]), "none")


@as_each(DeleteAclsRequest, principals=EVERYBODY)
def acls_deleted(side: Side, version: int) -> None:
    one = DeleteAclsRequest.DeleteAclsFilter(
        resource_type_filter=nothing_there.ANY,
        resource_name_filter=None,
        pattern_type_filter=nothing_there.ANY,
        principal_filter="User:nobody-at-all",
        host_filter=None,
        operation=nothing_there.ANY,
        permission_type=nothing_there.ANY,
    )
    side.ask(DeleteAclsRequest(version=version, filters=[one, one]), "two")
    side.ask(DeleteAclsRequest(version=version, filters=[]), "none")
