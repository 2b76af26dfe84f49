"""Every broker config that an option sets takes effect: seen by a client of a gateway started with it.

All are set on one gateway, each to something else than Kafka's default, and shown by DescribeConfigs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from kafka.protocol.admin import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kafka.protocol.consumer import (
    FetchRequest,
    FetchResponse,
    JoinGroupResponse,
    OffsetCommitResponse,
    OffsetFetchResponse,
)
from kafka.protocol.metadata import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)

from dafka.processes.standalone import Standalone
from gateway.broker import Broker
from gateway.cluster.delegation_tokens import Wanted
from gateway.configs.broker_validation import OWN_EFFECT
from gateway.front.listeners import Listener
from gateway.front.sessions import Sessions
from gateway.groups import expiry
from gateway.log import retention
from gateway.quotas.entities import FETCHED, MUTATIONS
from gateway.security.oauthbearer import Bearer
from gateway.security.principal import Principal
from gateway.security.protocol import SecurityProtocol
from tests.differential import offsets
from tests.differential.groups import join
from tests.docs.broker_effects import BY_OPTION
from tests.in_process.in_process import RawClient, running
from tests.in_process.test_configs_take_effect import AFTER, BROKER_RESOURCE, DAY_MS, Scene, pairs, two_values

UNKNOWN_TOPIC, INVALID_SESSION_TIMEOUT, GROUP_MAX_SIZE_REACHED = 3, 26, 81
STATIC_BROKER = 4
DELAY_MS = 400
SECONDS = 30.0


class Client(Scene):
    """A topic of its own for each config, and requests of groups."""

    def __init__(self, broker: Broker, client: RawClient, port: int, topic: str) -> None:
        super().__init__(broker, client, topic=topic)
        self.port = port

    async def coordinator(self, group: str) -> None:
        request = FindCoordinatorRequest(version=1, key=group, key_type=0)
        assert (await self.client.ask(request, FindCoordinatorResponse)).error_code == 0

    async def join(self, group: str, **fields: Any) -> Any:
        request = join(group, version=3, **({"session_ms": 1000, "rebalance_ms": 60_000} | fields))
        return await self.client.ask(request, JoinGroupResponse)

    async def until(self, is_so: Callable[[], Awaitable[bool]]) -> None:
        with trio.fail_after(SECONDS):
            while not await is_so():  # noqa: ASYNC110 - only requests tell
                await trio.sleep(0.005)


async def auto_create_topics(client: Client) -> None:
    assert await found_partitions(client, "nowhere", create=True) == UNKNOWN_TOPIC
    assert client.broker.automatic_creation.under_way == 0, "it is not even created meanwhile"


async def found_partitions(client: Client, name: str, *, create: bool = False) -> int:
    """The partitions of a topic; the error code if there is none."""
    one = MetadataRequest.MetadataRequestTopic(name=name, topic_id=None)
    request = MetadataRequest(version=9, topics=[one], allow_auto_topic_creation=create)
    (topic,) = (await client.client.ask(request, MetadataResponse)).topics
    return topic.error_code or len(topic.partitions)


async def num_partitions(client: Client) -> None:
    topic = CreateTopicsRequest.CreatableTopic(
        name="by-default", num_partitions=-1, replication_factor=-1, assignments=[], configs=[]
    )
    request = CreateTopicsRequest(version=5, topics=[topic], timeout_ms=10_000)
    made = await client.client.ask(request, CreateTopicsResponse)
    assert (made.topics[0].error_code, made.topics[0].num_partitions) == (0, 3)
    assert await found_partitions(client, "by-default") == 3


async def listeners(client: Client) -> None:
    """And what is told of the gateway is so."""
    request = MetadataRequest(version=9, topics=None, allow_auto_topic_creation=False)
    answer = await client.client.ask(request, MetadataResponse)
    (broker,) = answer.brokers
    assert (broker.host, broker.port) == ("127.0.0.1", client.port)
    told = await shown(client.client)
    assert told["advertised.listeners"] == told["listeners"] == f"PLAINTEXT://127.0.0.1:{client.port}"
    assert told["node.id"] == told["broker.id"] == str(broker.node_id)
    replicas = {len(partition.replica_nodes) for topic in answer.topics for partition in topic.partitions}
    assert replicas == {1}
    assert told["offsets.topic.replication.factor"] == "1"


async def rack(client: Client) -> None:
    """Of the only broker that there is."""
    request = MetadataRequest(version=9, topics=[], allow_auto_topic_creation=False)
    (broker,) = (await client.client.ask(request, MetadataResponse)).brokers
    assert broker.rack == (await shown(client.client))["broker.rack"] == "zone-b"


async def gateway_listener(client: Client) -> None:
    """Shown; who is asked by it: tests/unit/gateway/peers."""
    assert (await shown(client.client))["inter.broker.listener.name"] == "PLAINTEXT"


async def session_timeouts(client: Client) -> None:
    """From half a second to a minute."""
    await client.coordinator("timeouts")
    refused = INVALID_SESSION_TIMEOUT
    for session_ms, expected in [(499, refused), (500, 0), (60_000, 0), (60_001, refused)]:
        assert (await client.join(f"timeouts-{session_ms}", session_ms=session_ms)).error_code == expected


async def group_max_size(client: Client) -> None:
    await client.coordinator("small")
    first = await client.join("small")
    assert first.error_code == 0
    assert (await client.join("small")).error_code == GROUP_MAX_SIZE_REACHED


async def initial_rebalance_delay(client: Client) -> None:
    """By default it would be three seconds; here the first member waits so long for others."""
    await client.coordinator("waits")
    began = trio.current_time()
    assert (await client.join("waits")).error_code == 0
    assert DELAY_MS / 1000 <= trio.current_time() - began < 3


async def offsets_retention(client: Client) -> None:
    """The offset of a group without members is forgotten at once, where a week would be usual."""
    await client.coordinator("forgets")
    commit = offsets.commit("forgets", {client.topic: [offsets.offset(0, 7)]}, version=8)
    answer = await client.client.ask(commit, OffsetCommitResponse)
    assert answer.topics[0].partitions[0].error_code == 0

    async def is_forgotten() -> bool:
        asked = offsets.fetch("forgets", {client.topic: [0]}, version=7)
        found = await client.client.ask(asked, OffsetFetchResponse)
        return bool(found.topics[0].partitions[0].committed_offset == -1)

    await client.until(is_forgotten)


async def fetch_session_slots(client: Client) -> None:
    """There is one: whoever comes second gets none."""
    assert [await session_id(client) > 0 for _ in range(2)] == [True, False]


async def session_id(client: Client) -> int:
    of = FetchRequest.FetchTopic
    partition = of.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
    request = FetchRequest(
        version=11, max_wait_ms=0, min_bytes=0, max_bytes=1, session_id=0, session_epoch=0,
        topics=[of(topic=client.topic, partitions=[partition])],
    )  # fmt: skip
    return int((await client.client.ask(request, FetchResponse)).session_id)


async def retention_checks(client: Client) -> None:
    """What is too old goes by itself, soon; the first look would be after thirty seconds."""
    assert await client.produce(timestamp_ms=client.broker.context.now_ms() - DAY_MS) == 0
    assert await client.set("retention.ms", "1") == 0

    async def is_gone() -> bool:
        return await client.first_offset() == 2

    await client.until(is_gone)


async def compaction_backoff(client: Client) -> None:
    """What is dirty is compacted by itself, soon; by default the next look would be in 15 s."""
    await two_values(client, "0")

    async def is_compacted() -> bool:
        return await pairs(client) == AFTER

    await client.until(is_compacted)


async def token_lifetimes(client: Client) -> None:
    """Who asks for a token on a listener where nobody says who he is gets none: so it is made here."""
    alice = Principal("User", "alice")
    create = partial(client.broker.delegation_tokens.create, Wanted(alice, alice))
    token, _ = await client.broker.change_tokens(create)
    assert (token.expires_ms - token.issued_ms, token.max_ms - token.issued_ms) == (1_000, 2_000)


async def sessions(client: Client) -> None:
    """No listener here asks who comes: so a session is begun as one that does begins it."""
    limit_ms = client.broker.settings.connections_max_reauth_ms
    made = Sessions(client.broker.scram_users, b"", limit_ms, validate=lambda _token: Bearer("alice", DAY_MS))
    session = made.begin(Listener("X", "127.0.0.1", 1, protocol=SecurityProtocol.SASL_PLAINTEXT))
    assert session is not None
    session.handshake("OAUTHBEARER", 1, 0)
    told = session.authenticate(b"n,,\x01auth=Bearer of.alice\x01\x01", 2, 0)
    assert (told.lifetime_ms, session.is_over(2_999), session.is_over(3_000)) == (3_000, False, True)


async def quota_windows(client: Client) -> None:
    """A Fetch may have what all samples but one give, and as much as all of them may be changed at once: more
    by default.
    """
    quotas, entity = client.broker.quotas.clients, frozenset({("user", "somebody")})
    quotas.put(entity, {FETCHED: 100, MUTATIONS: 1})
    charges = quotas.charges("somebody", "client")
    assert charges.most_to_fetch == 100 * (3 - 1) * 2
    assert charges.may_change(2 * 3 + 1, strictly=True)
    assert not charges.may_change(1, strictly=True)
    quotas.put(entity, {})


SETTINGS: dict[str, Any] = {
    "auto_create_topics": False,
    "compaction_backoff_ms": 20,
    "connections_max_reauth_ms": 3_000,
    "controller_quota_window_num": 2,
    "controller_quota_window_size_seconds": 3,
    "delegation_token_expiry_time_ms": 1_000,
    "delegation_token_max_lifetime_ms": 2_000,
    "fetch_session_slots": 1,
    "gateway_listener": "PLAINTEXT",
    "group_initial_rebalance_delay_ms": DELAY_MS,
    "group_max_session_timeout_ms": 60_000,
    "group_max_size": 1,
    "group_min_session_timeout_ms": 500,
    "offsets_retention_minutes": 0,
    "partitions": 3,
    "quota_window_num": 3,
    "quota_window_size_seconds": 2,
    "retention_check_interval_ms": 50,
    "rack": "zone-b",
}

EFFECTS: dict[str, Callable[[Client], Awaitable[None]]] = {
    "auto.create.topics.enable": auto_create_topics,
    "broker.rack": rack,
    "connections.max.reauth.ms": sessions,
    "controller.quota.window.num": quota_windows,
    "controller.quota.window.size.seconds": quota_windows,
    "delegation.token.expiry.time.ms": token_lifetimes,
    "delegation.token.max.lifetime.ms": token_lifetimes,
    "group.initial.rebalance.delay.ms": initial_rebalance_delay,
    "group.max.session.timeout.ms": session_timeouts,
    "group.max.size": group_max_size,
    "group.min.session.timeout.ms": session_timeouts,
    "inter.broker.listener.name": gateway_listener,
    "listeners": listeners,
    "log.cleaner.backoff.ms": compaction_backoff,
    "log.retention.check.interval.ms": retention_checks,
    "max.incremental.fetch.session.cache.slots": fetch_session_slots,
    "num.partitions": num_partitions,
    "offsets.retention.minutes": offsets_retention,
    "quota.window.num": quota_windows,
    "quota.window.size.seconds": quota_windows,
}


def test_every_config_that_an_option_sets_has_a_test() -> None:
    assert EFFECTS.keys() == BY_OPTION.keys()
    assert DYNAMIC.keys() == OWN_EFFECT.keys()


async def shown(client: RawClient) -> dict[str, str]:
    """The broker's configs that have a value of their own, as DescribeConfigs tells them."""
    of = DescribeConfigsRequest.DescribeConfigsResource
    resource = of(resource_type=BROKER_RESOURCE, resource_name="1", configuration_keys=None)
    request = DescribeConfigsRequest(
        version=4, resources=[resource], include_synonyms=False, include_documentation=False
    )
    answer = await client.ask(request, DescribeConfigsResponse)
    return {one.name: one.value for one in answer.results[0].configs if one.config_source == STATIC_BROKER}


def test_one_client_has_as_many_connections_as_are_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        with trio.fail_after(120):
            async with (
                running(tmp_path, monkeypatch, max_client_connections=2) as (_, port),
                await RawClient.connect(port) as first,
                await RawClient.connect(port) as second,
            ):
                for client in (first, second):
                    assert await shown(client)
                third = await trio.open_tcp_stream("127.0.0.1", port)
                async with third:
                    assert await third.receive_some() == b""

    trio.run(main)


def test_options_take_effect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    brokers: list[Broker] = []
    monkeypatch.setattr(Standalone, "_register_metrics", lambda _self, broker: brokers.append(broker))
    monkeypatch.setattr(retention, "SECOND_LOOK_SECONDS", 0.05)
    monkeypatch.setattr(expiry, "CHECK_SECONDS", 0.05)
    secret = tmp_path / "secret"
    secret.write_bytes(b"of the gateways, and of nobody else")
    secret.chmod(0o600)
    settings = {"delegation_token_secret_file": secret, **SETTINGS}

    async def main() -> None:
        with trio.fail_after(120):
            async with (
                running(tmp_path / "data", monkeypatch, **settings) as (_, port),
                await RawClient.connect(port) as client,
            ):
                assert (await shown(client)).keys() >= BY_OPTION.keys() - {"listeners"}
                for number, effect in enumerate(dict.fromkeys(EFFECTS.values())):
                    await brokers[0].create_topic(topic := f"topic-{number}", 1, {"retention.ms": "-1"}, 1)
                    scene = Client(brokers[0], client, port, topic)
                    assert await scene.produce() == 0
                    await effect(scene)

    trio.run(main)


SET, DELETE = 0, 1


async def alter(client: Client, name: str, value: str | None) -> None:
    """Set a config of all gateways, or remove it."""
    of = IncrementalAlterConfigsRequest.AlterConfigsResource
    operation = DELETE if value is None else SET
    config = of.AlterableConfig(name=name, config_operation=operation, value=value)
    resource = of(resource_type=BROKER_RESOURCE, resource_name="", configs=[config])
    request = IncrementalAlterConfigsRequest(version=1, resources=[resource], validate_only=False)
    answer = await client.client.ask(request, IncrementalAlterConfigsResponse)
    assert answer.responses[0].error_code == 0


async def backoff_while_it_runs(client: Client) -> None:
    """It was 15 s, and such a rest had begun."""
    await alter(client, "log.cleaner.backoff.ms", "20")
    await compaction_backoff(client)


async def is_refused(client: Client) -> bool:
    """Whether a new connection is closed at once; the one of the test stays."""
    async with await RawClient.connect(client.port) as one:
        try:
            await one.ask(MetadataRequest(version=5, topics=[]), MetadataResponse)
        except (ConnectionError, trio.BrokenResourceError):
            return True
    return False


def refuses(name: str, value: str, enough: str) -> Callable[[Client], Awaitable[None]]:
    """With the one value there is no place beside the test's connection, with the other there is."""

    async def effect(client: Client) -> None:
        await alter(client, name, value)
        assert await is_refused(client)
        await alter(client, name, enough)
        await client.until(partial(is_served, client))
        await alter(client, name, None)

    return effect


async def is_served(client: Client) -> bool:
    """The end of the connection before may not be noticed yet."""
    return not await is_refused(client)


async def rests_between_connections(client: Client) -> None:
    """The first is accepted; how long the next one waits is told by what the server rests."""
    await alter(client, "max.connection.creation.rate", "1")
    assert client.broker.quotas.places.limits.per_second == 1
    rests = [client.broker.quotas.places.rest_ms(0) for _ in range(11)]
    assert rests == [0] * 10 + [1_000]
    await alter(client, "max.connection.creation.rate", None)
    assert client.broker.quotas.places.rest_ms(0) == 0


DYNAMIC = {
    "log.cleaner.backoff.ms": backoff_while_it_runs,
    "max.connection.creation.rate": rests_between_connections,
    "max.connections": refuses("max.connections", "1", "2"),
    "max.connections.per.ip": refuses("max.connections.per.ip", "1", "2"),
    "max.connections.per.ip.overrides": refuses(
        "max.connections.per.ip.overrides", "127.0.0.1:1,10.0.0.1:9", "127.0.0.1:2"
    ),
}


def test_what_can_be_set_while_it_runs_takes_effect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    brokers: list[Broker] = []
    monkeypatch.setattr(Standalone, "_register_metrics", lambda _self, broker: brokers.append(broker))

    async def main() -> None:
        with trio.fail_after(60):
            async with running(tmp_path, monkeypatch) as (_, port), await RawClient.connect(port) as client:
                for number, effect in enumerate(DYNAMIC.values()):
                    await brokers[0].create_topic(topic := f"topic-{number}", 1, {"retention.ms": "-1"}, 1)
                    scene = Client(brokers[0], client, port, topic)
                    assert await scene.produce() == 0
                    await effect(scene)

    trio.run(main)
