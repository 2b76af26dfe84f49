"""Members that come, go, die and come back in any order: the promises of a group hold all the same.

* No partition belongs to two members in one generation, also over crashes of the gateway.
* A commit is taken from who was given its partitions last, and from nobody after others were.
* Every request is answered once, with one assignment in a generation.
* Left alone, a group settles: everybody who lives has its part of the partitions, nobody else is in it.
"""

from __future__ import annotations

from collections.abc import Iterable

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gateway.groups.events import JoinReply, SyncReply
from gateway.groups.group import GroupMachine
from gateway.groups.group_state import GroupState
from gateway.groups.metadata import GroupMetadata
from tests.unit.gateway.groups.members import START, Ask, Machine
from wireproto.kafka.errors import ErrorCode, KafkaError

PARTITIONS = 5
MAX_SIZE = 4


class Client:
    """A client as `AbstractCoordinator`: it does what it is told, and joins again after most errors."""

    def __init__(self, world: World, instance: str | None, version: int, protocols: tuple[str, ...]) -> None:
        self.world = world
        self.instance = instance
        self.version = version
        self.protocols = protocols
        self.member_id = ""
        self.generation = -1
        self.owned: frozenset[int] | None = None
        self.waits: Ask | None = None
        self.lives = True
        self.join()

    @property
    def name(self) -> str:
        return self.instance or self.member_id

    def join(self) -> None:
        self.owned = None
        protocols = [(name, name.encode()) for name in self.protocols]
        self.waits = self.world.group.join(
            self.member_id, instance=self.instance, version=self.version, protocols=protocols
        )

    def step(self) -> None:
        """Take the answer that it waits for, or send a heartbeat."""
        if self.waits is not None:
            reply = self.world.group.answers.get(self.waits)
            if isinstance(reply, JoinReply):
                self.waits = None
                self._joined(reply)
            elif isinstance(reply, SyncReply):
                self.waits = None
                self._synced(reply)
        elif self.owned is not None:
            error = self.world.group.heartbeat(self.member_id, self.generation, self.instance)
            if error is not ErrorCode.NONE:
                self._failed(error)

    def _joined(self, reply: JoinReply) -> None:
        if reply.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = reply.member_id
            self.join()
            return
        if reply.error is not ErrorCode.NONE:
            self._failed(reply.error)
            return
        self.member_id, self.generation = reply.member_id, reply.generation
        assert reply.protocol in self.protocols
        assignments = None
        if reply.leader == self.member_id and not reply.skip_assignment:
            members = [member.member_id for member in reply.members]
            assert self.member_id in members
            assert all(member.metadata == str(reply.protocol).encode() for member in reply.members)
            assignments = self.world.spread(members)
        self.waits = self.world.group.sync(
            self.member_id, self.generation, instance=self.instance, assignments=assignments
        )

    def _synced(self, reply: SyncReply) -> None:
        if reply.error is not ErrorCode.NONE:
            self._failed(reply.error)
            return
        self.owned = frozenset(reply.assignment)
        self.world.owns(self)

    def _failed(self, error: ErrorCode) -> None:
        self.owned = None
        if error in {ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_MAX_SIZE_REACHED}:
            self.lives = False
            return
        if error in {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION}:
            self.member_id = ""
        self.join()


class World(RuleBasedStateMachine):
    """One group, its clients, the log of its records, and time."""

    def __init__(self) -> None:
        super().__init__()
        self.group = Machine(delay_ms=3000, max_size=MAX_SIZE)
        self.clients: list[Client] = []
        self.log: list[GroupMetadata] = []
        self.owners: dict[tuple[int, int], str] = {}
        self.assigned: dict[tuple[int, str], frozenset[int]] = {}
        self.handed_out: list[tuple[int, str, str | None]] = []
        """Generation, member id and instance of each assignment that a client was given."""
        self.latest_id: dict[str, str] = {}
        self.turn = 0

    # what happens ------------------------------------------------------------------------------------------

    @rule(
        instance=st.sampled_from([None, None, "one", "two"]),
        version=st.sampled_from([0, 4, 5, 9]),
        protocols=st.sampled_from([("range",), ("range", "sticky"), ("sticky", "range")]),
    )
    @precondition(lambda self: len(self.clients) < 12)
    def come(self, instance: str | None, version: int, protocols: tuple[str, ...]) -> None:
        self.clients.append(Client(self, instance, version, protocols))

    @rule(number=st.integers(0, 11))
    def act(self, number: int) -> None:
        if (client := self.some(number)) is not None:
            client.step()

    @rule()
    def all_act(self) -> None:
        for client in self.living():
            client.step()

    @rule(number=st.integers(0, 11))
    def die(self, number: int) -> None:
        if (client := self.some(number)) is not None:
            client.lives = False

    @rule(number=st.integers(0, 11))
    def leave(self, number: int) -> None:
        if (client := self.some(number)) is not None:
            client.lives = False
            self.group.leave((client.member_id, client.instance))

    @rule(number=st.integers(0, 11))
    def lose_the_connection(self, number: int) -> None:
        """The answer does not arrive; the client joins again under the same id."""
        if (client := self.some(number)) is not None and client.waits is not None:
            client.join()

    @rule(number=st.integers(0, 11))
    def change_subscription(self, number: int) -> None:
        if (client := self.some(number)) is not None and client.owned is not None:
            client.protocols = tuple(reversed(client.protocols))
            client.join()

    @rule(number=st.integers(0, 11), generation=st.integers(-1, 3), instance=st.sampled_from([None, "one"]))
    def a_zombie_sends_what_it_likes(self, number: int, generation: int, instance: str | None) -> None:
        member_id = self.clients[number].member_id if number < len(self.clients) else "stranger"
        if generation != self.group.machine.generation:
            self.group.sync(member_id, generation, instance=instance, assignments=self.spread([member_id]))
            self.group.heartbeat(member_id, generation, instance)

    @rule(seconds=st.sampled_from([0.1, 1.0, 3.0, 9.0, 11.0, 61.0]))
    def wait(self, seconds: float) -> None:
        self.group.later(seconds)

    @rule(error=st.sampled_from([ErrorCode.NONE, ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE]))
    @precondition(lambda self: self.group.writes)
    def write(self, error: ErrorCode) -> None:
        if error is ErrorCode.NONE:
            self.log.append(self.group.writes[0].metadata)
        self.group.written(error)

    @rule(kept=st.integers(0, 3))
    def crash(self, kept: int) -> None:
        """The gateway is killed; some of the records that were on their way are in the log."""
        self.log += [write.metadata for write in self.group.writes[:kept]]
        answers, asked, now = self.group.answers, self.group.asked, self.group.now
        unanswered = [ask for ask in asked if ask not in answers]
        group = self.group
        group.writes = []
        group.machine = GroupMachine("group", group.limits, now)
        for ask in unanswered:
            answers[ask] = JoinReply(ErrorCode.NOT_COORDINATOR, "")  # the connection ended
        if self.log:
            group.take(group.machine.loaded(self.log[-1], now))
            assert group.machine.generation == self.log[-1].generation
        for client in self.living():
            if client.waits in unanswered:
                client.join()

    # promises ----------------------------------------------------------------------------------------------

    def owns(self, client: Client) -> None:
        """A client was given its assignment."""
        assert client.owned is not None
        before = self.assigned.setdefault((client.generation, client.name), client.owned)
        assert before == client.owned, "two assignments in one generation"
        self.handed_out.append((client.generation, client.member_id, client.instance))
        self.latest_id[client.name] = client.member_id
        for partition in client.owned:
            owner = self.owners.setdefault((client.generation, partition), client.name)
            assert owner == client.name, f"two members have partition {partition}"

    @invariant()
    def who_was_followed_commits_nothing(self) -> None:
        """Whether it lives or not: others were given its partitions, or another process its place."""
        newest = max((generation for generation, *_ in self.handed_out), default=0)
        for generation, member_id, instance in self.handed_out:
            if generation < newest or self.latest_id[instance or member_id] != member_id:
                with pytest.raises(KafkaError):
                    self.group.machine.validate_commit(
                        member_id, instance, generation, self.group.now.seconds
                    )

    @invariant()
    def the_books_are_right(self) -> None:
        machine = self.group.machine
        roster = machine.roster
        members = list(roster.members())
        assert roster.waiting == sum(member.join_ticket is not None for member in members)
        assert roster.size == sum(member.size for member in members)
        assert (roster.leader in roster.by_id) == bool(members)
        assert {
            m.group_instance_id: m.member_id for m in members if m.group_instance_id
        } == roster.by_instance
        assert machine.wake <= machine.first_deadline()
        assert len(members) <= MAX_SIZE or machine.state is GroupState.PREPARING_REBALANCE
        if machine.state in {GroupState.STABLE, GroupState.COMPLETING_REBALANCE}:
            assert members
            assert all(member.metadata_of(machine.protocol) for member in members)
        if machine.state is GroupState.EMPTY:
            assert not members

    def teardown(self) -> None:
        """Everybody goes on, the log works: after some time the group has settled."""
        group = self.group
        for _ in range(200):
            while group.writes:
                self.log.append(group.writes[0].metadata)
                group.written()
            for client in self.living():
                client.step()
            group.later(2.0)
        living = self.living()
        machine = group.machine
        assert machine.state is (GroupState.STABLE if living else GroupState.EMPTY)
        assert sorted(machine.roster.by_id) == sorted(client.member_id for client in living)
        assert all(client.generation == machine.generation for client in living)
        owned = [partition for client in living for partition in client.owned or ()]
        assert sorted(owned) == (list(range(PARTITIONS)) if living else [])
        assert all(ask in group.answers for ask in group.asked)
        assert not machine.pending
        self.who_was_followed_commits_nothing()
        for client in living:
            machine.validate_commit(client.member_id, client.instance, client.generation, group.now.seconds)

    # helpers -----------------------------------------------------------------------------------------------

    def living(self) -> list[Client]:
        return [client for client in self.clients if client.lives]

    def some(self, number: int) -> Client | None:
        living = self.living()
        return living[number % len(living)] if living else None

    def spread(self, members: Iterable[str]) -> dict[str, bytes]:
        """The partitions over these members, from another one first each time."""
        self.turn += 1
        order = sorted(members)
        shares: dict[str, bytes] = dict.fromkeys(order, b"")
        for partition in range(PARTITIONS):
            shares[order[(partition + self.turn) % len(order)]] += bytes([partition])
        return shares


World.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestAGroupSettles = World.TestCase


def test_the_start_is_what_the_world_begins_with() -> None:
    assert World().group.now == START
