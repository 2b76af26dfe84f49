"""One group as it is served: its machine, its offsets, and the tasks that give it time and the log.

Requests are handed to the machine at once, by whoever has them: a heartbeat costs no task switch. A task is
for what takes time, and only while there is some: one calls `tick` when it is due; another writes the group's
records, one after the other in the order in which the machine asked for them, and holds up nothing else.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol, cast

import trio

from gateway.common.clients import NOBODY
from gateway.common.waiting import Waiter
from gateway.groups.events import Answer, Effect, JoinReply, Now, SyncReply, Write
from gateway.groups.group import GroupMachine
from gateway.groups.group_state import GroupState
from gateway.groups.metadata import GroupMetadata
from gateway.groups.offsets import OffsetTable
from gateway.groups.room import Room
from wireproto.kafka.errors import ErrorCode, KafkaError

MEMBER_TICK_SECONDS: Final = 20e-6
"""Wait between two ticks for each member of the group: a tick looks at all of them, which takes a fortieth of
that. Hostile members could have their deadlines one by one, each with a tick of its own."""

logger = logging.getLogger(__name__)


class Abandoned(Exception):
    """Nobody waits for the reply any more."""


class Ticket:
    """A request that waits for its reply. The client may be gone by then: nobody minds."""

    __slots__ = ("_abandoned", "_reply", "_waiter")

    def __init__(self) -> None:
        self._abandoned = False
        self._waiter = Waiter()
        self._reply: JoinReply | SyncReply | None = None

    def answer(self, reply: JoinReply | SyncReply) -> None:
        """Give the reply. Never blocks."""
        if self._reply is not None:
            raise RuntimeError("a ticket is answered once")
        self._reply = reply
        self._waiter.wake()

    @property
    def answered(self) -> bool:
        return self._reply is not None

    def abandon(self) -> None:
        """The client has gone: nobody waits for the reply. Its member stays until its own time is over."""
        self._abandoned = True
        self._waiter.wake()

    async def joined(self) -> JoinReply:
        """Wait for the reply to a JoinGroup; one task does. Raises Abandoned."""
        return cast("JoinReply", await self._wait())

    async def synced(self) -> SyncReply:
        """Wait for the reply to a SyncGroup; one task does. Raises Abandoned."""
        return cast("SyncReply", await self._wait())

    async def _wait(self) -> JoinReply | SyncReply:
        while self._reply is None:
            if self._abandoned:
                raise Abandoned
            await self._waiter.wait()
        return self._reply


class Home(Protocol):
    """What a group needs of the coordinator."""

    def start(self, task: Callable[[], Awaitable[None]]) -> None:
        """Run a task until it ends or the gateway stops."""

    room: Room
    """What all groups hold."""

    async def write(self, group_id: str, metadata: GroupMetadata) -> None:
        """Make the record durable. Raises KafkaError."""

    def now(self) -> Now:
        """The time."""

    def generation_began(self) -> None:
        """Count it."""

    def note(self, group: Group, text: str) -> None:
        """Tell operators."""

    def failed(self, group: Group) -> None:
        """A defect: what the group's machine knows cannot be relied on any more."""


class Group:
    """One group id, while it is served here."""

    __slots__ = (
        "_changed",
        "_generation",
        "_home",
        "_keeping_time",
        "_next_tick",
        "_size",
        "_sleeps_until",
        "_writes",
        "_writing",
        "client",
        "deleting",
        "group_id",
        "machine",
        "offsets",
        "partition",
        "recorded",
    )

    def __init__(
        self,
        home: Home,
        partition: int,
        machine: GroupMachine,
        offsets: OffsetTable,
        *,
        recorded: bool,
        client: str = NOBODY,
    ) -> None:
        self.group_id = machine.group_id
        self.client = client
        """Whose group it is, and who is charged for it."""
        self.partition = partition
        self.machine = machine
        self.offsets = offsets
        self.recorded = recorded
        """Whether the log may have a record of the group itself."""
        self.deleting = False
        """Its tombstones are on their way: nobody may change it meanwhile."""
        self._home = home
        self._writes: deque[Write] = deque()
        self._changed = Waiter()
        self._keeping_time = False
        self._writing = False
        self._sleeps_until = -math.inf
        self._next_tick = -math.inf
        self._size = 0
        self._generation = machine.generation
        home.room.offsets.charge(client, offsets.bytes)
        offsets.charge_to(self._charge_offsets)

    @property
    def is_unused(self) -> bool:
        """Nobody is in it, nobody is about to come, and it has no offsets."""
        machine = self.machine
        return machine.state is GroupState.EMPTY and not machine.pending and self.offsets.is_empty()

    def carry_out(self, effects: Sequence[Effect] = ()) -> None:
        """Do what the machine wants; called after each of its events."""
        for effect in effects:
            if isinstance(effect, Answer):
                cast("Ticket", effect.ticket).answer(effect.reply)
            elif isinstance(effect, Write):
                self.recorded = True
                self._writes.append(effect)
            else:
                self._home.note(self, effect.text)
        self._account()
        if self._writes and not self._writing:
            self._writing = True
            self._home.start(self._write_all)
        if self.machine.wake < self._sleeps_until:
            self._changed.wake()
        if self.machine.wake < math.inf and not self._keeping_time:
            self._keeping_time = True
            self._home.start(self._keep_time)

    def unload(self, error: ErrorCode) -> None:
        """Serve it no longer: everybody who waits gets `error`; its task ends."""
        self._writes.clear()
        self.carry_out(self.machine.unload(error, self._home.now()))
        room = self._home.room
        room.groups.charge(self.client, -self._size)
        room.offsets.charge(self.client, -self.offsets.bytes)
        self.offsets.charge_to(None)
        self._size = 0
        self._changed.wake()

    def belongs_to(self, client: str) -> None:
        """A client has come to the group. One that was loaded, and so is nobody's, is this one's now."""
        if self.client == NOBODY and client != NOBODY:
            self._home.room.groups.move(NOBODY, client, self._size)
            self._home.room.offsets.move(NOBODY, client, self.offsets.bytes)
            self.client = client

    def _charge_offsets(self, size: int) -> None:
        self._home.room.offsets.charge(self.client, size)

    def _account(self) -> None:
        if self.machine.generation != self._generation:
            self._generation = self.machine.generation
            self._home.generation_began()
        if self.machine.state is not GroupState.DEAD and (size := self.machine.size) != self._size:
            self._home.room.groups.charge(self.client, size - self._size)
            self._size = size

    async def _keep_time(self) -> None:
        """Tick when it is due, until nothing is."""
        try:
            while self.machine.wake < math.inf and self.machine.state is not GroupState.DEAD:
                await self._sleep()
        except Exception as error:  # noqa: BLE001 - a defect in one group must not end the others
            self._failed(error)
        finally:
            self._keeping_time = False

    async def _write_all(self) -> None:
        """Write what waits to be written, one record after the other."""
        try:
            # Behind tombstones that are on their way they would bring the group back.
            while self._writes and not self.deleting:
                await self._write(self._writes.popleft())
        except Exception as error:  # noqa: BLE001 - as above
            self._failed(error)
        finally:
            self._writing = False

    def _failed(self, error: Exception) -> None:
        logger.error("an unexpected failure in a group; it is read again from the log", exc_info=error)
        self._home.failed(self)

    async def _sleep(self) -> None:
        self._sleeps_until = max(self.machine.wake, self._next_tick)
        with trio.move_on_at(self._sleeps_until):
            await self._changed.wait()
        self._sleeps_until = -math.inf
        machine, now = self.machine, self._home.now()
        if now.seconds >= max(machine.wake, self._next_tick) and machine.state is not GroupState.DEAD:
            self.carry_out(machine.tick(now))
            members = len(machine.roster) + len(machine.pending)
            self._next_tick = now.seconds + members * MEMBER_TICK_SECONDS

    async def _write(self, write: Write) -> None:
        error = ErrorCode.NONE
        try:
            await self._home.write(self.group_id, write.metadata)
        except KafkaError as failed:
            error = failed.code
        if self.machine.state is not GroupState.DEAD:
            self.carry_out(self.machine.written(write.number, error, self._home.now()))
