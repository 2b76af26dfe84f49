"""Talks to the members of an etcd: one question and its answer, or a watch.

Rule: every question has a deadline. etcd's own one is 7 s, and a member that was stopped answers nothing at
all. It is told to the member, too, which then need not go on with what nobody waits for.

Rule: a question says that it wants a member that knows a leader: one that was cut off answers at once that it
has none, and another one is asked.

A `Line` is one connection to each member, for one question at a time. What a member answers is bounded before
it is in memory.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import trio

from gateway.catalog.etcd.connection import Broken, Connection, NotConnected
from gateway.catalog.etcd.credentials import Identity
from gateway.catalog.etcd.following import MAX_HELD_BYTES
from gateway.catalog.etcd.words import (
    AUTHENTICATE,
    WATCH,
    Body,
    NotSent,
    NotUnderstood,
    Refused,
    Unknown,
    judge,
    wants_token,
)
from mesh.protocol.endpoints import in_brackets

if TYPE_CHECKING:
    from gateway.catalog.etcd.credentials import Credentials

ANSWER_SECONDS: Final = 2.0
"""Longest wait for an answer: an election takes 1 to 2 s, and members without a leader say so at once."""

AGAIN_SECONDS: Final = 1.0
"""Before a password that was refused is tried again: etcd spends a tenth of a second of a core on each."""

MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024
"""Bytes of an answer: a page of a thousand usual entries has half a million, and a smaller one is asked for
where it is too long."""

TOO_LONG: Final = Unknown(f"an answer of more than {MAX_ANSWER_BYTES} bytes")

HEADERS: Final = (
    ("Content-Type", "application/json"),
    # By it a member knows that the question came through its JSON gateway. Without it, where clients show
    # certificates, it takes the name in its own one for the user, who may do nothing, and asks for no token.
    ("Accept", "application/json"),
    ("Grpc-Metadata-hasleader", "true"),
)
"""Of each question."""


class Etcd:
    """The members. `member` is the one that is asked first: one that fails is followed by the next."""

    def __init__(self, members: tuple[tuple[str, int], ...], credentials: Credentials) -> None:
        """Raises OSError: a file of the credentials cannot be used."""
        self.names = [f"{in_brackets(host)}:{port}" for host, port in members]
        self.member = 0
        self.failures: dict[int, str] = {}
        """What was wrong with a member when it was asked last, of those that did not answer."""
        self._members = members
        self._identity = Identity(credentials)
        self.token = ""
        """What requests show; another one once `authenticate` has got it."""
        self._wrong: tuple[str, float, Refused] | None = None
        """The password that was refused last, when, and how."""
        self._lines: list[Line] = []
        self._authenticating = trio.Lock()

    def line(self) -> Line:
        """Connections of somebody's own."""
        line = Line(self)
        self._lines.append(line)
        return line

    def connection(self, member: int) -> Connection:
        """A new one."""
        host, port = self._members[member]
        return Connection(host, port, self._identity.context)

    def headers(self, path: str, seconds: float | None) -> list[tuple[str, str]]:
        """Of a question with this deadline."""
        headers = [*HEADERS]
        if seconds is not None:
            headers.append(("Grpc-Timeout", f"{int(seconds * 1000)}m"))
        # Who asks for a new token with one that is no longer good gets none.
        if self.token and path != AUTHENTICATE:
            headers.append(("Authorization", self.token))
        return headers

    def failed(self, member: int, reason: str) -> None:
        """A member did not answer: the next one is asked first."""
        self.failures[member] = reason
        if member == self.member:
            self.member = (member + 1) % len(self.names)

    def answered(self, member: int) -> None:
        self.failures.pop(member, None)

    @property
    def complaint(self) -> str:
        """What is wrong with each member that did not answer."""
        return "; ".join(f"{self.names[each]}: {reason}" for each, reason in sorted(self.failures.items()))

    async def authenticate(self, line: Line, member: int, refused: str) -> Refused | Unknown | NotSent | None:
        """Have another token than the one that was `refused`; what is wrong otherwise."""
        async with self._authenticating:
            if self.token != refused:
                return None  # somebody else has one now
            password = self._identity.password()
            if (refusal := self._refusal_of(password)) is not None:
                return refusal
            body = {"name": self._identity.user, "password": password}
            answer = await line.ask_once(AUTHENTICATE, body, member, ANSWER_SECONDS)
            if isinstance(answer, Refused):
                self._wrong = password, trio.current_time(), answer
            if not isinstance(answer, dict):
                return answer
            self.token = str(answer.get("token", ""))
            return None

    def _refusal_of(self, password: str) -> Refused | None:
        """How it was refused a moment ago."""
        if self._wrong is None:
            return None
        wrong, at, refusal = self._wrong
        return refusal if password == wrong and trio.current_time() < at + AGAIN_SECONDS else None

    @property
    def has_user(self) -> bool:
        return bool(self._identity.user)

    def close(self) -> None:
        for line in self._lines:
            line.close()


class Line:
    """See the module. One task uses it at a time."""

    def __init__(self, etcd: Etcd) -> None:
        self._etcd = etcd
        self._connections: dict[int, Connection] = {}

    async def ask(
        self, path: str, body: Body, *, member: int | None = None, seconds: float = ANSWER_SECONDS
    ) -> Body | Refused | Unknown | NotSent:
        """The answer of a member; authenticates where that is needed."""
        etcd = self._etcd
        asked = etcd.member if member is None else member
        shown = etcd.token
        answer = await self.ask_once(path, body, asked, seconds)
        if isinstance(answer, Refused) and etcd.has_user and wants_token(answer):
            refusal = await etcd.authenticate(self, asked, shown)
            answer = refusal or await self.ask_once(path, body, asked, seconds)
        if isinstance(answer, Unknown | NotSent):
            etcd.failed(asked, answer.reason)
        else:
            etcd.answered(asked)
        return answer

    async def ask_once(
        self, path: str, body: Body, member: int, seconds: float
    ) -> Body | Refused | Unknown | NotSent:
        content = _content(body)
        connection = self._connections.get(member)
        if connection is None:
            connection = self._connections[member] = self._etcd.connection(member)
        try:
            with trio.move_on_after(seconds):
                status = await connection.begin(path, self._etcd.headers(path, seconds), content)
                answer = await _bounded(connection)
                return TOO_LONG if answer is None else judge(status, answer)
        except NotConnected as error:
            return NotSent(str(error))
        except Broken as error:
            return Unknown(str(error))
        return Unknown(f"no answer within {seconds:g} s")

    def close(self) -> None:
        connections, self._connections = self._connections, {}
        for connection in connections.values():
            connection.drop()


class WatchLines:
    """The lines of a watch at a member, as JSON, until `close`."""

    def __init__(self, etcd: Etcd, member: int) -> None:
        self._etcd = etcd
        self._connection = etcd.connection(member)
        self._held = bytearray()
        self._lines: list[bytes] = []

    async def begin(self, body: Body) -> None:
        """Raises NotConnected, Broken."""
        with trio.move_on_after(ANSWER_SECONDS) as waited:
            await self._connection.begin(WATCH, self._etcd.headers(WATCH, None), _content(body))
        if waited.cancelled_caught:
            raise Broken(f"no answer within {ANSWER_SECONDS:g} s")

    async def next(self) -> dict[str, Any] | None:
        """The next line, None behind the last. Raises Broken; NotUnderstood."""
        while not self._lines:
            chunk = await self._connection.more()
            if chunk is None:
                return None
            self._held += chunk
            if len(self._held) > MAX_HELD_BYTES:
                raise NotUnderstood(f"a line of a watch has more than {MAX_HELD_BYTES} bytes")
            if b"\n" in chunk:
                *lines, rest = bytes(self._held).split(b"\n")
                self._held = bytearray(rest)
                self._lines = [line for line in reversed(lines) if line.strip()]
        return _object(self._lines.pop())

    def close(self) -> None:
        self._connection.drop()


def _content(body: Body) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()


def _object(line: bytes) -> dict[str, Any]:
    try:
        told = json.loads(line)
    except (ValueError, RecursionError):
        raise NotUnderstood("a line of a watch is no JSON") from None
    if not isinstance(told, dict):
        raise NotUnderstood("a line of a watch is no object")
    return told


async def _bounded(connection: Connection) -> bytes | None:
    """The content of an answer, None where there is too much of it."""
    parts, size = [], 0
    while (part := await connection.more()) is not None:
        size += len(part)
        if size > MAX_ANSWER_BYTES:
            connection.drop()
            return None
        parts.append(part)
    return b"".join(parts)
