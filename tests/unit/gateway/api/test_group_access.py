"""What the group APIs need their client to be allowed, in each of their versions, and what is left of an
answer for those who are allowed a part."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from trio.testing import wait_all_tasks_blocked

from gateway.security.access import UNRESTRICTED, Access, Question
from gateway.security.acls import CLUSTER_NAME, Operation, ResourceType
from gateway.security.principal import USER, Principal
from tests.differential.groups import describe, heartbeat, join, leave, sync
from tests.unit.gateway.api.asking import FakeBroker, allowed, ask_async, request_class
from tests.unit.gateway.api.needs import Need, Refused, Scene, check_needs, of_one, only, versions, whole
from tests.unit.gateway.groups.group_home import Home, run
from wireproto.kafka.errors import ErrorCode

Find, List, Delete = (request_class(key) for key in (10, 16, 42))
GROUP, CLUSTER = ResourceType.GROUP, ResourceType.CLUSTER
REFUSED = ErrorCode.GROUP_AUTHORIZATION_FAILED

READ: Question = (Operation.READ, GROUP, "g")
DESCRIBE: Question = (Operation.DESCRIBE, GROUP, "g")
DELETE: Question = (Operation.DELETE, GROUP, "g")


@asynccontextmanager
async def stable_group() -> AsyncIterator[Scene]:
    """The groups "g" and "h", each with the member "m1" in generation 1."""
    home = Home()
    broker = FakeBroker()
    broker.groups = home.coordinator  # type: ignore[assignment]
    async with home.running():
        await home.stable("g")
        await home.stable("h")

        def observe() -> object:
            members = {
                name: sorted(one.machine.roster.by_id) for name, one in home.coordinator.groups.items()
            }
            return members, list(home.journal.written), list(home.journal.deleted)

        yield Scene(broker, observe)


@asynccontextmanager
async def empty_group() -> AsyncIterator[Scene]:
    """As `stable_group`, whose members have left."""
    async with stable_group() as scene:
        for name in ("g", "h"):
            await ask_async(scene.broker, leave(name, ("m1", None)))
        await wait_all_tasks_blocked()
        yield scene


def _find(version: int, *keys: str, key_type: int = 0) -> Any:
    if version >= 4:
        return Find(version=version, coordinator_keys=list(keys), key_type=key_type)
    return Find(version=version, key=keys[0], key_type=key_type)


def _delete(version: int, *groups: str) -> Any:
    return Delete(version=version, groups_names=list(groups))


NOBODY = {"node_id": -1, "host": "", "port": -1}
NO_GROUP: dict[str, Any] = {
    "error_message": None, "group_id": "g", "group_state": "", "protocol_type": "", "protocol_data": "",
    "members": [], "authorized_operations": None,
}  # fmt: skip


def _join_refused(version: int) -> Refused:
    return whole(
        11, generation_id=-1, protocol_type=None, protocol_name="" if version < 7 else None, leader="",
        skip_assignment=False, member_id="", members=[],
    )  # fmt: skip


def _find_refused(version: int, key: str) -> Refused:
    if version < 4:
        return lambda error: whole(10, error_message=error.message, **NOBODY)(error)
    return of_one(10, "coordinators", "Coordinator", key=key, error_message="", **NOBODY)


CASES: dict[str, tuple[int, Question, Callable[[int], Any], Callable[[int], Refused]]] = {
    "JoinGroup": (11, READ, lambda v: join("g", "m1", version=v), _join_refused),
    "SyncGroup": (
        14, READ, lambda v: sync("g", "m1", 1, version=v),
        lambda _: whole(14, protocol_type=None, protocol_name=None, assignment=b""),
    ),
    "Heartbeat": (12, READ, lambda v: heartbeat("g", "m1", 1, version=v), lambda _: whole(12)),
    "LeaveGroup": (13, READ, lambda v: leave("g", ("m1", None), version=v), lambda _: whole(13, members=[])),
    "FindCoordinator": (10, DESCRIBE, lambda v: _find(v, "g"), lambda v: _find_refused(v, "g")),
    "DescribeGroups": (
        15, DESCRIBE, lambda v: describe("g", version=v),
        lambda _: of_one(15, "groups", "DescribedGroup", **NO_GROUP),
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "version"), [(name, version) for name, case in CASES.items() for version in versions(case[0])]
)
def test_an_answer_takes_one_right(name: str, version: int) -> None:
    _, needed, request, refused = CASES[name]

    async def main() -> None:
        await check_needs(stable_group, request(version), [Need(REFUSED, (needed,), refused(version))])

    run(main)


@pytest.mark.parametrize("version", versions(42))
def test_a_group_is_deleted_by_who_may_delete_it(version: int) -> None:
    refused = of_one(42, "results", "DeletableGroupResult", group_id="g")

    async def main() -> None:
        await check_needs(empty_group, _delete(version, "g"), [Need(REFUSED, (DELETE,), refused)])

    run(main)


@pytest.mark.parametrize("version", range(1, 7))
def test_a_transactional_id_is_found_by_who_may_describe_it(version: int) -> None:
    need = Need(
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ((Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, "t"),),
        _find_refused(version, "t"),
    )

    @asynccontextmanager
    async def scene() -> AsyncIterator[Scene]:
        broker = FakeBroker()
        yield Scene(broker, lambda: list(broker.transactions.found))

    async def main() -> None:
        await check_needs(scene, _find(version, "t", key_type=1), [need])

    run(main)


def _asked(request: Any, access: Access, scene: Any = stable_group) -> dict[str, Any]:
    answers: list[dict[str, Any]] = []

    async def main() -> None:
        async with scene() as made:
            made.broker.access = access
            answers.append((await ask_async(made.broker, request)).to_dict(json=False))

    run(main)
    return answers[0]


def test_sync_group_looks_for_the_protocol_first() -> None:
    answer = _asked(sync("g", "m1", 1, protocol=None), allowed())
    assert answer["error_code"] == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize(("version", "expected"), [(2, 42), (3, 42), (4, 42), (5, 42), (6, 31)])
def test_share_groups_are_looked_for_by_gateways_alone(version: int, expected: int) -> None:
    request = _find(version, "g:AAAAAAAAAAAAAAAAAAAAAQ:0", "other", key_type=2)

    def errors(access: Access) -> list[int]:
        answer = _asked(request, access)
        return [one["error_code"] for one in answer.get("coordinators", [answer])]

    assert set(errors(allowed())) == {expected}
    assert set(errors(allowed((Operation.CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)))) == {42}
    denied: list[Question] = []
    _asked(request, only([], denied))
    assert denied == [(Operation.CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)] * (expected == 31)


@pytest.mark.parametrize("version", [4, 5, 6])
def test_each_key_is_found_by_itself_and_only_what_is_allowed_costs_anything(version: int) -> None:
    broker = FakeBroker()
    broker.access = allowed(DESCRIBE)

    async def main() -> None:
        answer = await ask_async(broker, _find(version, "x", "g", "y", "g"))
        assert [(one.key, one.error_code, one.node_id) for one in answer.coordinators] == [
            ("x", REFUSED, -1), ("g", 0, 1), ("y", REFUSED, -1), ("g", 0, 1),
        ]  # fmt: skip

    run(main)
    assert broker.groups.found == ["g"]


@pytest.mark.parametrize("version", versions(15))
def test_groups_that_are_hidden_come_first(version: int) -> None:
    answer = _asked(describe("h", "g", "nothing", version=version), allowed(DESCRIBE))
    assert [(one["group_id"], one["error_code"], one["group_state"]) for one in answer["groups"]] == [
        ("h", REFUSED, ""), ("nothing", REFUSED, ""), ("g", 0, "Stable"),
    ]  # fmt: skip


HIDDEN = None


@pytest.mark.parametrize("version", range(3, 7))
@pytest.mark.parametrize(
    ("access", "expected"),
    [
        (UNRESTRICTED, {"g": {3, 6, 8, 10, 11}, "nothing": {3, 6, 8, 10, 11}}),
        (allowed(READ, DELETE), {"g": {3, 6, 8}, "nothing": HIDDEN}),
        (allowed(DESCRIBE), {"g": {8}, "nothing": HIDDEN}),
        (allowed((Operation.ALTER_CONFIGS, GROUP, "g")), {"g": HIDDEN, "nothing": HIDDEN}),
        (allowed(DESCRIBE, (Operation.ALTER_CONFIGS, GROUP, "g")), {"g": {8, 10, 11}, "nothing": HIDDEN}),
    ],
)
def test_what_may_be_done_with_groups_that_have_no_error(
    version: int, access: Access, expected: dict[str, set[int] | None]
) -> None:
    answer = _asked(describe("g", "nothing", version=version, operations=True), access)
    if version >= 6:
        expected = expected | {"nothing": HIDDEN}  # GROUP_ID_NOT_FOUND
    assert {one["group_id"]: one["authorized_operations"] for one in answer["groups"]} == expected


@pytest.mark.parametrize("version", versions(42))
def test_groups_that_may_not_be_deleted_come_last(version: int) -> None:
    answer = _asked(_delete(version, "h", "g", "h", "nothing"), allowed(DELETE), empty_group)
    assert [(one["group_id"], one["error_code"]) for one in answer["results"]] == [
        ("g", 0), ("h", REFUSED), ("nothing", REFUSED),
    ]  # fmt: skip


@pytest.mark.parametrize("version", versions(16))
@pytest.mark.parametrize(
    ("allowances", "expected"),
    [
        ([(Operation.DESCRIBE, CLUSTER, CLUSTER_NAME)], {"g", "h"}),
        ([DESCRIBE], {"g"}),
        ([READ], {"g"}),
        ([DESCRIBE, (Operation.DELETE, GROUP, "h")], {"g", "h"}),
        ([(Operation.ALTER_CONFIGS, GROUP, "g")], set()),
        ([], set()),
    ],
)
def test_groups_that_are_hidden_are_left_out_of_the_list(
    version: int, allowances: list[Question], expected: set[str]
) -> None:
    denied: list[Question] = []
    answer = _asked(List(version=version), only(allowances, denied))
    assert answer["error_code"] == 0
    assert {one["group_id"] for one in answer["groups"]} == expected
    assert denied == []


# static members ---------------------------------------------------------------------------------------------

BOB = Principal(USER, "bob")


@asynccontextmanager
async def static_member() -> AsyncIterator[tuple[Scene, str]]:
    """ALICE has the only member of "g", the instance "i"; and its member id."""
    home = Home()
    broker = FakeBroker()
    broker.groups = home.coordinator  # type: ignore[assignment]
    broker.access = only([READ], [])
    async with home.running():
        member = (await ask_async(broker, join("g", instance="i"))).member_id
        assert (await ask_async(broker, sync("g", member, 1, {member: b"all"}, instance="i"))).error_code == 0
        yield Scene(broker), member


ACTS: dict[str, tuple[range, Callable[[int, str], Any]]] = {
    "joins in its place": (range(5, 10), lambda v, _: join("g", version=v, instance="i")),
    "joins as it": (range(5, 10), lambda v, m: join("g", m, version=v, instance="i")),
    "joins by its id": (range(10), lambda v, m: join("g", m, version=v)),
    "syncs as it": (range(3, 6), lambda v, m: sync("g", m, 1, version=v, instance="i")),
    "syncs by its id": (range(6), lambda v, m: sync("g", m, 1, version=v)),
    "beats as it": (range(3, 5), lambda v, m: heartbeat("g", m, 1, version=v, instance="i")),
    "beats by its id": (range(5), lambda v, m: heartbeat("g", m, 1, version=v)),
    "removes it": (range(3, 6), lambda v, _: leave("g", ("", "i"), version=v)),
    "leaves as it": (range(3, 6), lambda v, m: leave("g", (m, "i"), version=v)),
    "leaves by its id": (range(6), lambda v, m: leave("g", (m, None), version=v)),
}


def _error_of(answer: Any) -> int:
    """That of the member that leaves, or of the answer."""
    members: list[Any] = getattr(answer, "members", [])
    code: int = getattr(members[0], "error_code", answer.error_code) if members else answer.error_code
    return code


@pytest.mark.parametrize(
    ("act", "version"), [(act, version) for act, (some, _) in ACTS.items() for version in some]
)
def test_a_static_member_is_its_principals_alone(act: str, version: int) -> None:
    async def main() -> None:
        async with static_member() as (scene, member):
            alice, bob = scene.broker.access, only([READ], [], BOB)
            request = ACTS[act][1](version, member)
            for access, expected in ((bob, ErrorCode.FENCED_INSTANCE_ID), (alice, ErrorCode.NONE)):
                scene.broker.access = access
                answer = await ask_async(scene.broker, request)
                assert _error_of(answer) == expected

    run(main)


@pytest.mark.parametrize("version", range(3, 6))
@pytest.mark.parametrize("access", [only([READ, DELETE], [], BOB), UNRESTRICTED], ids=["acls", "none"])
def test_who_may_delete_the_group_removes_static_members_of_others(version: int, access: Access) -> None:
    async def main() -> None:
        async with static_member() as (scene, _):
            scene.broker.access = access
            answer = await ask_async(scene.broker, leave("g", ("", "i"), version=version))
            assert [(one.group_instance_id, one.error_code) for one in answer.members] == [("i", 0)]

    run(main)
