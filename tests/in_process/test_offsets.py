"""Committed offsets through a whole gateway: over SIGKILL, lost frames, a lost partition, a deleted topic."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import trio
from kafka.protocol.admin import ListGroupsRequest
from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse

from dafka.processes.standalone import Standalone
from gateway.broker import Broker
from gateway.catalog import keys
from gateway.groups import expiry
from gateway.groups.internal_topic import OFFSETS_TOPIC
from gateway.journal import group_commit
from mesh.links import Publisher
from tests.clients.stored import create_topic
from tests.differential.offsets import commit, delete, fetch, offset
from tests.differential.wire import Connection, decode, encode
from tests.entries import entry_of
from tests.in_process.in_process import RawClient, running
from tests.in_process.several_stores import cluster
from tests.peers.standalone import Standalone as StandaloneProcess
from wireproto.dafka.additions import Request
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.schemas import RESPONSE_CLASSES

TOPICS = (("orders", 3),)
GROUPS = 20
OFFSET_COMMIT = 8
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
LOAD_SECONDS = 30


def codes(answer: Any) -> list[int]:
    """The error of each partition of an OffsetCommit."""
    return [one.error_code for topic in answer.topics for one in topic.partitions]


def found(answer: Any) -> dict[tuple[str, int], tuple[int, int, str]]:
    """What an OffsetFetch of one group found: offset, leader epoch and metadata by partition."""
    (group,) = answer.groups
    assert group.error_code == ErrorCode.NONE
    return {
        (topic.name, one.partition_index): (one.committed_offset, one.committed_leader_epoch, one.metadata)
        for topic in group.topics
        for one in topic.partitions
        if one.committed_offset >= 0
    }


def find_coordinator(connection: Connection) -> None:
    answer = connection.ask(FindCoordinatorRequest(version=1, key="g", key_type=0))
    assert answer.error_code == ErrorCode.NONE


# ------------------------------------------------------------------------------------------ over SIGKILL


@pytest.mark.slow
def test_what_was_committed_is_there_after_sigkill(tmp_path: Path) -> None:
    """Two lives; each commits for many groups, and is killed while the last commits are under way."""
    with StandaloneProcess(tmp_path / "data", directory=tmp_path / "server") as server:
        create_topic(server.bootstrap, "orders", 3)
        acked: dict[str, int] = {}
        sent: dict[str, int] = {}
        for life in range(2):
            _commit_until_killed(server, life, acked, sent)
            server.start()
            for stable in (False, True):
                _check(server, acked, sent, stable)


def _commit_until_killed(
    server: StandaloneProcess, life: int, acked: dict[str, int], sent: dict[str, int]
) -> None:
    with ExitStack() as opened:
        connections = [opened.enter_context(Connection(server.bootstrap)) for _ in range(GROUPS)]
        find_coordinator(connections[0])
        for number, connection in enumerate(connections):
            _loaded(connection, fetch(f"group {number}", None))
        _commit_three_times(connections, life, acked, sent)
        server.kill9()


def _commit_three_times(
    connections: Sequence[Connection], life: int, acked: dict[str, int], sent: dict[str, int]
) -> None:
    """The answers of the last time are not waited for."""
    for turn in range(3):
        for number, connection in enumerate(connections):
            sent[f"group {number}"] = value = life * 10 + turn
            wanted = {"orders": [offset(0, value, 1, f"note {value}"), offset(2, value)]}
            request = commit(f"group {number}", wanted)
            connection.send(encode(request))
        if turn == 2:
            return
        for number, connection in enumerate(connections):
            answer = connection.receive()
            assert answer is not None
            acked[f"group {number}"] = sent[f"group {number}"]
            assert codes(decode(OFFSET_COMMIT, 9, answer)) == [0, 0]


def _check(server: StandaloneProcess, acked: dict[str, int], sent: dict[str, int], stable: bool) -> None:
    with Connection(server.bootstrap) as connection:
        find_coordinator(connection)
        for group, value in acked.items():
            offsets = found(_loaded(connection, fetch(group, None, stable=stable)))
            got = offsets["orders", 0][0]
            assert got in {value, sent[group]}, (group, got)
            assert offsets == {("orders", 0): (got, 1, f"note {got}"), ("orders", 2): (got, -1, "")}


def _loaded(connection: Connection, request: Any) -> Any:
    """The answer once the group is loaded: clients are told to come again until then."""
    deadline = time.monotonic() + LOAD_SECONDS
    while (answer := connection.ask(request)).groups[0].error_code == LOADING:
        assert time.monotonic() < deadline, answer
        time.sleep(0.02)
    return answer


# ------------------------------------------------------------------------------- inside of a test's process


async def ask(client: RawClient, request: Any) -> Any:
    return await client.ask(request, RESPONSE_CLASSES[request.API_KEY])


async def find(client: RawClient) -> None:
    request = FindCoordinatorRequest(version=1, key="g", key_type=0)
    assert (await client.ask(request, FindCoordinatorResponse)).error_code == ErrorCode.NONE


def test_without_acknowledgement_frames_a_commit_times_out_and_shows_when_they_are_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "WRITE_TIMEOUT_SECONDS", 0.3)
    send, lost = Publisher.send, []
    losing = False

    def maybe_send(self: Publisher, frames: list[bytes]) -> None:
        if losing and bytes(frames[0][:1]) == b"K":
            lost.append(frames)
        else:
            send(self, frames)

    monkeypatch.setattr(Publisher, "send", maybe_send)

    async def main() -> None:
        nonlocal losing
        async with (
            running(tmp_path, monkeypatch, topics=TOPICS) as (_, port),
            await RawClient.connect(port) as client,
        ):
            await find(client)
            assert codes(await ask(client, commit("g", {"orders": [offset(0, 1)]}))) == [0]
            losing = True
            refused = await ask(client, commit("g", {"orders": [offset(0, 2), offset(1, 2)]}))
            assert codes(refused) == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
            assert lost, "no ACK crossed the link"
            assert found(await ask(client, fetch("g", None))) == {("orders", 0): (1, -1, "")}
            waited = await ask(client, fetch("g", None, stable=True))
            assert waited.groups[0].error_code == ErrorCode.NOT_COORDINATOR
            losing = False
            monkeypatch.setattr(group_commit, "WRITE_TIMEOUT_SECONDS", 20)
            stable = await ask(client, fetch("g", None, stable=True))
            assert found(stable) == {("orders", 0): (2, -1, ""), ("orders", 1): (2, -1, "")}

    trio.run(main)


def test_a_lost_partition_has_its_groups_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        monkeypatch.setattr("gateway.log.recovery.recovery.AGAIN_SECONDS", 0.01)
        async with (
            running(tmp_path, monkeypatch, topics=TOPICS) as (server, port),
            await RawClient.connect(port) as client,
        ):
            await find(client)
            assert codes(await ask(client, commit("g", {"orders": [offset(0, 1)]}))) == [0]
            store = server.directories.store.incarnation
            (address,) = server.store.ingest.heads()
            entries = (entry_of(b"S", address),)
            await server.requests.ask(store, lambda requester: Request(b"S", store, requester, entries))
            answer = await ask(client, commit("g", {"orders": [offset(1, 2)]}))
            assert codes(answer) == [ErrorCode.NOT_COORDINATOR]
            with trio.fail_after(10):
                while (code := codes(await ask(client, commit("g", {"orders": [offset(2, 3)]})))[0]) != 0:
                    assert code in {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
                    await trio.sleep(0.02)
            offsets = found(await ask(client, fetch("g", None)))
            assert {("orders", 0): (1, -1, ""), ("orders", 2): (3, -1, "")}.items() <= offsets.items()

    trio.run(main)


def test_an_idle_gateway_has_no_offsets_topic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with (
            running(tmp_path, monkeypatch, topics=TOPICS) as (server, port),
            await RawClient.connect(port) as client,
        ):
            refused = await ask(client, commit("g", {"orders": [offset(0, 1)]}))
            assert codes(refused) == [ErrorCode.NOT_COORDINATOR]
            assert server.catalog.get("/topics/" + OFFSETS_TOPIC) is None
            await find(client)
            assert server.catalog.get("/topics/" + OFFSETS_TOPIC) is not None
            assert server.catalog.range("/segments/") == []

    trio.run(main)


def test_offsets_whose_time_is_over_go_and_so_does_their_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "CHECK_SECONDS", 0.02)

    async def main() -> None:
        async with (
            running(tmp_path, monkeypatch, topics=TOPICS) as (server, port),
            await RawClient.connect(port) as client,
        ):
            await find(client)
            assert await groups_of(client) == []  # all partitions are loaded
            wanted = {"orders": [offset(0, 1)]}
            assert codes(await ask(client, commit("kept", wanted))) == [0]
            assert codes(await ask(client, commit("over", wanted, version=4, retention_ms=0))) == [0]
            for _ in range(1000):
                if await groups_of(client) == ["kept"]:
                    break
                await trio.sleep(0.02)
            assert found(await ask(client, fetch("over", None))) == {}
        await server.catalog.aclose()
        # The next life reads tombstones where there were offsets.
        async with (
            running(tmp_path, monkeypatch) as (_, port),
            await RawClient.connect(port) as client,
        ):
            await find(client)
            assert await until_loaded(client, "over") == {}
            assert await until_loaded(client, "kept") == {("orders", 0): (1, -1, "")}
            assert await groups_of(client) == ["kept"]

    trio.run(main)


COMPACTED = [f"group {number}" for number in range(4)]


async def commit_again_and_again(client: RawClient) -> None:
    for group in COMPACTED:
        for number in range(11):
            wanted = {"orders": [offset(0, number), offset(2, number)]}
            assert codes(await ask(client, commit(group, wanted))) == [0, 0]
        assert (await ask(client, delete(group, {"orders": [2]}))).error_code == 0


async def compact(broker: Broker) -> None:
    """Everything that lies in closed segments."""
    for _ in range(1000):
        if not broker.context.catalog.range(keys.CLOSING):
            break
        await trio.sleep(0.01)
    while await broker.compaction.compact_one():
        pass


def test_what_compaction_leaves_is_what_was_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three lives: commits, compaction and more commits, and reading all of it back."""
    brokers: list[Broker] = []
    monkeypatch.setattr(Standalone, "_register_metrics", lambda _self, broker: brokers.append(broker))

    async def life(then: Callable[[RawClient], Awaitable[None]]) -> None:
        async with (
            running(tmp_path, monkeypatch, topics=TOPICS) as (server, port),
            await RawClient.connect(port) as client,
        ):
            await find(client)
            for group in COMPACTED:
                await until_loaded(client, group)
            await then(client)
        await server.catalog.aclose()

    async def compact_and_commit(client: RawClient) -> None:
        await compact(brokers[-1])
        # Left are of each group one offset, and one tombstone, which stays for a day.
        assert brokers[-1].compaction.records_removed == len(COMPACTED) * (2 * 11 + 1 - 2)
        for group in COMPACTED:
            assert codes(await ask(client, commit(group, {"orders": [offset(1, 1, 2, "x")]}))) == [0]

    async def check(client: RawClient) -> None:
        for group in COMPACTED:
            committed = found(await ask(client, fetch(group, None)))
            assert committed == {("orders", 0): (10, -1, ""), ("orders", 1): (1, 2, "x")}

    for then in (commit_again_and_again, compact_and_commit, check):
        trio.run(life, then)


async def groups_of(client: RawClient) -> list[str]:
    """All groups, once they are served."""
    for _ in range(1000):
        answer = await ask(client, ListGroupsRequest(version=3))
        if answer.error_code != LOADING:
            return sorted(group.group_id for group in answer.groups)
        await trio.sleep(0.02)
    raise AssertionError("the groups are never loaded")


async def until_loaded(client: RawClient, group: str) -> dict[tuple[str, int], tuple[int, int, str]]:
    """What the group has committed, once it is served."""
    for _ in range(1000):
        answer = await ask(client, fetch(group, None))
        if answer.groups[0].error_code != LOADING:
            return found(answer)
        await trio.sleep(0.02)
    raise AssertionError(f"{group} is never loaded")


def test_a_majority_of_the_stores_is_enough_to_commit_and_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with cluster(tmp_path, monkeypatch) as made:
            async with made.gateway(monkeypatch, topics=TOPICS) as (gateway, client):
                await find(client)
                assert await commit_until_taken(client, 1) == 1
                await made.stop(0)
                await gateway.until_live(1, 2)
                assert await commit_until_taken(client, 2) == 2
                await made.stop(1)
                await gateway.until_live(2)
                refused = await ask(client, commit("g", {"orders": [offset(0, 3)]}))
                assert codes(refused) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
                assert found(await ask(client, fetch("g", None))) == {("orders", 0): (2, -1, "")}
                await made.start(0)
                await gateway.until_live(0, 2)
                assert await commit_until_taken(client, 4) == 4
            async with made.gateway(monkeypatch) as (gateway, client):
                await find(client)
                assert await until_loaded(client, "g") == {("orders", 0): (4, -1, "")}

    trio.run(main)


async def commit_until_taken(client: RawClient, number: int) -> int:
    """As a client that tries again; what is committed then."""
    retriable = {LOADING, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
    with trio.fail_after(30):
        while (code := codes(await ask(client, commit("g", {"orders": [offset(0, number)]})))[0]) != 0:
            assert code in retriable
            await trio.sleep(0.02)
    return (await until_loaded(client, "g"))["orders", 0][0]
