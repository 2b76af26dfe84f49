"""A group's machine with a clock that tests set, and members that say what they mean in one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.groups.events import (
    Answer,
    Effect,
    Join,
    JoinReply,
    Leaving,
    Now,
    Protocol,
    Sync,
    SyncReply,
    Write,
)
from gateway.groups.group import GroupMachine
from gateway.groups.group_state import GroupLimits, GroupState
from gateway.groups.metadata import GroupMetadata
from gateway.security.principal import Principal
from wireproto.kafka.errors import ErrorCode

SESSION_MS = 10_000
REBALANCE_MS = 60_000
START = Now(1000.0, 1_700_000_000_000)


@dataclass(frozen=True)
class Ask:
    """A ticket: which request it was."""

    number: int


class Machine:
    """Drives one machine; `answers` and `writes` are what came out of it."""

    def __init__(self, *, delay_ms: int = 0, max_size: int = 2**31 - 1) -> None:
        self.limits = GroupLimits(delay_ms, max_size)
        self.now = START
        self.machine = GroupMachine("group", self.limits, self.now)
        self.answers: dict[Ask, JoinReply | SyncReply] = {}
        self.asked: list[Ask] = []
        self.writes: list[Write] = []
        self._ids = 0

    # what happens ------------------------------------------------------------------------------------

    def later(self, seconds: float) -> None:
        """Let time pass, with every tick at its time."""
        end = self.now.seconds + seconds
        ticks_at_once = 0
        while (due := self.machine.wake) <= end:
            ticks_at_once = ticks_at_once + 1 if due <= self.now.seconds else 0
            assert ticks_at_once < 10, "ticks that are due leave something that is due for ever"
            self._set_time(max(due, self.now.seconds))
            self.take(self.machine.tick(self.now))
        self._set_time(end)

    def join(
        self,
        member_id: str = "",
        *,
        instance: str | None = None,
        protocols: Sequence[tuple[str, bytes]] = (("range", b"m"),),
        protocol_type: str = "consumer",
        version: int = 3,
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        principal: Principal | None = None,
    ) -> Ask:
        self._ids += not member_id
        ask = self._ask()
        join = Join(
            ask,
            member_id,
            "" if member_id else f"m{self._ids}",
            instance,
            "client",
            "/127.0.0.1",
            session_ms,
            rebalance_ms,
            protocol_type,
            tuple(Protocol(name, metadata) for name, metadata in protocols),
            version >= 4,
            version >= 9,
            "test",
            principal,
        )
        self.take(self.machine.join(join, self.now))
        return ask

    def sync(
        self,
        member_id: str,
        generation: int | None = None,
        *,
        instance: str | None = None,
        assignments: Mapping[str, bytes] | None = None,
        protocol_type: str | None = None,
        protocol: str | None = None,
        principal: Principal | None = None,
    ) -> Ask:
        ask = self._ask()
        generation = self.machine.generation if generation is None else generation
        assignments = assignments or {}
        sync = Sync(
            ask, member_id, instance, generation, protocol_type, protocol, assignments, principal
        )  # fmt: skip
        self.take(self.machine.sync(sync))
        return ask

    def leave(self, *members: tuple[str, str | None], principal: Principal | None = None) -> list[ErrorCode]:
        leaving = [Leaving(member_id, instance, "test") for member_id, instance in members]
        results, effects = self.machine.leave(leaving, self.now, principal)
        self.take(effects)
        return results

    def heartbeat(
        self,
        member_id: str,
        generation: int | None = None,
        instance: str | None = None,
        principal: Principal | None = None,
    ) -> ErrorCode:
        generation = self.machine.generation if generation is None else generation
        return self.machine.heartbeat(member_id, instance, generation, self.now.seconds, principal)

    def written(self, error: ErrorCode = ErrorCode.NONE) -> GroupMetadata:
        """The oldest record that waits is written, or not; what it says."""
        write = self.writes.pop(0)
        self.take(self.machine.written(write.number, error, self.now))
        return write.metadata

    # what is seen ------------------------------------------------------------------------------------

    @property
    def state(self) -> GroupState:
        return self.machine.state

    @property
    def leader(self) -> str | None:
        return self.machine.roster.leader

    def joined(self, ask: Ask) -> JoinReply:
        reply = self.answers[ask]
        assert isinstance(reply, JoinReply)
        return reply

    def synced(self, ask: Ask) -> SyncReply:
        reply = self.answers[ask]
        assert isinstance(reply, SyncReply)
        return reply

    def error(self, ask: Ask) -> ErrorCode | None:
        """None: it is not answered."""
        reply = self.answers.get(ask)
        return None if reply is None else reply.error

    # shortcuts ---------------------------------------------------------------------------------------

    def stable(self, count: int, **join: Any) -> list[str]:
        """A stable group of so many members, leader first; each has its own id as its assignment."""
        asks = [self.join(**join) for _ in range(count)]
        self.later(self.limits.initial_rebalance_delay_ms / 1000)
        members = [self.joined(ask).member_id for ask in asks]
        self.settle(members)
        return members

    def settle(self, members: Sequence[str]) -> list[Ask]:
        """All members, the leader among them, send SyncGroup, and the record is written."""
        assignments = {member: member.encode() for member in members}
        asks = [self.sync(m, assignments=assignments if m == self.leader else None) for m in members]
        self.written()
        assert self.state is GroupState.STABLE
        return asks

    def take(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Answer):
                assert isinstance(effect.ticket, Ask)
                assert effect.ticket not in self.answers, "answered twice"
                self.answers[effect.ticket] = effect.reply
            elif isinstance(effect, Write):
                self.writes.append(effect)

    def _ask(self) -> Ask:
        ask = Ask(len(self.asked))
        self.asked.append(ask)
        return ask

    def _set_time(self, seconds: float) -> None:
        self.now = Now(seconds, START.unix_ms + round((seconds - START.seconds) * 1000))


def static_pair(group: Machine, **join: Any) -> tuple[str, str]:
    """A stable group of the instances "one", who leads, and "two"."""
    asks = group.join(instance="one", **join), group.join(instance="two", **join)
    group.later(0)
    first, second = (group.joined(ask).member_id for ask in asks)
    assignments = {member: member.encode() for member in (first, second)}
    group.sync(first, instance="one", assignments=assignments)
    group.sync(second, instance="two")
    group.written()
    assert group.state is GroupState.STABLE
    return first, second
