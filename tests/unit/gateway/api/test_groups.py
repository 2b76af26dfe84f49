"""The group APIs on the wire, over a real coordinator: every version, what is bounded, what waits."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from gateway.api import describe_groups
from gateway.api.join_group import MAX_PROTOCOLS, MAX_REBALANCE_TIMEOUT_MS, client_host
from gateway.common.budget import Budget
from gateway.common.handlers import LARGE_ANSWER_BYTES, Request
from gateway.common.work import BREATH
from tests.differential.groups import describe, heartbeat, join, leave, sync
from tests.unit.gateway.api.asking import (
    ADDRESS,
    REGISTRY,
    FakeBroker,
    ask_async,
    encode_request,
    request_class,
)
from tests.unit.gateway.groups.group_home import Home, run
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.headers import parse_request_header
from wireproto.kafka.primitives import MAX_STRING_BYTES
from wireproto.kafka.schemas import RESPONSE_CLASSES

NONE, INVALID_GROUP_ID, UNKNOWN_MEMBER, MEMBER_ID_REQUIRED = 0, 24, 25, 79
INCONSISTENT, GROUP_FULL, POLICY_VIOLATION, NOT_FOUND, LOADING = 23, 81, 44, 69, 14

List, Delete = request_class(16), request_class(42)


Ask = Callable[[Any], Awaitable[Any]]


def with_groups(body: Callable[[Home, Ask], Awaitable[None]]) -> None:
    """Runs `body` with a coordinator and a function that asks it."""

    async def main() -> None:
        home = Home()
        broker = FakeBroker()
        broker.groups = home.coordinator  # type: ignore[assignment]

        async def ask(request: Any) -> Any:
            return await ask_async(broker, request)

        async with home.running():
            await body(home, ask)

    run(main)


@pytest.mark.parametrize("version", range(10))
def test_a_member_of_every_version(version: int) -> None:
    async def body(home: Home, ask: Ask) -> None:
        joined = await ask(join("g", version=version))
        if version >= 4:
            assert joined.error_code == MEMBER_ID_REQUIRED
            joined = await ask(join("g", joined.member_id, version=version))
        me = joined.member_id
        assert (joined.error_code, joined.generation_id, joined.leader) == (NONE, 1, me)
        assert joined.protocol_name == "range"
        assert [(one.member_id, len(one.metadata)) for one in joined.members] == [(me, 10)]
        assert me.startswith("test-")
        # Up to v0 there is no rebalance timeout of its own.
        assert home.group().machine.roster.by_id[me].rebalance_timeout_ms == 30_000
        synced = await ask(sync("g", me, 1, {me: b"all"}, version=min(version, 5)))
        assert (synced.error_code, synced.assignment) == (NONE, b"all")
        assert (await ask(heartbeat("g", me, 1, version=min(version, 4)))).error_code == NONE
        left = await ask(leave("g", (me, None), version=min(version, 5)))
        assert left.error_code == NONE
        assert [one.error_code for one in left.members] == ([NONE] if version >= 3 else [])

    with_groups(body)


def test_no_member_is_waited_for_for_more_than_a_day() -> None:
    async def body(home: Home, ask: Ask) -> None:
        request = join("g", version=3)
        request.rebalance_timeout_ms = 2**31 - 1
        joined = await ask(request)
        member = home.group().machine.roster.by_id[joined.member_id]
        assert member.rebalance_timeout_ms == MAX_REBALANCE_TIMEOUT_MS == 86_400_000

    with_groups(body)


def test_who_waits_for_a_rebalance_holds_up_nobody_and_keeps_no_memory() -> None:
    async def body(home: Home, ask: Ask) -> None:
        await home.stable()
        released: list[int] = []
        frame = encode_request(join("g", version=3))
        header = parse_request_header(frame)
        api = REGISTRY.lookup(header.api_key)
        assert api is not None
        assert api.handler is not None
        request = Request(
            header, api.decoder(3, frame, header.body_offset), frame, ADDRESS, "127.0.0.1:1", trio.Event()
        )
        request.let_go = lambda let_go: released.append(len(let_go.frame))
        broker = FakeBroker()
        broker.groups = home.coordinator  # type: ignore[assignment]
        answers: list[Any] = []

        async def newcomer() -> None:
            assert api is not None
            assert api.handler is not None
            answers.append(await api.handler(request, broker))

        home.nursery.start_soon(newcomer)
        await wait_all_tasks_blocked()
        assert released == [len(frame)]
        assert not answers
        assert (await ask(heartbeat("g", "m1", 1))).error_code == 27
        assert (await ask(join("g", "m1", version=3))).generation_id == 2
        await wait_all_tasks_blocked()
        assert len(answers) == 1

    with_groups(body)


def test_many_deletions_that_cannot_be_written_end_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def late(_group_id: str, _offsets: object) -> None:
        await trio.sleep(5)
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    async def body(home: Home, ask: Ask) -> None:
        monkeypatch.setattr(home.journal, "delete_group", late)
        names = [f"group {number}" for number in range(1000)]
        for name in names:
            home.coordinator.for_commit(name, "", None, -1).recorded = True
        before = trio.current_time()
        answer = await ask(Delete(version=2, groups_names=names))
        assert trio.current_time() - before <= 30
        assert {(one.group_id, one.error_code) for one in answer.results} == {(name, 15) for name in names}
        assert len(home.coordinator.loaded()) == 1000

    with_groups(body)


@pytest.mark.parametrize(("who", "kept"), [("m1", True), ("m2", False)])
def test_assignments_that_only_a_leader_may_give_keep_no_memory_of_others(who: str, kept: bool) -> None:
    """A follower's SyncGroup waits as long as the leader likes."""

    async def body(home: Home, ask: Ask) -> None:
        await home.stable()
        home.join(new_member_id="m2")
        assert (await home.join(member_id="m1").joined()).generation == 2
        home.journal.go = trio.Event()
        released: list[int] = []
        frame = encode_request(sync("g", who, 2, {"m1": b"x" * 10_000, "m2": b"mine"}))
        header = parse_request_header(frame)
        api = REGISTRY.lookup(header.api_key)
        assert api is not None
        handler = api.handler
        assert handler is not None
        request = Request(
            header,
            api.decoder(header.api_version, frame, header.body_offset),
            frame,
            ADDRESS,
            "127.0.0.1:1",
            trio.Event(),
        )
        request.let_go = lambda let_go: released.append(len(let_go.frame))
        broker = FakeBroker()
        broker.groups = home.coordinator  # type: ignore[assignment]
        answers: list[Any] = []

        async def ask_and_wait() -> None:
            answers.append(await handler(request, broker))

        home.nursery.start_soon(ask_and_wait)
        await wait_all_tasks_blocked()
        assert released == ([] if kept else [len(frame)])
        assert (request.body is None, answers) == (not kept, [])
        home.journal.go.set()
        if not kept:
            home.sync("m1", 2, m1=b"all", m2=b"some")
        await wait_all_tasks_blocked()
        assert len(answers) == 1
        assigned = home.group().machine.roster.by_id["m2"].assignment
        assert assigned == (b"mine" if kept else b"some")

    with_groups(body)


def test_a_member_names_so_many_protocols_and_no_more() -> None:
    async def body(home: Home, ask: Ask) -> None:
        names = [(f"p{number}", b"") for number in range(MAX_PROTOCOLS + 1)]
        assert (await ask(join("g", version=3, protocols=names))).error_code == POLICY_VIOLATION
        assert home.coordinator.loaded() == []
        assert (await ask(join("g", version=3, protocols=names[1:]))).error_code == NONE

    with_groups(body)


@pytest.mark.parametrize("version", [3, 9])
def test_a_client_whose_member_id_no_answer_could_name_is_refused(version: int) -> None:
    """It would be in the leader's answer, which then could not be made, or not be read."""

    async def body(home: Home, _ask: Ask) -> None:
        broker = FakeBroker()
        broker.groups = home.coordinator  # type: ignore[assignment]

        async def error_of(client_id: str) -> int:
            api = REGISTRY.lookup(11)
            assert api is not None
            assert api.handler is not None
            asked = join("g", version=version)
            asked.with_header(correlation_id=1, client_id=client_id)
            frame = memoryview(bytes(asked.encode(header=True)))
            header = parse_request_header(frame)
            decoded = api.decoder(version, frame, header.body_offset)
            framed = await api.handler(
                Request(header, decoded, frame, ADDRESS, "127.0.0.1:1", trio.Event()), broker
            )
            answer = RESPONSE_CLASSES[11].decode(framed, version=version, header=True, framed=True)
            return int(answer.error_code)

        longest = MAX_STRING_BYTES - len("-") - len(str(uuid.uuid4()))
        assert await error_of("\u00e9" * (longest // 2) + "cc") == ErrorCode.UNKNOWN_SERVER_ERROR
        assert home.coordinator.loaded() == []
        assert await error_of("c" * longest) == (MEMBER_ID_REQUIRED if version == 9 else NONE)

    with_groups(body)


def test_large_answers_take_from_the_memory_of_large_answers() -> None:
    """The leader's JoinGroup has what all members sent; hostile ones would have it made again and again."""

    async def body(home: Home, _ask: Ask) -> None:
        broker = FakeBroker()
        broker.groups = home.coordinator  # type: ignore[assignment]
        size = LARGE_ANSWER_BYTES + 1
        for asked in (join("g", version=3, protocols=[("range", bytes(size))]), describe("g")):
            frame = encode_request(asked)
            header = parse_request_header(frame)
            api = REGISTRY.lookup(header.api_key)
            assert api is not None
            assert api.handler is not None
            decoded = api.decoder(header.api_version, frame, header.body_offset)
            memory = Budget(10 * size)
            request = Request(header, decoded, frame, ADDRESS, "127.0.0.1:1", trio.Event(), memory)
            await api.handler(request, broker)
            assert memory.used == request.reserved >= size

    with_groups(body)


def test_one_answer_describes_so_much_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describe_groups, "MAX_DESCRIBED_BYTES", 10_000)

    async def body(home: Home, ask: Ask) -> None:
        await home.stable()
        groups = (await ask(describe(*["g"] * 10))).groups
        codes = [group.error_code for group in groups]
        described = 10_000 // home.group().machine.size + 1
        assert codes == [NONE] * described + [POLICY_VIOLATION] * (10 - described)
        assert groups[-1].error_message
        assert (await ask(describe(*["none"] * 100, version=5))).groups[99].group_state == "Dead"

    with_groups(body)


def test_more_members_than_one_breath_leave_at_once() -> None:
    async def body(home: Home, ask: Ask) -> None:
        count = 2 * BREATH + 3
        members = [(await ask(join("g", version=4))).member_id for _ in range(count)]
        left = await ask(leave("g", *((member, None) for member in members), ("stranger", None)))
        assert [one.error_code for one in left.members] == [NONE] * count + [UNKNOWN_MEMBER]
        assert not home.group().machine.pending

    with_groups(body)


@pytest.mark.parametrize("version", range(6))
def test_without_its_partition_a_group_is_loading(version: int) -> None:
    async def body(home: Home, ask: Ask) -> None:
        home.journal.may_load = trio.Event()
        home.coordinator._lost(0)
        home.coordinator._lost(home.coordinator._partition_of("g"))
        assert (await ask(join("g", version=version))).error_code == LOADING
        assert (await ask(sync("g", "m", 1, version=version))).error_code == LOADING
        assert (await ask(leave("g", ("m", None), version=version))).error_code == LOADING
        assert (await ask(heartbeat("g", "m", 1))).error_code == NONE
        assert (await ask(describe("g", version=version))).groups[0].error_code == LOADING
        fields: dict[str, Any] = {"states_filter": []} if version >= 4 else {}
        fields |= {"types_filter": []} if version >= 5 else {}
        assert (await ask(List(version=version, **fields))).error_code == LOADING
        deleted = await ask(Delete(version=min(version, 2), groups_names=["g"]))
        assert [(one.group_id, one.error_code) for one in deleted.results] == [("g", LOADING)]

    with_groups(body)


def test_many_groups_are_deleted_together() -> None:
    async def body(home: Home, ask: Ask) -> None:
        names = [f"g{number}" for number in range(150)]
        for name in names:
            await home.stable(name)
            if name != "g7":
                home.leave("m1", name)
        await wait_all_tasks_blocked()
        deleted = await ask(Delete(version=2, groups_names=[*names, "unknown", "g1"]))
        codes = {one.group_id: one.error_code for one in deleted.results}
        assert codes == dict.fromkeys(names, NONE) | {"g7": 68, "unknown": NOT_FOUND}
        assert [group.group_id for group in home.coordinator.loaded()] == ["g7"]
        assert len(home.journal.deleted) == 149

    with_groups(body)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("10.1.2.3:4711", "/10.1.2.3"),
        ("[::1]:4711", "/0:0:0:0:0:0:0:1"),
        ("[fe80::12:ab%eth0]:1", "/fe80:0:0:0:0:0:12:ab%eth0"),
        ("[::ffff:10.1.2.3]:1", "/10.1.2.3"),
        ("client", "/"),
    ],
)
def test_where_a_client_is_is_written_as_java_does(address: str, expected: str) -> None:
    frame = encode_request(heartbeat("g", "m", 1))
    request = Request(parse_request_header(frame), None, frame, ADDRESS, address, trio.Event())
    assert client_host(request) == expected
