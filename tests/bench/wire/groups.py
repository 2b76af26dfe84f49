"""Groups whose members are bare connections: they join, heartbeat and commit as fast as they are told to.

Every member has a connection of its own, as a consumer has: a server parks JoinGroup and SyncGroup, and with
them the connection.
"""

import time
from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Final

from tests.bench.wire import messages
from tests.bench.wire.connection import Connection
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode

# Size, correlation id, tags and throttle time come first in the flexible answers of these APIs.
_ERROR: Final = Struct(">13xh")
_ERROR_GENERATION: Final = Struct(">13xhi")
_INT32: Final = Struct(">i")
# A server that has just been asked for its first coordinator makes a topic of 50 partitions.
COORDINATOR_SECONDS = 60.0
# What a server says whose partitions of that topic are not all there yet.
_LATER = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


class Refused(AssertionError):
    """A server refused what a well-behaved member may ask."""


def error_of(answer: bytes) -> ErrorCode:
    return ErrorCode(_ERROR.unpack_from(answer)[0])


def subscription(topic: str) -> bytes:
    """`ConsumerProtocolSubscription` version 0 of one topic."""
    name = topic.encode()
    return bytes(2) + _INT32.pack(1) + len(name).to_bytes(2) + name + _INT32.pack(-1)


def assignment(topic: str, partition: int) -> bytes:
    """`ConsumerProtocolAssignment` version 0 of one partition."""
    name = topic.encode()
    numbers = _INT32.pack(1) + _INT32.pack(partition)
    return bytes(2) + _INT32.pack(1) + len(name).to_bytes(2) + name + numbers + _INT32.pack(-1)


def await_coordinator(bootstrap: str, key: str, key_type: int = messages.GROUP) -> None:
    """Until a group, or a transactional id, can be served: the first one makes the coordinator's topic."""
    connection = Connection(bootstrap)
    deadline = time.monotonic() + COORDINATOR_SECONDS
    try:
        while True:
            values = messages.decoded(
                ApiKey.FIND_COORDINATOR,
                messages.FIND_COORDINATOR_VERSION,
                connection.ask(messages.find_coordinator(key, key_type)),
            )
            (found,) = values["coordinators"]
            if found["error_code"] == ErrorCode.NONE:
                return
            if time.monotonic() > deadline:
                raise Refused(f"no coordinator of {key}: {found}")
            time.sleep(0.1)
    finally:
        connection.close()


class Member:
    """One member, or somebody who is about to become one."""

    def __init__(self, connection: Connection, group_id: str, topic: str) -> None:
        self.connection = connection
        self.group_id = group_id
        self._subscription = subscription(topic)
        self.member_id = ""
        self.generation = -1
        self._join = messages.join(group_id, "", self._subscription)
        self._next_sync = b""

    def ask_to_join(self) -> None:
        self.connection.send(self._join)

    def is_given_id(self) -> None:
        """Read the answer to a first JoinGroup, which gives the id to come back with (KIP-394)."""
        deadline = time.monotonic() + COORDINATOR_SECONDS
        while (error := error_of(answer := self.connection.receive())) is not ErrorCode.MEMBER_ID_REQUIRED:
            if error not in _LATER or time.monotonic() > deadline:
                raise Refused(f"a member without an id was answered with {error.name}")
            time.sleep(0.05)
            self.ask_to_join()
        found = messages.decoded(ApiKey.JOIN_GROUP, messages.JOIN_VERSION, answer)
        self.member_id = found["member_id"]
        self._join = messages.join(self.group_id, self.member_id, self._subscription)

    def joined(self) -> bytes:
        """Read the answer to JoinGroup: a new generation began."""
        answer = self.connection.receive()
        error, self.generation = _ERROR_GENERATION.unpack_from(answer)
        if error != ErrorCode.NONE:
            raise Refused(f"JoinGroup was answered with {ErrorCode(error).name}")
        return answer

    def prepare(self) -> None:
        """Encode the SyncGroup of the generation that will be next, which is nobody's time but ours."""
        self._next_sync = messages.sync(self.group_id, self.member_id, self.generation + 1, {})

    def ask_to_sync(self, prepared_for: int) -> None:
        if prepared_for != self.generation or not self._next_sync:
            self._next_sync = messages.sync(self.group_id, self.member_id, self.generation, {})
        self.connection.send(self._next_sync)
        self._next_sync = b""

    def assign(self, assignments: dict[str, bytes]) -> None:
        """Send the SyncGroup of a leader."""
        sync = messages.sync(self.group_id, self.member_id, self.generation, assignments)
        self.connection.send(sync)

    def heartbeat(self) -> bytes:
        return messages.heartbeat(self.group_id, self.member_id, self.generation)

    def commit(self, topic: str, offsets: dict[int, int]) -> bytes:
        return messages.offset_commit(self.group_id, self.member_id, self.generation, topic, offsets)


class Group:
    """A group of such members; partition N of the topic goes to the Nth of them."""

    def __init__(self, group_id: str, topic: str, members: list[Member]) -> None:
        self.group_id = group_id
        self.topic = topic
        self.members = members
        self._assignments: dict[str, bytes] = {}

    def rebalance(self, newcomer: Member | None = None) -> float:
        """Seconds from the newcomer's first JoinGroup until all members have what they are assigned.

        Without a newcomer the generation is one that began already because somebody left. The others learn
        of it by a heartbeat, which they all send at once.
        """
        before = self.members[0].generation
        heartbeats = [member.heartbeat() for member in self.members]
        for member in self.members:
            member.prepare()
        began = time.perf_counter()
        if newcomer is not None:
            newcomer.ask_to_join()
            newcomer.is_given_id()
            newcomer.ask_to_join()
        _join_again(self.members, heartbeats)
        if newcomer is not None:
            self.members.append(newcomer)
        self.begin_sync(before + 1)
        answers = self._receive()
        took = time.perf_counter() - began
        self._check(answers)
        return took

    def dismiss(self) -> Member:
        """The newest member leaves; the others have their next generation."""
        gone = self.members.pop()
        error = error_of(gone.connection.ask(messages.leave(self.group_id, gone.member_id)))
        if error is not ErrorCode.NONE:
            raise Refused(f"LeaveGroup was answered with {error.name}")
        self.rebalance()
        return gone

    def begin_sync(self, prepared_for: int = -1) -> None:
        """Read all answers to JoinGroup, and send SyncGroup after each."""
        for member in self.members:
            if _is_leaders(member.joined(), member.member_id):
                self._assignments = {
                    one.member_id: assignment(self.topic, index) for index, one in enumerate(self.members)
                }
                member.assign(self._assignments)
            else:
                member.ask_to_sync(prepared_for)

    def end_sync(self) -> None:
        """Read all answers to SyncGroup."""
        self._check(self._receive())

    def _receive(self) -> list[bytes]:
        return [member.connection.receive() for member in self.members]

    def _check(self, answers: Sequence[bytes]) -> None:
        """Every member has exactly what the leader chose for it, in the same generation."""
        if len({member.generation for member in self.members}) != 1:
            raise Refused("the members are in different generations")
        for member, answer in zip(self.members, answers, strict=True):
            found = messages.decoded(ApiKey.SYNC_GROUP, messages.SYNC_VERSION, answer)
            if found["error_code"] or found["assignment"] != self._assignments[member.member_id]:
                raise Refused(f"SyncGroup was answered with {found}")


def _is_leaders(answer: bytes, member_id: str) -> bool:
    """Whether an answer to JoinGroup is the leader's: its id is there as the leader's, as its own, and in the
    list of members.
    """
    return answer.count(member_id.encode()) > 1


def _join_again(members: Iterable[Member], heartbeats: Iterable[bytes]) -> None:
    """All send heartbeats until they are told to join, and do."""
    left = list(zip(members, heartbeats, strict=True))
    while left:
        for member, heartbeat in left:
            member.connection.send(heartbeat)
        again = []
        for member, heartbeat in left:
            error = error_of(member.connection.receive())
            if error is ErrorCode.REBALANCE_IN_PROGRESS:
                member.ask_to_join()
            elif error is ErrorCode.NONE:
                again.append((member, heartbeat))
            else:
                raise Refused(f"a heartbeat was answered with {error.name}")
        left = again


def form(groups: Sequence[Group]) -> None:
    """Have all members of all groups join and be assigned, all groups at once.

    Raises Refused; also when a group's members did not find together in its first rebalance.
    """
    everybody = [member for group in groups for member in group.members]
    for member in everybody:
        member.ask_to_join()
    for member in everybody:
        member.is_given_id()
        member.ask_to_join()
    for group in groups:
        group.begin_sync()
    for group in groups:
        group.end_sync()
