"""Two users who may both write to a topic: neither can do anything with the other's producer id.

Over TCP, with a whole gateway; over its restart, and over the loss of its catalog.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trio
from kafka.protocol.producer import ProduceRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from gateway.catalog import keys
from gateway.catalog.interface import Compare
from gateway.front.listeners import ListenerSpec
from gateway.security.producer_ids import BOUND, ProducerIdBinding
from gateway.security.protocol import SecurityProtocol
from tests.differential.transactional import add_offsets, add_partitions, end, init
from tests.differential.transactions import init_producer_id
from tests.in_process import in_process, test_older_catalogs
from tests.in_process.in_process import RawClient, running
from tests.in_process.test_older_catalogs import Serving
from tests.in_process.test_transactional_ids import MAY_PASS, ask, ask_until_done
from tests.unit.gateway.cluster.test_scram_users import upsertion
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.schemas import REQUEST_CLASSES
from wireproto.records.builder import build_batch
from wireproto.records.header import TRANSACTIONAL_FLAG, read_header
from wireproto.records.iteration import iter_records

NONE = ErrorCode.NONE
NOT_HIS, NOT_ITS = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.INVALID_PRODUCER_ID_MAPPING
LAST_EPOCH = 32_767
LISTEN = (ListenerSpec("SASL_PLAINTEXT", "127.0.0.1", 0, protocol=SecurityProtocol.SASL_PLAINTEXT),)
EVERYBODY_MAY: dict[str, Any] = {"authorizer": "acl", "allow_everyone_if_no_acl_found": True}


class Scene(NamedTuple):
    """A gateway, and a connection of each user."""

    server: Serving
    port: int
    alice: RawClient
    bob: RawClient

    async def values(self) -> list[tuple[int, bytes | None]]:
        """(producer id, value) of all records that the topic has; markers apart."""
        topic = self.server.broker.topics.get("orders")
        assert topic is not None
        partition, offset, found = topic.partitions[0], 0, []
        while offset < partition.high_watermark:
            for batch in await partition.look(offset, 1 << 20):
                header = read_header(batch)
                if not header.is_control:
                    found += [(header.producer_id, record.value) for record in iter_records(batch)]
                offset = header.last_offset + 1
        return found


@asynccontextmanager
async def serving(
    data: Path, monkeypatch: pytest.MonkeyPatch, *, is_new: bool = True, **settings: Any
) -> AsyncIterator[Scene]:
    monkeypatch.setattr(in_process, "Standalone", Serving)
    settings = {"topics": (("orders", 1),)} | settings
    async with running(data, monkeypatch, listen=LISTEN, **settings) as (server, port):
        assert isinstance(server, Serving)
        for user in ("alice", "bob") if is_new else ():
            assert await server.broker.alter_user(upsertion(user)) is None
        async with await logged_in(port, "alice") as alice, await logged_in(port, "bob") as bob:
            yield Scene(server, port, alice, bob)


async def logged_in(port: int, user: str) -> RawClient:
    client = await RawClient.connect(port)
    shaken = await ask(client, SaslHandshakeRequest(version=1, mechanism="PLAIN"))
    assert shaken.error_code == NONE
    token = f"\0{user}\0secret".encode()
    shaken = await ask(client, SaslAuthenticateRequest(version=2, auth_bytes=token))
    assert shaken.error_code == NONE
    return client


async def new_id(client: RawClient) -> int:
    answer = await ask_until_done(client, lambda: init(None))
    assert (answer.error_code, answer.producer_epoch) == (NONE, 0)
    return int(answer.producer_id)


async def send(
    client: RawClient,
    value: bytes,
    pid: int,
    sequence: int,
    *,
    epoch: int = 0,
    name: str | None = None,
    is_part: bool = False,
) -> ErrorCode:
    content = build_batch(
        [(None, value, [], 1_700_000_000_000)],
        producer_id=pid,
        producer_epoch=epoch,
        base_sequence=sequence,
        attributes=TRANSACTIONAL_FLAG if is_part else 0,
    )
    data = ProduceRequest.TopicProduceData
    part = data.PartitionProduceData(version=9, index=0, records=bytes(content))
    request = ProduceRequest(
        version=9,
        transactional_id=name,
        acks=-1,
        timeout_ms=5000,
        topic_data=[data(version=9, name="orders", partition_data=[part])],
    )
    answer = await ask(client, request)
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


@pytest.mark.parametrize("settings", [{}, EVERYBODY_MAY], ids=["no authorizer", "acls"])
def test_a_forged_sequence_or_epoch_is_refused_and_the_next_record_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]
) -> None:
    async def main() -> None:
        async with serving(tmp_path / "data", monkeypatch, **settings) as scene:
            pid = await new_id(scene.alice)
            assert pid >= BOUND
            assert await send(scene.alice, b"first", pid, 0) is NONE
            assert await send(scene.bob, b"forged", pid, 1) is NOT_HIS
            assert await send(scene.bob, b"fencing", pid, 0, epoch=LAST_EPOCH) is NOT_HIS
            assert await send(scene.alice, b"second", pid, 1) is NONE
            bobs = await new_id(scene.bob)
            assert await send(scene.bob, b"his own", bobs, 0) is NONE
            assert await send(scene.alice, b"third", pid, 2) is NONE
            assert await scene.values() == [
                (pid, b"first"), (pid, b"second"), (bobs, b"his own"), (pid, b"third")
            ]  # fmt: skip
            async with await logged_in(scene.port, "alice") as again:
                assert await send(again, b"fourth", pid, 3) is NONE

    trio.run(main)


def commit_offsets(name: str, pid: int, epoch: int) -> Any:
    commit = REQUEST_CLASSES[ApiKey.TXN_OFFSET_COMMIT]
    topic = commit.TxnOffsetCommitRequestTopic
    part = topic.TxnOffsetCommitRequestPartition
    return commit(
        version=3,
        transactional_id=name,
        group_id="g",
        producer_id=pid,
        producer_epoch=epoch,
        topics=[topic(name="orders", partitions=[part(partition_index=0, committed_offset=5)])],
    )


async def committed(client: RawClient, name: str, pid: int) -> ErrorCode:
    """Once the group's coordinator has made its topic, what it answers."""
    for _ in range(1000):
        answer = await ask(client, commit_offsets(name, pid, 0))
        error = ErrorCode(answer.topics[0].partitions[0].error_code)
        if error not in MAY_PASS:
            return error
        await trio.sleep(0.02)
    raise AssertionError("it does not pass")


def test_an_open_transaction_takes_nothing_of_somebody_elses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bob has a transactional id of his own, and names that, or nothing, or hers where nobody asks."""

    async def main() -> None:
        async with serving(tmp_path / "data", monkeypatch) as scene:
            alice, bob = scene.alice, scene.bob
            pid = (await ask_until_done(alice, lambda: init("hers"))).producer_id
            bobs = (await ask_until_done(bob, lambda: init("his"))).producer_id
            await ask(alice, add_partitions("hers", pid, 0, {"orders": [0]}))
            assert (await ask_until_done(alice, lambda: add_offsets("hers", pid, 0, "g"))).error_code == NONE
            assert await send(alice, b"first", pid, 0, name="hers", is_part=True) is NONE
            assert await committed(alice, "hers", pid) is NONE

            assert await send(bob, b"forged", pid, 1, name="his", is_part=True) is NOT_ITS
            assert await send(bob, b"fencing", pid, 0, epoch=LAST_EPOCH, name="his", is_part=True) is NOT_ITS
            nameless = await send(bob, b"forged", pid, 1, is_part=True)
            assert nameless is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            for name in (None, "his", "hers"):
                assert await send(bob, b"outside", pid, 1, name=name) is NOT_HIS
                assert await send(bob, b"outside", pid, 0, epoch=LAST_EPOCH, name=name) is NOT_HIS
            assert await committed(bob, "his", pid) is NOT_ITS
            added = await ask(bob, add_partitions("his", pid, 0, {"orders": [0]}))
            (told,) = added.results_by_topic_v3_and_below
            assert told.results_by_partition[0].partition_error_code == NOT_ITS
            assert (await ask(bob, add_offsets("his", pid, 0, "g"))).error_code == NOT_ITS
            assert (await ask(bob, end("his", pid, 0, commit=False))).error_code == NOT_ITS

            assert await send(alice, b"second", pid, 1, name="hers", is_part=True) is NONE
            assert (await ask_until_done(alice, lambda: end("hers", pid, 0))).error_code == NONE
            assert await scene.values() == [(pid, b"first"), (pid, b"second")]
            assert len({pid, bobs}) == 2

    trio.run(main)


def test_ids_that_were_given_before_are_anybodys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with serving(tmp_path / "data", monkeypatch) as scene:
            await new_id(scene.alice)  # there is a secret
            assert await send(scene.alice, b"first", 4711, 0) is NONE
            assert await send(scene.bob, b"second", 4711, 1) is NONE
            assert await scene.values() == [(4711, b"first"), (4711, b"second")]

    trio.run(main)


def with_the_mark_of(secret: bytes) -> bytes:
    """Another secret, whose ids cannot be told from those of this one: of 256 others one is."""
    bound = ProducerIdBinding(secret).bind(0, "")
    others = (number.to_bytes(32, "big") for number in range(100_000))
    return next(other for other in others if ProducerIdBinding(other).is_mine(bound))


@pytest.mark.parametrize("names", [False, True])
def test_a_transactional_id_outlives_the_secret_also_where_another_one_has_the_same_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: bool
) -> None:
    """Its producer id is nobody's then: it is given another one."""

    async def main() -> None:
        data = tmp_path / "data"
        async with serving(data, monkeypatch) as scene:
            lost = (await ask_until_done(scene.alice, lambda: init("hers"))).producer_id
            secret = scene.server.catalog.get(keys.SCRAM_SECRET)
            assert secret is not None
            other = with_the_mark_of(secret.value)
            compare = Compare(keys.SCRAM_SECRET, secret.mod_revision)
            await scene.server.catalog.transact([compare], {keys.SCRAM_SECRET: other})
        async with serving(data, monkeypatch, is_new=False) as scene:
            assert await send(scene.alice, b"first", lost, 0, name="hers", is_part=True) is NOT_ITS
            has, epoch = (lost, 0) if names else (-1, -1)
            begin = partial(init_producer_id, "hers", 4, producer_id=has, epoch=epoch)
            begun = await ask_until_done(scene.alice, begin)
            pid = begun.producer_id
            assert (begun.error_code, begun.producer_epoch, pid == lost) == (NONE, 0, False)
            added = await ask(scene.alice, add_partitions("hers", pid, 0, {"orders": [0]}))
            assert added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == NONE
            assert await send(scene.alice, b"first", pid, 0, name="hers", is_part=True) is NONE
            assert await send(scene.alice, b"late", lost, 0, name="hers", is_part=True) is NOT_ITS
            assert (await ask_until_done(scene.alice, lambda: end("hers", pid, 0))).error_code == NONE
            assert await scene.values() == [(pid, b"first")]

    trio.run(main)


def restarted(data: Path) -> dict[str, Any]:
    assert data.is_dir()
    return {}


def rebuilt(data: Path) -> dict[str, Any]:
    shutil.rmtree(data / "gateway")
    return {"rebuild_catalog": True}


@pytest.mark.parametrize("happens", [restarted, rebuilt])
def test_ids_are_whose_they_were_after_a_restart_and_in_a_catalog_that_was_rebuilt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, happens: Any
) -> None:
    async def main() -> None:
        data = tmp_path / "data"
        async with serving(data, monkeypatch) as scene:
            pid = await new_id(scene.alice)
            assert await send(scene.alice, b"first", pid, 0) is NONE
        async with serving(data, monkeypatch, is_new=False, **happens(data)) as scene:
            assert await send(scene.bob, b"forged", pid, 1) is NOT_HIS
            assert await send(scene.alice, b"second", pid, 1) is NONE
            assert await scene.values() == [(pid, b"first"), (pid, b"second")]
            later = await new_id(scene.alice)
            assert later > pid
            assert await send(scene.bob, b"forged", later, 0) is NOT_HIS

    trio.run(main)


def test_the_stores_remember_the_secret_with_the_first_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nobody has logged in, it is the first id that needs it."""

    async def main() -> None:
        data = tmp_path / "data"
        async with test_older_catalogs.serving(data, monkeypatch) as (server, client):
            assert server.catalog.get(keys.SCRAM_SECRET) is None
            assert await new_id(client) >= BOUND
            before = server.catalog.get(keys.SCRAM_SECRET)
        shutil.rmtree(data / "gateway")
        async with test_older_catalogs.serving(data, monkeypatch, rebuild_catalog=True) as (server, _):
            after = server.catalog.get(keys.SCRAM_SECRET)
            assert before is not None
            assert after is not None
            assert after.value == before.value

    trio.run(main)
