"""Consumer groups of the simulated cluster: who commits, joins, deletes; and what was promised to them.

The coordinator is the real one (`gateway.groups`), in each life of the gateway, over the simulated mesh. Its
clients call it as the API's handlers do. A request may be late, its answer may be lost, and whoever gets none
in time goes on with the next one, as Kafka's clients do.

Each commit of a key has a higher number than those before it: so it is seen when one is lost or comes back.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import trio

from gateway.groups.events import Join, Leaving, Protocol, Sync
from gateway.groups.group_state import GroupState
from gateway.groups.internal_topic import OFFSETS_TOPIC
from gateway.groups.records import NO_TIME, NO_TOPIC_ID, CommittedOffset
from gateway.groups.replay import Replay
from gateway.groups.served import Ticket
from gateway.journal.loading import load_partition
from tests.sim.loop import BrokenPromise
from wireproto.kafka.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from gateway.groups.coordinator import Coordinator
    from tests.sim.cluster import World
    from tests.sim.gateway_node import Life

ANSWER_SECONDS = 1.5
"""How long a client waits for an answer."""

SESSION_MS = 1500
"""A member that is not heard of for so long leaves its group."""

LEAVES = 0.08
"""Share of a member's steps in which it leaves, and joins as another one."""

NO_GENERATION = -1

Key = tuple[str, str, int]
"""Group, topic, partition."""


class Commits:
    """What was committed, and what of it must be seen from when on."""

    def __init__(self, world: World) -> None:
        self.sent: defaultdict[Key, int] = defaultdict(int)
        """The highest number that was sent."""
        self.floor: defaultdict[Key, int] = defaultdict(int)
        """The highest number that is certain: it was acknowledged, or seen; 0 if there need be none."""
        self.buried: defaultdict[Key, int] = defaultdict(int)
        """Numbers up to this one were deleted, and never come back."""
        self.doomed: defaultdict[Key, int] = defaultdict(int)
        """Numbers up to this one were sent before somebody asked for the end of their group: they may go."""
        self.deletions: defaultdict[str, int] = defaultdict(int)
        """How often somebody asked for the end of a group."""
        self.generations: defaultdict[str, int] = defaultdict(int)
        """The highest generation of a group whose assignments were given out."""
        self.assigned: defaultdict[str, dict[int, dict[str, bytes]]] = defaultdict(dict)
        """Group -> generation -> assignments, by member, as they were given out."""
        self._world = world

    def next(self, key: Key) -> int:
        """The number of the next commit."""
        self.sent[key] += 1
        return self.sent[key]

    def acknowledged(self, key: Key, number: int, shown: int | None) -> None:
        """The gateway says that a commit is durable, and shows this one; None if the group is gone since."""
        if number > self.doomed[key]:
            self.floor[key] = max(number, self.floor[key])
        if shown is not None and shown < self.floor[key]:
            raise BrokenPromise(f"{key}: {shown} was committed behind {self.floor[key]}")
        self._world.reached["offsets committed"] += 1

    def seen(self, key: Key, number: int | None, floor: int, buried: int) -> None:
        """What a group has committed, as told to one who asked when `floor` was certain and `buried` gone."""
        if (number or 0) < floor and not self._may_be_forgotten(key):
            raise BrokenPromise(f"{key}: {floor} was committed, and it is {number}")
        if number is None:
            return
        if number <= buried:
            raise BrokenPromise(f"{key}: all up to {buried} was deleted, and it is {number}")
        if number > self.sent[key]:
            raise BrokenPromise(f"{key}: {number} was never committed")
        if number > self.doomed[key]:
            self.floor[key] = max(number, self.floor[key])

    def _may_be_forgotten(self, key: Key) -> bool:
        return key[1] in self._world.deleted_topics

    def begins_anew(self, group_id: str) -> None:
        """A group is being deleted, since somebody wants it or nothing is left of it."""
        self.generations.pop(group_id, None)
        self.assigned.pop(group_id, None)

    def delete(self, group_id: str) -> dict[Key, int]:
        """Somebody asks for the end of a group: from now on nothing of it is certain. What is then buried."""
        self.deletions[group_id] += 1
        keys = [key for key in self.sent if key[0] == group_id]
        for key in keys:
            self.floor[key] = 0
            self.doomed[key] = self.sent[key]
        return {key: self.sent[key] for key in keys}

    def gone(self, buried: dict[Key, int]) -> None:
        """The gateway says that the group is gone."""
        for key, number in buried.items():
            self.buried[key] = max(number, self.buried[key])
        self._world.reached["groups deleted"] += 1

    def joined(self, group_id: str, generation: int) -> None:
        """A member is told of a generation."""
        if generation < self.generations[group_id]:
            raise BrokenPromise(
                f"group {group_id} has generation {generation} behind {self.generations[group_id]}"
            )

    def synced(self, group_id: str, generation: int, member: str, assignment: bytes) -> None:
        """A member is told what it reads."""
        self.joined(group_id, generation)
        self.generations[group_id] = generation
        told = self.assigned[group_id].setdefault(generation, {})
        if told.setdefault(member, assignment) != assignment:
            raise BrokenPromise(f"{member} has two assignments in generation {generation} of {group_id}")
        self._world.reached["assignments given out"] += 1


class _Client:
    """Asks the gateway."""

    def __init__(self, world: World, group_id: str) -> None:
        self.world = world
        self.commits = world.commits
        self.group_id = group_id

    async def ask(self, request: Callable[[Life], Awaitable[Any]]) -> Any:
        """The answer to a request; None if there is none in time, or it is to be tried again."""
        world = self.world
        await trio.sleep(0.001 + world.plan.pace * world.random.random())
        life = world.gateway_of(None)
        if life is None or not life.serving:
            return None
        answer: list[Any] = []
        over = trio.Event()

        async def carry_out() -> None:
            try:
                answer.append(await request(life))
            except KafkaError as error:
                answer.append(error)
            over.set()

        life.nursery.start_soon(carry_out)
        with trio.move_on_after(ANSWER_SECONDS):
            await over.wait()
        lost = world.working and world.random.random() < world.plan.lost
        return answer[0] if answer and not lost and not life.over else None

    def partitions(self) -> list[tuple[str, int]]:
        """Of the topics that are there."""
        plan, gone = self.world.plan, self.world.deleted_topics
        topics = [f"topic-{number}" for number in range(plan.topics)]
        return [(topic, index) for topic in topics if topic not in gone for index in range(plan.partitions)]

    async def ask_to_commit(
        self, keys: Iterable[tuple[str, int]], member: str = "", generation: int = NO_GENERATION
    ) -> Any:
        """Commit the next number of each of these."""
        numbers = {key: self.commits.next((self.group_id, *key)) for key in keys}
        return await self.ask(lambda life: self._commit(life, numbers, member, generation))

    async def _commit(
        self, life: Life, wanted: dict[tuple[str, int], int], member: str, generation: int
    ) -> None:
        """As OffsetCommit does it. Raises KafkaError."""
        groups, now_ms = life.broker.groups, life.context.now_ms()
        numbers = {key: number for key, number in wanted.items() if life.broker.topics.get(key[0])}
        offsets = {
            key: CommittedOffset(number, -1, "", now_ms, NO_TIME, self._topic_id(life, key[0]))
            for key, number in numbers.items()
        }
        group = groups.for_commit(self.group_id, member, None, generation)
        try:
            await groups.journal.commit(self.group_id, group.offsets, offsets)
        finally:
            if group.offsets.is_empty() and not life.over:
                await groups.drop_if_unused(group)
        for (topic, partition), number in numbers.items():
            found = group.offsets.fetch(topic, partition)
            current = found is not None and life is self.world.current_life()
            self.commits.acknowledged(
                (self.group_id, topic, partition), number, found.offset if found and current else None
            )

    @staticmethod
    def _topic_id(life: Life, name: str) -> bytes:
        topic = life.broker.topics.get(name)
        return NO_TOPIC_ID if topic is None else topic.id

    async def look(self, life: Life) -> None:
        """As OffsetFetch does it, and compare. Raises KafkaError."""
        keys = [(self.group_id, *key) for key in self.partitions()]
        floors = {key: (self.commits.floor[key], self.commits.buried[key]) for key in keys}
        deletions = self.commits.deletions[self.group_id]
        groups = life.broker.groups
        if self.world.random.random() < 0.3 and groups.for_fetch(self.group_id) is not None:
            await groups.journal.settle(self.group_id)
        group = groups.for_fetch(self.group_id)
        if life is self.world.current_life() and deletions == self.commits.deletions[self.group_id]:
            for key in keys:
                found = None if group is None else group.offsets.fetch(key[1], key[2])
                self.commits.seen(key, None if found is None else found.offset, *floors[key])
            self.world.reached["offsets fetched"] += len(keys)


class Committer(_Client):
    """A group without members: one client commits, looks, and deletes it now and then."""

    async def run(self) -> None:
        """Until the work is over."""
        while self.world.working:
            draw = self.world.random.random()
            if draw < 0.75:
                keys = self.partitions()
                some = [key for key in keys if self.world.random.random() < 0.7]
                if some:
                    await self.ask_to_commit(some)
            elif draw < 0.95:
                await self.ask(self.look)
            else:
                await self.ask(self._delete)

    async def _delete(self, life: Life) -> None:
        groups = life.broker.groups
        group = groups.for_delete(self.group_id)
        buried = self.commits.delete(self.group_id)
        await groups.delete(group)
        self.commits.gone(buried)


class MemberClient(_Client):
    """A member of a group: it joins, is given partitions by whoever leads, commits, leaves now and then."""

    def __init__(self, world: World, group_id: str, number: int) -> None:
        super().__init__(world, group_id)
        self._number = number
        self._lives = 0
        self._member = ""
        self._generation = NO_GENERATION
        self._assigned: list[tuple[str, int]] = []

    async def run(self) -> None:
        """Until the work is over."""
        while self.world.working:
            if self._generation == NO_GENERATION:
                await self._join()
            elif self.world.random.random() < LEAVES:
                await self.ask(self._leave)
                self._member, self._generation = "", NO_GENERATION
            else:
                await self._work()

    async def _join(self) -> None:
        self._lives += 1
        reply = await self.ask(self._ask_to_join)
        if reply is None or isinstance(reply, KafkaError):
            return
        if reply.error is not ErrorCode.NONE:
            if reply.error is ErrorCode.MEMBER_ID_REQUIRED:
                self._member = reply.member_id
            elif reply.error is ErrorCode.UNKNOWN_MEMBER_ID:
                self._member = ""
            return
        self._member = reply.member_id
        assignments: dict[str, bytes] = {}
        if reply.leader == self._member and not reply.skip_assignment:
            members = sorted(member.member_id for member in reply.members)
            for place, (topic, partition) in enumerate(self.partitions()):
                taker = members[place % len(members)]
                assignments[taker] = assignments.get(taker, b"") + f"{topic}/{partition} ".encode()
        generation = reply.generation
        answer = await self.ask(lambda life: self._sync(life, generation, assignments))
        if answer is None or isinstance(answer, KafkaError) or answer.error is not ErrorCode.NONE:
            return
        self._generation = generation
        names = [name.rpartition("/") for name in answer.assignment.decode().split()]
        self._assigned = [(topic, int(partition)) for topic, _, partition in names]

    async def _ask_to_join(self, life: Life) -> Any:
        ticket = Ticket()
        life.broker.groups.join(
            self.group_id,
            Join(
                ticket,
                self._member,
                f"{self.group_id}-{self._number}-{self._lives}",
                None,
                "client",
                "/host",
                SESSION_MS,
                SESSION_MS,
                "consumer",
                (Protocol("range", b""),),
                needs_known_member_id=True,
                can_skip_assignment=True,
                reason="",
            ),
        )
        reply = await ticket.joined()
        if reply.error is ErrorCode.NONE and life is self.world.current_life():
            self.commits.joined(self.group_id, reply.generation)
        return reply

    async def _sync(self, life: Life, generation: int, assignments: dict[str, bytes]) -> Any:
        ticket, member = Ticket(), self._member
        life.broker.groups.sync(
            self.group_id, Sync(ticket, member, None, generation, "consumer", "range", assignments)
        )
        reply = await ticket.synced()
        if reply.error is ErrorCode.NONE and life is self.world.current_life():
            self.commits.synced(self.group_id, generation, member, reply.assignment)
        return reply

    async def _leave(self, life: Life) -> None:
        life.broker.groups.leave(self.group_id, [Leaving(self._member, None, "")])

    async def _work(self) -> None:
        """A heartbeat, a commit or a look."""
        draw = self.world.random.random()
        if draw < 0.3:
            answer = await self.ask(self._beat)
        elif draw < 0.8 and self._assigned:
            answer = await self.ask_to_commit(self._assigned, self._member, self._generation)
        else:
            answer = await self.ask(self.look)
        if isinstance(answer, KafkaError) and answer.code in REJOIN:
            self._generation = NO_GENERATION
            if answer.code is ErrorCode.UNKNOWN_MEMBER_ID:
                self._member = ""

    async def _beat(self, life: Life) -> None:
        code = life.broker.groups.heartbeat(self.group_id, self._member, None, self._generation)
        if code is not ErrorCode.NONE:
            raise KafkaError(code)


REJOIN = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.GROUP_ID_NOT_FOUND,
)
"""Errors after which a member joins again."""


def start_clients(world: World) -> None:
    """Groups with and without members."""
    for number in range(world.plan.groups):
        if number % 2:
            for member in range(2):
                world.nursery.start_soon(MemberClient(world, f"managed-{number}", member).run)
        else:
            world.nursery.start_soon(Committer(world, f"simple-{number}").run)


def is_loading(life: Life) -> str:
    """Why the groups are not at rest; "" if they are."""
    groups = life.broker.groups
    if groups.partitions_loading:
        return f"{groups.partitions_loading} partitions of {OFFSETS_TOPIC} are not loaded"
    if groups.journal.group_commit._places:
        return "something is on its way to the log of groups"
    return ""


async def audit(life: Life) -> None:
    """What a restart would find is what is served, and what was promised. Raises `BrokenPromise`."""
    topic = life.broker.topics.get(OFFSETS_TOPIC)
    assert topic is not None
    commits, groups = life.world.commits, life.broker.groups
    for partition in topic.partitions:
        replay = Replay(partition.index)
        await load_partition(partition, replay)
        found = replay.groups
        served = {name: group for name, group in groups.groups.items() if group.partition == partition.index}
        for name in found.keys() | served.keys():
            logged = dict(_offsets(found[name].offsets)) if name in found else {}
            shown = dict(_offsets(served[name].offsets)) if name in served else {}
            if logged != shown:
                raise BrokenPromise(f"group {name} has {shown}, and its log {logged}")
            metadata = found[name].metadata if name in found else None
            generation = 0 if metadata is None else metadata.generation
            if generation < commits.generations[name]:
                raise BrokenPromise(
                    f"group {name} has had generation {commits.generations[name]}, its log has {generation}"
                )
    _check_all(commits, groups)


def _check_all(commits: Commits, groups: Coordinator) -> None:
    for key in list(commits.sent):
        group = groups.groups.get(key[0])
        dead = group is None or group.machine.state is GroupState.DEAD
        offset = None if dead or group is None else group.offsets.fetch(key[1], key[2])
        number = None if offset is None else offset.offset
        commits.seen(key, number, commits.floor[key], commits.buried[key])


def _offsets(table: Any) -> list[tuple[tuple[str, int], int]]:
    return [
        ((topic, index), offset.offset)
        for topic, offsets in table.topics()
        for index, offset in offsets.items()
    ]
