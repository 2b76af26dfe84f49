"""Asks one handler one request, through the real decoder and encoder; the broker is only a few lists."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import trio
import trio.testing

from gateway.administration.automatic_creation import AutomaticCreation
from gateway.cluster.acls import Acls
from gateway.cluster.features import Decide, Features
from gateway.cluster.gateways import OneGateway
from gateway.cluster.producer_id_owners import ProducerIdOwners
from gateway.cluster.quotas import Quotas, key_of
from gateway.cluster.scram_users import Change, Refusal, ScramUsers
from gateway.cluster.subject_names import SubjectNames
from gateway.cluster.topics import MAX_PARTITIONS
from gateway.common.budget import Budget
from gateway.common.handlers import Request
from gateway.common.topic_names import collision_key, is_internal
from gateway.front.registry import load_apis
from gateway.journal.internal_topic import partition_for
from gateway.log.appends import Completions
from gateway.log.idempotence.producers import PartitionProducers, ProducerCount
from gateway.quotas.alteration import Values
from gateway.quotas.client_quotas import Charges, ClientQuotas
from gateway.quotas.connection_rates import ConnectionRates
from gateway.quotas.entities import Entity
from gateway.security.access import UNRESTRICTED, Access, ByAcls
from gateway.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from gateway.security.authorizer import Authorizer
from gateway.security.principal import USER, Principal
from gateway.security.producer_ids import Whom
from gateway.security.sasl_session import SaslSession
from tests.unit.gateway.catalog.memory import MemoryCatalog
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.headers import parse_request_header
from wireproto.kafka.responses import encode_response
from wireproto.kafka.schemas import REQUEST_CLASSES, RESPONSE_CLASSES

CORRELATION_ID = 4711
NODE_ID = 1
CLUSTER_ID = "the-cluster"
ADDRESS = ("gateway.example", 9092)
NOW_MS = 1_700_000_000_000

REGISTRY = load_apis()


@dataclass
class FakePartition:
    """A partition with records at offset = index in `timestamps`, all of the present epoch."""

    index: int
    leader_epoch: int = 0
    log_start_offset: int = 0
    timestamps: list[int] = field(default_factory=list)
    available: bool = True
    withheld: bool = False
    asked: int = 0
    reason: str = "the partition is being recovered"
    producers: PartitionProducers = field(
        default_factory=lambda: PartitionProducers(ProducerCount(trio.current_time))
    )
    failure: KafkaError | None = None
    undecided: int = 0
    """Records at the end that belong to open transactions."""

    @property
    def high_watermark(self) -> int:
        return len(self.timestamps)

    @property
    def last_stable_offset(self) -> int:
        return self.high_watermark - self.undecided

    def visible_end(self, committed: bool) -> int:
        return self.last_stable_offset if committed else self.high_watermark

    def asked_for(self) -> None:
        self.asked += 1

    def check_leader_epoch(self, epoch: int) -> ErrorCode:
        if epoch in {-1, self.leader_epoch}:
            return ErrorCode.NONE
        return ErrorCode.FENCED_LEADER_EPOCH if epoch < self.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        return (epoch, self.high_watermark) if epoch == self.leader_epoch else (-1, -1)

    def epoch_at(self, offset: int) -> int:
        return self.leader_epoch if offset < self.high_watermark else -1

    async def offset_for_timestamp(self, timestamp: int) -> tuple[int, int, int] | None:
        await trio.lowlevel.checkpoint()
        if self.failure:
            raise self.failure
        found = ((o, t, self.leader_epoch) for o, t in enumerate(self.timestamps) if t >= timestamp)
        return next(found, None)

    async def max_timestamp(self) -> tuple[int, int, int] | None:
        return None if not self.timestamps else await self.offset_for_timestamp(max(self.timestamps))


class FakeTopics:
    def __init__(self) -> None:
        self.topics: dict[str, Any] = {}
        self.most = MAX_PARTITIONS
        self.checked: list[tuple[str, int]] = []
        """Whose share was asked about, and for how many partitions."""
        self.refused: KafkaError | None = None

    def check_room(self, maker: str, partitions: int) -> None:
        if (existing := self.partition_count()) + partitions > self.most:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"There are {existing} partitions already and {partitions} more would exceed the limit of "
                f"{self.most}.",
            )
        self.checked.append((maker, partitions))
        if maker and self.refused is not None:
            raise self.refused

    def check_growth(self, topic: Any, asker: str, count: int) -> None:
        self.check_room(asker, count - len(topic.partitions))

    def get(self, name: str) -> Any:
        return self.topics.get(name)

    def by_id(self, topic_id: bytes) -> Any:
        return next((topic for topic in self.topics.values() if topic.id == topic_id), None)

    def all(self) -> list[Any]:
        return [topic for _, topic in sorted(self.topics.items())]

    def partition_count(self) -> int:
        return sum(len(topic.partitions) for topic in self.topics.values())

    def collision(self, name: str) -> str | None:
        same = (other for other in self.topics if collision_key(other) == collision_key(name))
        return next((other for other in same if other != name), None)


class FakeCoordinator:
    """A coordinator as far as FindCoordinator and AddOffsetsToTxn need it; `failure` is raised instead."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.failure: KafkaError | None = None
        self.nodes: dict[str, int] = {}
        """The gateways of groups that are not this one's."""

    def node_of(self, group_id: str) -> int:
        return self.nodes.get(group_id, NODE_ID)

    async def find(self, group_id: str) -> None:
        await trio.lowlevel.checkpoint()
        self.found.append(group_id)
        if self.failure:
            raise self.failure

    async def place_of(self, group_id: str) -> tuple[str, int]:
        await self.find(group_id)
        return "__consumer_offsets", partition_for(group_id, 50)


class FakeRecovery:
    """`soon` are the partitions that were asked for while it `is_behind`."""

    def __init__(self) -> None:
        self.is_behind = False
        self.soon: list[Any] = []

    def recover_soon(self, partitions: Iterable[Any]) -> None:
        self.soon += partitions


class FakeDynamicConfigs:
    """As `gateway.cluster.dynamic_configs.DynamicConfigs`, with no catalog."""

    def __init__(self) -> None:
        self.node: dict[str, str] = {}
        self.cluster: dict[str, str] = {}

    @property
    def in_force(self) -> dict[str, str]:
        return {**self.cluster, **self.node}


class FakeBroker:
    """As `gateway.broker.Broker`, with nothing behind it."""

    def __init__(self, *, stores: int = 1, **settings: Any) -> None:
        self.node_id = NODE_ID
        self.access: Access = UNRESTRICTED
        """What those may do who ask."""
        self.sasl: SaslSession | None = None
        """How they say who they are."""
        self.delegation_tokens: Any = None
        self.charges: Charges | None = None
        """What they are charged for."""
        self.gateways = OneGateway(NODE_ID)
        self.preferred = None
        self.cluster_id = CLUSTER_ID
        self.features = Features(MemoryCatalog(), NODE_ID)
        self.quotas = Quotas(MemoryCatalog(), ClientQuotas(lambda: NOW_MS), ConnectionRates(lambda: NOW_MS))
        self.topics = FakeTopics()
        self.subject_names = SubjectNames()
        self.scram_users = ScramUsers(MemoryCatalog())
        self.stores: Any = SimpleNamespace(
            admitted=("store",) * stores, presence=None, default_replication_factor=min(3, stores)
        )
        self.recovery = FakeRecovery()
        self.context = SimpleNamespace(
            catalog=SimpleNamespace(revision=7),
            now_ms=lambda: NOW_MS,
        )
        self.settings = SimpleNamespace(
            **{
                "partitions": 1,
                "rack": "",
                "gateway_listener": "",
                "auto_create_topics": True,
                "relax_replication_factor": False,
                "trust_batches": False,
                "connections_max_reauth_ms": 0,
                "quota_window_num": 11,
                "quota_window_size_seconds": 1,
                "controller_quota_window_num": 11,
                "controller_quota_window_size_seconds": 1,
                "delegation_token_expiry_time_ms": 86_400_000,
                "delegation_token_max_lifetime_ms": 604_800_000,
                "admin_client_writes": False,
                "retention_check_interval_ms": 300_000,
                "compaction_backoff_ms": 15_000,
                "group_initial_rebalance_delay_ms": 3000,
                "group_min_session_timeout_ms": 6000,
                "group_max_session_timeout_ms": 1_800_000,
                "group_max_size": 2**31 - 1,
                "offsets_retention_minutes": 10_080,
                "fetch_session_slots": 1000,
                "authorizer": "none",
                "super_user": (),
                "allow_everyone_if_no_acl_found": False,
            }
            | settings
        )
        self.acls = Acls(MemoryCatalog(), cast("Any", self.settings))
        self.dynamic = FakeDynamicConfigs()
        self.scram_users = ScramUsers(MemoryCatalog())
        self.completions = Completions()
        self.next_producer_id = 1000
        self.producer_ids_of: dict[int, Whom] = {}
        """For whom each was asked for."""
        catalog = MemoryCatalog()
        self.producer_id_owners = ProducerIdOwners(catalog, ScramUsers(catalog))
        self.waits_for_stores = 0
        """How often somebody waited for the stores to remember a change."""
        self.groups = FakeCoordinator()
        self.transactions: Any = FakeCoordinator()
        self.failure: KafkaError | None = None
        self.automatic_creation = AutomaticCreation(self)  # type: ignore[arg-type]

    async def change_tokens(self, change: Any, *, is_more: bool = False) -> Any:  # noqa: ARG002
        return await change()

    async def alter_quotas(self, changes: Mapping[Entity, Values], addresses: Mapping[Entity, str]) -> None:
        if self.failure:
            raise self.failure
        await self.quotas.alter(changes, addresses)
        for entity in changes:
            self.quotas.take(key_of(entity))

    async def change_features(self, decide: Decide) -> None:
        await self.features.change(decide)
        self.features.read()

    def create_automatically(self) -> None:
        """Create what Metadata requests have asked for."""

        async def work() -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.automatic_creation.run)
                await trio.testing.wait_all_tasks_blocked()
                nursery.cancel_scope.cancel()

        trio.run(work)

    def add(self, name: str, partitions: int = 1, **configs: str) -> Any:
        topic = SimpleNamespace(
            name=name,
            id=uuid.uuid4().bytes,
            partitions=[FakePartition(index) for index in range(partitions)],
            maker="",
            configs={key.replace("_", "."): value for key, value in configs.items()},
            replication_factor=1,
            internal=is_internal(name),
        )
        self.topics.topics[name] = topic
        return topic

    async def create_topic(
        self, name: str, partitions: int, configs: dict[str, str], replication_factor: int, *, maker: str = ""
    ) -> Any:
        await trio.lowlevel.checkpoint()
        if self.failure:
            raise self.failure
        if name in self.topics.topics:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        topic = self.add(name, partitions)
        topic.configs, topic.replication_factor, topic.maker = configs, replication_factor, maker
        return topic

    async def add_partitions(self, topic: Any, count: int, *, asker: str = "") -> None:
        await trio.lowlevel.checkpoint()
        if self.failure:
            raise self.failure
        topic.maker = asker or topic.maker
        topic.partitions = [
            *topic.partitions, *(FakePartition(index) for index in range(len(topic.partitions), count))
        ]  # fmt: skip

    async def alter_topic(self, topic: Any, change: Any) -> None:
        await trio.lowlevel.checkpoint()
        if self.failure:
            raise self.failure
        topic.configs = change(topic.configs)

    async def alter_broker(self, node: int | None, change: Any) -> None:
        await trio.lowlevel.checkpoint()
        if node is None:
            self.dynamic.cluster = change(self.dynamic.cluster)
        else:
            assert node == self.node_id
            self.dynamic.node = change(self.dynamic.node)

    async def alter_user(self, change: Change) -> Refusal | None:
        if self.failure:
            raise self.failure
        return await self.scram_users.make(change)

    async def delete_topic(self, topic: Any) -> None:
        await trio.lowlevel.checkpoint()
        if self.failure:
            raise self.failure
        del self.topics.topics[topic.name]

    def remember_soon(self) -> None:
        pass

    async def remembered(self) -> None:
        await trio.lowlevel.checkpoint()
        self.waits_for_stores += 1

    async def allocate_producer_id(self, whom: Whom) -> int:
        await trio.lowlevel.checkpoint()
        self.next_producer_id += 1
        self.producer_ids_of[self.next_producer_id] = whom
        return self.next_producer_id


ALICE = Principal(USER, "alice")


def allowed(*allowances: tuple[Operation, ResourceType, str]) -> Access:
    """The access of somebody who may do this and nothing else."""
    acls = [
        Acl(kind, name, PatternType.LITERAL, str(ALICE), "*", operation, Permission.ALLOW)
        for operation, kind, name in allowances
    ]
    authorizer = Authorizer(acls)
    return ByAcls(ALICE, "127.0.0.1", lambda: authorizer)


def request_class(api_key: int) -> Any:
    """kafka-python's request class: its fields and nested classes make the request."""
    return REQUEST_CLASSES[api_key]


def encode_request(request: Any) -> memoryview:
    """The frame of a request, without its size field, as a client would send it."""
    request.with_header(correlation_id=CORRELATION_ID, client_id="test")
    return memoryview(bytes(request.encode(header=True)))


async def ask_async(broker: FakeBroker, request: Any, address: tuple[str, int] = ADDRESS) -> Any:
    """The decoded answer, as kafka-python's class."""
    frame = encode_request(request)
    header = parse_request_header(frame)
    api = REGISTRY.lookup(header.api_key)
    assert api is not None
    assert api.min_version <= header.api_version <= api.max_version
    body = api.decoder(header.api_version, frame, header.body_offset)
    assert api.handler is not None
    access = getattr(broker, "access", UNRESTRICTED)  # some tests have a real broker
    asked = Request(header, body, frame, address, "client", trio.Event())
    asked.access, asked.sasl = access, getattr(broker, "sasl", None)
    asked.charges = getattr(broker, "charges", None)
    framed = await api.handler(asked, broker)
    assert isinstance(framed, bytes)
    if api.at_once is not None:
        # The short way says the same, or nothing.
        at_once = api.at_once(header, frame, address, access, cast("Any", broker))
        assert at_once is None or at_once == framed
    response = RESPONSE_CLASSES[header.api_key].decode(
        framed, version=header.api_version, header=True, framed=True
    )
    assert response.header.correlation_id == CORRELATION_ID
    response._header = None  # kafka-python encodes no answer that was decoded with one
    # Nothing is missing and nothing left over: encoded again it is the same.
    assert encode_response(response, header.api_version, CORRELATION_ID) == framed
    return response


def ask(broker: FakeBroker, request: Any, address: tuple[str, int] = ADDRESS) -> dict[str, Any]:
    """The decoded answer as plain values; topic ids are `uuid.UUID`, or None for the zero id."""
    response = trio.run(partial(ask_async, broker, request, address))
    answer: dict[str, Any] = response.to_dict(json=False)
    return answer


async def reserved_for(broker: FakeBroker, request: Any) -> int:
    """The bytes that the handler has reserved for its answer."""
    frame = encode_request(request)
    header = parse_request_header(frame)
    api = REGISTRY.lookup(header.api_key)
    assert api is not None
    assert api.handler is not None
    body = api.decoder(header.api_version, frame, header.body_offset)
    asked = Request(header, body, frame, ADDRESS, "client", trio.Event(), Budget(10**9))
    asked.access = broker.access
    await api.handler(asked, broker)
    return asked.reserved
