"""What a group says: answers to requests that wait, records to be written, lines for operators.

All of it is collected as effects, in order, for whoever handed the machine an event. A member that is removed
is answered first: nobody waits for ever.
"""

from __future__ import annotations

from gateway.groups.events import (
    NO_MEMBER_ID,
    Answer,
    Effect,
    Join,
    JoinReply,
    Note,
    Now,
    SyncReply,
    Write,
)
from gateway.groups.group_state import GroupData, GroupLimits
from gateway.groups.member import Member
from gateway.groups.metadata import GroupMetadata
from wireproto.kafka.errors import ErrorCode


class AnsweringGroup(GroupData):
    """A group whose changes have effects; `_done` gives them out."""

    __slots__ = ("_effects", "_writes")

    def __init__(self, group_id: str, limits: GroupLimits, now: Now) -> None:
        super().__init__(group_id, limits, now)
        self._effects: list[Effect] = []
        self._writes = 0

    # replies -----------------------------------------------------------------------------------------------

    def _joined(
        self,
        member: Member,
        *,
        leader: str | None = None,
        with_members: bool = True,
        skip_assignment: bool = False,
    ) -> JoinReply:
        """What a member of the current generation is told."""
        is_leader = member.member_id == self.roster.leader
        return JoinReply(
            ErrorCode.NONE,
            member.member_id,
            self.generation,
            self.protocol_type,
            self.protocol,
            (self.roster.leader or "") if leader is None else leader,
            skip_assignment,
            self.roster.for_leader(self.protocol) if is_leader and with_members else (),
        )

    def _assigned(self, member: Member) -> SyncReply:
        return SyncReply(ErrorCode.NONE, self.protocol_type, self.protocol, member.assignment)

    def _refuse(self, join: Join, error: ErrorCode, *, member_id: str | None = None) -> None:
        self._answer(join.ticket, JoinReply(error, join.member_id if member_id is None else member_id))

    def _wait_to_join(self, member: Member, ticket: object) -> None:
        """The member's JoinGroup waits; an earlier one of it is told to come again."""
        earlier = self.roster.take_join_ticket(member, ticket)
        if earlier is not None:
            self._answer(earlier, JoinReply(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))

    def _answer_join(self, member: Member, reply: JoinReply) -> None:
        ticket = self.roster.take_join_ticket(member)
        if ticket is not None:
            self._answer(ticket, reply)

    def _answer_sync(self, member: Member, reply: SyncReply) -> bool:
        ticket, member.sync_ticket = member.sync_ticket, None
        if ticket is not None:
            self._answer(ticket, reply)
        return ticket is not None

    # members that go ---------------------------------------------------------------------------------------

    def _forget(self, member_id: str) -> None:
        """The member, or id that was given out, is gone; nothing if it is unknown."""
        self.take_back(member_id)
        if (member := self.roster.by_id.get(member_id)) is not None:
            self._remove(member)

    def _remove(self, member: Member) -> None:
        self._answer_join(member, JoinReply(ErrorCode.UNKNOWN_MEMBER_ID, NO_MEMBER_ID))
        self._answer_sync(member, SyncReply(ErrorCode.UNKNOWN_MEMBER_ID))
        self.pending_sync.discard(member.member_id)
        self.roster.remove(member)

    # effects -----------------------------------------------------------------------------------------------

    def _answer(self, ticket: object, reply: JoinReply | SyncReply) -> None:
        self._effects.append(Answer(ticket, reply))

    def _write(self, metadata: GroupMetadata) -> int:
        self._writes += 1
        self._effects.append(Write(self._writes, metadata))
        return self._writes

    def _note(self, text: str) -> None:
        self._effects.append(Note(text))

    def _done(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects
