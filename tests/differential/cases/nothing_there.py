"""What does not exist: ACLs, quotas, users, delegation tokens, transactions; and who keeps the metadata."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import (
    CreateAclsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
    DescribeClientQuotasRequest,
    DescribeQuorumRequest,
    DescribeTransactionsRequest,
    DescribeUserScramCredentialsRequest,
    ListConfigResourcesRequest,
    ListTransactionsRequest,
)

from tests.differential.case import case
from tests.differential.side import Side
from wireproto.kafka.messages import (
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)

ANY, TOPIC = 1, 2
TOKEN_OWNERS = 3


@case(DescribeAclsRequest)
def acls(side: Side, version: int) -> None:
    for kind in (ANY, TOPIC, 0, 99):
        request = DescribeAclsRequest(
            version=version,
            resource_type_filter=kind,
            resource_name_filter=None,
            pattern_type_filter=ANY,
            principal_filter=None,
            host_filter=None,
            operation=ANY,
            permission_type=ANY,
        )
        side.ask(request, f"type {kind}")


PREFIXED, DENY, ALLOW, READ = 4, 2, 3, 3


@case(CreateAclsRequest)
def new_acls(side: Side, version: int) -> None:
    def one(**changed: Any) -> Any:
        usual = {
            "resource_type": TOPIC,
            "resource_name": "t",
            "resource_pattern_type": PREFIXED,
            "principal": "User:a",
            "host": "*",
            "operation": READ,
            "permission_type": ALLOW,
        }
        return CreateAclsRequest.AclCreation(**usual | changed)

    wanted = {
        "none": [],
        "one": [one()],
        "two": [one(), one(principal="User:b", permission_type=DENY)],
        "of an unknown type": [one(resource_type=99)],
        "of an unknown pattern": [one(), one(resource_pattern_type=0)],
        "of any operation": [one(operation=ANY)],
        "of an unknown permission": [one(permission_type=9)],
        "without a name": [one(resource_name="")],
        "of an odd principal": [one(principal="a")],
    }
    for label, creations in wanted.items():
        side.ask(CreateAclsRequest(version=version, creations=creations), label)


@case(DeleteAclsRequest)
def acls_deleted(side: Side, version: int) -> None:
    def one(**changed: Any) -> Any:
        usual = {
            "resource_type_filter": ANY,
            "resource_name_filter": None,
            "pattern_type_filter": ANY,
            "principal_filter": None,
            "host_filter": None,
            "operation": ANY,
            "permission_type": ANY,
        }
        return DeleteAclsRequest.DeleteAclsFilter(**usual | changed)

    wanted = {
        "none": [],
        "all": [one()],
        "two": [one(resource_name_filter="t"), one(principal_filter="User:a")],
        "of an unknown type": [one(resource_type_filter=99)],
        "of an unknown pattern": [one(pattern_type_filter=0)],
        "of an unknown operation": [one(), one(operation=0)],
    }
    for label, filters in wanted.items():
        side.ask(DeleteAclsRequest(version=version, filters=filters), label)


@case(DescribeClientQuotasRequest)
def quotas(side: Side, version: int) -> None:
    one = DescribeClientQuotasRequest.ComponentData
    wanted: dict[str, list[tuple[str, int, str | None]]] = {
        "all": [],
        "user": [("user", 0, "u")],
        "default user": [("user", 1, None)],
        "any user and client": [("user", 2, None), ("client-id", 2, None)],
        "ip": [("ip", 0, "127.0.0.1")],
        "ip and user": [("ip", 0, "127.0.0.1"), ("user", 2, None)],
        "unknown type": [("group", 0, "g")],
        "no type": [("", 0, "g")],
        "twice": [("user", 0, "u"), ("user", 2, None)],
        "exact without match": [("user", 0, None)],
        "default with match": [("user", 1, "u")],
        "any with match": [("user", 2, "u")],
        "match type 3": [("user", 3, None)],
    }
    for label, components in wanted.items():
        made = [one(entity_type=kind, match_type=how, match=match) for kind, how, match in components]
        for strict in (False, True):
            request = DescribeClientQuotasRequest(version=version, components=made, strict=strict)
            side.ask(request, f"{label}, strict {strict}")


@case(DescribeUserScramCredentialsRequest)
def scram_users(side: Side, version: int) -> None:
    one = DescribeUserScramCredentialsRequest.UserName
    for label, names in {"all": None, "none": [], "one": ["u"], "twice": ["u", "v", "u"], "": [""]}.items():
        users = None if names is None else [one(name=name) for name in names]
        side.ask(DescribeUserScramCredentialsRequest(version=version, users=users), f"users {label}")


@case(CreateDelegationTokenRequest)
def new_token(side: Side, version: int) -> None:
    """Nobody has said who he is, so nobody may ask."""
    of = CreateDelegationTokenRequest
    renewer = of.CreatableRenewers(principal_type="Group", principal_name="g")
    side.ask(of(version=version, renewers=[], max_lifetime_ms=-1), "own")
    side.ask(of(version=version, renewers=[renewer], max_lifetime_ms=1), "with a renewer")
    if version >= TOKEN_OWNERS:
        for label, name in {"for somebody": "alice", "for nobody": ""}.items():
            owner = {"owner_principal_type": "User", "owner_principal_name": name}
            side.ask(of(version=version, renewers=[], max_lifetime_ms=0, **owner), label)


@case(RenewDelegationTokenRequest)
def renewed_token(side: Side, version: int) -> None:
    for hmac in (b"", b"x" * 64):
        side.ask(RenewDelegationTokenRequest(version=version, hmac=hmac, renew_period_ms=-1), f"{hmac!r}")


@case(ExpireDelegationTokenRequest)
def expired_token(side: Side, version: int) -> None:
    for period in (-1, 0, 5):
        request = ExpireDelegationTokenRequest(version=version, hmac=b"x", expiry_time_period_ms=period)
        side.ask(request, f"{period} ms")


@case(DescribeDelegationTokenRequest)
def tokens(side: Side, version: int) -> None:
    one = DescribeDelegationTokenRequest.DescribeDelegationTokenOwner
    alice = one(principal_type="User", principal_name="alice")
    for label, owners in {"all": None, "none": [], "of one": [alice], "twice": [alice, alice]}.items():
        side.ask(DescribeDelegationTokenRequest(version=version, owners=owners), label)


@case(ListTransactionsRequest)
def transactions(side: Side, version: int) -> None:
    def ask(label: str, states: list[str], ids: list[int], **fields: Any) -> None:
        since = {"duration_filter": 1, "transactional_id_pattern": 2}
        known = {name: value for name, value in fields.items() if version >= since[name]}
        request = ListTransactionsRequest(
            version=version, state_filters=states, producer_id_filters=ids, **known
        )
        side.ask(request, label)

    # Kafka knows the empty ones that other cases began.
    ask("under way", ["Ongoing"], [])
    ask("of a producer", [], [2**50, -1])
    ask("states", ["Ongoing", "PrepareEpochFence", "ongoing", "Nonsense"], [])
    ask("long ones", ["Ongoing"], [], duration_filter=1000)
    ask("a pattern", ["Ongoing"], [], transactional_id_pattern="a.*")
    ask("a bad pattern", ["Ongoing"], [], transactional_id_pattern="a(")
    ask("no pattern", ["Ongoing"], [], transactional_id_pattern="")


@case(DescribeTransactionsRequest)
def one_transaction(side: Side, version: int) -> None:
    for label, ids in {"none": [], "one": ["t"], "empty": [""], "twice": ["t", "t"]}.items():
        side.ask(DescribeTransactionsRequest(version=version, transactional_ids=ids), f"ids {label}")


@case(DescribeQuorumRequest)
def quorum(side: Side, version: int) -> None:
    one = DescribeQuorumRequest.TopicData

    def ask(label: str, *topics: tuple[str, list[int]]) -> None:
        made = [
            one(topic_name=name, partitions=[one.PartitionData(partition_index=index) for index in indexes])
            for name, indexes in topics
        ]
        side.ask(DescribeQuorumRequest(version=version, topics=made), label)

    metadata = "__cluster_metadata"
    ask("metadata", (metadata, [0]))
    ask("another partition", (metadata, [1]))
    ask("two partitions", (metadata, [0, 1]))
    ask("another topic", (side.name("t"), [0]))
    ask("two topics", (metadata, [0]), (side.name("t"), [0]))
    ask("nothing")


@case(ListConfigResourcesRequest)
def config_resources(side: Side, version: int) -> None:
    for types in [[16], [32], [16, 32], [16, 16]] if version >= 1 else [[]]:
        fields: dict[str, Any] = {"resource_types": types} if version >= 1 else {}
        side.ask(ListConfigResourcesRequest(version=version, **fields), f"types {types}")


@case(ListConfigResourcesRequest, [1])
def unknown_config_resources(side: Side, version: int) -> None:
    for types in [[0], [3], [64], [2, 3], [-1]]:
        side.ask(ListConfigResourcesRequest(version=version, resource_types=types), f"types {types}")


@case(ListConfigResourcesRequest, [1])
def own_config_resources(side: Side, version: int) -> None:
    for types in [[4], [8], [4, 8]]:
        side.ask(ListConfigResourcesRequest(version=version, resource_types=types), f"types {types}")
