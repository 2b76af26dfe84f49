"""Small requests of every API and version: what can be asked about, each kind of it once.

Most are those of tests/differential, about what is not there: rights come before existence. Here are those of
the APIs for which that is not enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, cast

from kafka.protocol.admin import (
    AlterConfigsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeTransactionsRequest,
    IncrementalAlterConfigsRequest,
)
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

from gateway.common.handlers import Api
from tests.differential import groups, offsets, transactions
from tests.differential.batches import TRANSACTIONAL, batch_of
from tests.differential.requests import fetch, fetch_partition, produce
from tests.differential.samples import sample
from tests.docs.authorization.scene import GROUP, OWNER, TOPIC, TRANSACTION, Scene
from wireproto.kafka.schemas import REQUEST_CLASSES

TRANSACTIONAL_PRODUCE: Final = 3
AUTO_CREATION: Final = 4
TOPIC_OPERATIONS: Final = 8
CLUSTER_OPERATIONS: Final = range(8, 11)
GROUP_OPERATIONS: Final = 3
TOPICS_BY_ID: Final = 6
FOLLOWER_HAS_STATE: Final = 15
ALL_OFFSETS: Final = 2
SEVERAL_KEYS: Final = 4
KINDS_OF_KEYS: Final = 1
ALL_IS_NULL: Final = 1
TOKENS_FOR_OTHERS: Final = 3

CONFIGS: Final = {2: TOPIC, 4: "", 8: "1", 16: "metrics", 32: GROUP}
"""Kinds of resources that have configs, and one of each."""

Make = Callable[[], Any]


def requests(made: Scene, api: Api) -> Iterator[tuple[int, Make]]:
    """(version, what makes the request, or has it awaited) of every version, for each kind of question."""
    for version in range(api.min_version, api.max_version + 1):
        for make in _KINDS.get(api.key, _only_sample)(made, api.key, version):
            yield version, make


def _only_sample(made: Scene, key: int, version: int) -> Sequence[Make]:
    return [lambda: sample(cast("Any", made), key, version)]


def _produce(made: Scene, _: int, version: int) -> Sequence[Make]:
    side = cast("Any", made)
    kinds: list[Make] = [lambda: produce(side, version, {TOPIC: {0: batch_of(b"x")}})]
    if version >= TRANSACTIONAL_PRODUCE:
        batch = batch_of(b"x", attributes=TRANSACTIONAL, producer_id=1, producer_epoch=0, base_sequence=0)
        kinds.append(lambda: produce(side, version, {TOPIC: {0: batch}}, transactional_id=TRANSACTION))
    return kinds


def _fetch(made: Scene, _: int, version: int) -> Sequence[Make]:
    wanted = {TOPIC: [fetch_partition(0, 0)]}
    follower: dict[str, Any] = {"replica_id": 1}
    if version >= FOLLOWER_HAS_STATE:
        follower = {"replica_state": FetchRequest.ReplicaState(replica_id=1, replica_epoch=-1)}
    side = cast("Any", made)
    return [lambda: fetch(side, version, wanted), lambda: fetch(side, version, wanted, **follower)]


def _metadata(made: Scene, _: int, version: int) -> Sequence[Make]:
    def of(*names: str, **fields: Any) -> Any:
        topics = [MetadataRequest.MetadataRequestTopic(name=name, topic_id=None) for name in names]
        if not names and version >= ALL_IS_NULL:
            return MetadataRequest(version=version, topics=None, **fields)
        return MetadataRequest(version=version, topics=topics, **fields)

    told: dict[str, Any] = {}
    if version >= TOPIC_OPERATIONS:
        told["include_topic_authorized_operations"] = True
    if version in CLUSTER_OPERATIONS:
        told["include_cluster_authorized_operations"] = True
    create: dict[str, Any] = {"allow_auto_topic_creation": True} if version >= AUTO_CREATION else {}
    return [
        lambda: of(**create),
        lambda: of(TOPIC, **create, **told),
        lambda: of(made.new_name(), **create),
    ]


def _commit(made: Scene, _: int, version: int) -> Sequence[Make]:
    wanted = {TOPIC: [offsets.offset(0, 1)]}
    return [lambda: offsets.commit(GROUP, wanted, version=version, ids={TOPIC: made.id_of(TOPIC)})]


def _offsets(made: Scene, _: int, version: int) -> Sequence[Make]:
    ids = {TOPIC: made.id_of(TOPIC)}
    kinds: list[Make] = [lambda: offsets.fetch(GROUP, {TOPIC: [0]}, version=version, ids=ids)]
    if version >= ALL_OFFSETS:
        kinds.append(lambda: offsets.fetch(GROUP, None, version=version))
    return kinds


def _coordinator(_made: Scene, _: int, version: int) -> Sequence[Make]:
    of = FindCoordinatorRequest
    if version < KINDS_OF_KEYS:
        return [lambda: of(version=version, key="k")]
    names: dict[str, Any] = {"coordinator_keys": ["k"]} if version >= SEVERAL_KEYS else {"key": "k"}
    return [partial(of, version=version, key_type=kind, **names) for kind in range(3)]


def _groups(_made: Scene, _: int, version: int) -> Sequence[Make]:
    return [lambda: groups.describe(GROUP, version=version, operations=version >= GROUP_OPERATIONS)]


def _create(made: Scene, _: int, version: int) -> Sequence[Make]:
    def of() -> Any:
        topic = CreateTopicsRequest.CreatableTopic(
            name=made.new_name(), num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
        return CreateTopicsRequest(version=version, topics=[topic], timeout_ms=5000, validate_only=True)

    return [of]


def _delete(made: Scene, _: int, version: int) -> Sequence[Make]:
    state = DeleteTopicsRequest.DeleteTopicState

    async def by_name() -> Any:
        name = await made.doomed()
        which = (
            {"topics": [state(name=name, topic_id=None)]}
            if version >= TOPICS_BY_ID
            else {"topic_names": [name]}
        )
        return DeleteTopicsRequest(version=version, timeout_ms=5000, **which)

    async def by_id() -> Any:
        topics = [state(name=None, topic_id=made.id_of(await made.doomed()))]
        return DeleteTopicsRequest(version=version, timeout_ms=5000, topics=topics)

    return [by_name, by_id] if version >= TOPICS_BY_ID else [by_name]


def _forget(made: Scene, _: int, __: int) -> Sequence[Make]:
    async def of() -> Any:
        await made.commit()
        return offsets.delete(GROUP, {TOPIC: [0]})

    return [of]


def _init(_made: Scene, _: int, version: int) -> Sequence[Make]:
    return [
        lambda: transactions.init_producer_id(None, version),
        lambda: transactions.init_producer_id("another", version),
    ]


def _described(_made: Scene, _: int, version: int) -> Sequence[Make]:
    return [lambda: DescribeTransactionsRequest(version=version, transactional_ids=[TRANSACTION])]


def _configs(_made: Scene, _: int, version: int) -> Sequence[Make]:
    def of(kind: int, name: str) -> Any:
        one = DescribeConfigsRequest.DescribeConfigsResource
        resource = one(resource_type=kind, resource_name=name, configuration_keys=["retention.ms"])
        return DescribeConfigsRequest(version=version, resources=[resource], include_synonyms=False)

    return [partial(of, kind, name) for kind, name in CONFIGS.items()]


def _alter(_made: Scene, key: int, version: int) -> Sequence[Make]:
    def of(kind: int, name: str) -> Any:
        request = (
            AlterConfigsRequest if key == AlterConfigsRequest.API_KEY else IncrementalAlterConfigsRequest
        )
        resource = request.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[])
        return request(version=version, resources=[resource], validate_only=True)

    return [partial(of, kind, name) for kind, name in CONFIGS.items()]


def _cluster(_made: Scene, _: int, version: int) -> Sequence[Make]:
    return [lambda: DescribeClusterRequest(version=version, include_cluster_authorized_operations=True)]


def _handshake(_made: Scene, key: int, version: int) -> Sequence[Make]:
    return [lambda: REQUEST_CLASSES[key](version=version, mechanism="PLAIN")]


def _authenticate(_made: Scene, key: int, version: int) -> Sequence[Make]:
    return [lambda: REQUEST_CLASSES[key](version=version, auth_bytes=b"")]


def _users(_made: Scene, key: int, version: int) -> Sequence[Make]:
    of = REQUEST_CLASSES[key]
    deletion = of.ScramCredentialDeletion(name="nobody", mechanism=1)
    return [lambda: of(version=version, deletions=[deletion], upsertions=[])]


def _token(_made: Scene, key: int, version: int) -> Sequence[Make]:
    of = partial(REQUEST_CLASSES[key], version=version, renewers=[], max_lifetime_ms=1)
    if version < TOKENS_FOR_OTHERS:
        return [of]
    return [partial(of, owner_principal_type=OWNER.type, owner_principal_name=OWNER.name)]


_KINDS: Final[dict[int, Callable[[Scene, int, int], Sequence[Make]]]] = {
    0: _produce,
    1: _fetch,
    3: _metadata,
    8: _commit,
    9: _offsets,
    10: _coordinator,
    15: _groups,
    17: _handshake,
    19: _create,
    20: _delete,
    22: _init,
    32: _configs,
    33: _alter,
    36: _authenticate,
    38: _token,
    44: _alter,
    47: _forget,
    51: _users,
    60: _cluster,
    65: _described,
}
