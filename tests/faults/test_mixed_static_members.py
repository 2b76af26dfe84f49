"""Static members of three clients, and a dynamic one: restarted, replaced, over a SIGKILL (KIP-345)."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from mixed_groups.checker import check
from mixed_groups.events import Assigned, Events, Failed, Revoked
from mixed_groups.members import MemberProcess, Membership, Program, programs
from mixed_groups.observer import Observer

from tests.clients.stored import create_topic
from tests.peers.standalone import Standalone

PARTITIONS = 8
SECONDS = 60.0
# Longer than all that is done here: nobody is given up.
SESSION_MS = 120_000
STATIC = ("franz_go", "java_clients_4_3", "python_confluent")
# Its version 2 knows no static members.
DYNAMIC = "python_kafka_2"


class Scene:
    """A server, a group, and who is in it."""

    def __init__(self, server: Standalone, found: dict[str, Program], directory: Path) -> None:
        self.events = Events()
        self.server = server
        self._membership = Membership(server.bootstrap, "static", "static-group", SESSION_MS, SESSION_MS)
        self._programs, self._directory = found, directory
        self._numbers = itertools.count(1)
        self._members: list[MemberProcess] = []
        self.observer = Observer(self._membership, PARTITIONS, self.events)

    def start(self, client: str) -> MemberProcess:
        instance = client if client in STATIC else ""
        member = MemberProcess(
            self._programs[client], f"{client}-{next(self._numbers)}", self._membership, ("range",),
            self.events, self._directory, instance,
        )  # fmt: skip
        self._members.append(member)
        return member

    def close(self) -> None:
        self.observer.stop()
        for member in self._members:
            member.kill()

    def owned(self, member: MemberProcess) -> Assigned | None:
        """What it was assigned last."""
        said = [one for one in self.events if isinstance(one, Assigned) and one.process == member.name]
        return said[-1] if said else None

    def until(self, true: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + SECONDS
        while not true():
            assert time.monotonic() < deadline, f"waited for {what}: {list(self.events)[-30:]}"
            time.sleep(0.05)

    def takes_over(self, before: MemberProcess, after: MemberProcess) -> None:
        """The place of the one before, in its generation."""
        self.until(lambda: self.owned(after) is not None, f"{after.name} to be assigned something")
        old, new = self.owned(before), self.owned(after)
        assert old is not None
        assert new is not None
        assert (new.generation, new.partitions) == (old.generation, old.partitions)
        assert new.member != old.member

    def said_by_others(self, *but: MemberProcess) -> list[Assigned | Revoked]:
        names = {member.name for member in but}
        said = (one for one in self.events if isinstance(one, Assigned | Revoked))
        return [one for one in said if one.process not in names]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    quick = ("--group-initial-rebalance-delay-ms", "0")
    with Standalone(None, *quick, directory=tmp_path / "server") as server:
        create_topic(server.bootstrap, "static", PARTITIONS)
        made = Scene(server, programs([*STATIC, DYNAMIC]), tmp_path)
        yield made
        made.close()
        made.events.save(tmp_path / "events.jsonl")


def settled(scene: Scene, members: list[MemberProcess]) -> bool:
    """All have something in the same generation, all partitions together."""
    owned = [one for one in map(scene.owned, members) if one is not None]
    partitions = sorted(partition for one in owned for partition in one.partitions)
    generations = {one.generation for one in owned}
    return len(owned) == len(members) and len(generations) == 1 and partitions == list(range(PARTITIONS))


@pytest.mark.slow
@pytest.mark.long
def test_static_members_are_restarted_and_replaced_without_a_rebalance(scene: Scene) -> None:
    members = {client: scene.start(client) for client in (*STATIC, DYNAMIC)}
    scene.until(lambda: settled(scene, list(members.values())), "everybody to share the partitions")
    for client in STATIC:
        killed = members[client]
        others = scene.said_by_others(killed)
        killed.kill()
        members[client] = scene.start(client)
        scene.takes_over(killed, members[client])
        assert scene.said_by_others(killed, members[client]) == others
    for client in STATIC:
        first = members[client]
        others = scene.said_by_others(first)
        members[client] = scene.start(client)
        scene.takes_over(first, members[client])
        scene.until(partial(fenced, scene, first.name), f"{first.name} to learn that it is fenced")
        assert scene.said_by_others(first, members[client]) == others
        first.kill()
    killed = members[STATIC[-1]]
    killed.kill()
    scene.server.restart()
    members[STATIC[-1]] = scene.start(STATIC[-1])
    scene.takes_over(killed, members[STATIC[-1]])
    end = scene.observer.end_of_log()
    scene.until(lambda: scene.observer.position >= end, "the log to be read")
    assert check(scene.events, []) == []


def fenced(scene: Scene, name: str) -> bool:
    return any(
        isinstance(one, Failed) and one.process == name and "fenced" in one.error.lower()
        for one in scene.events
    )
