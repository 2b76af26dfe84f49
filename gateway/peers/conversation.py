"""What was asked over one connection and is not answered yet: whose answer is whose, and how long to wait.
Pure.

Kafka's protocol answers requests in the order in which they came. So an answer belongs to the oldest request
that waits, and must name it: one that names another, or that is none, ends the connection, since nothing that
follows can be relied on. So does a request whose time is over: those behind it wait for the same answer (as
Kafka's NetworkClient does, which closes the connection of a request that timed out).
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any, Final, Generic, NamedTuple, TypeVar

from gateway.peers.failures import PeerBusy
from gateway.peers.question import Question
from wireproto.kafka.asking import correlation_id_of, decode_answer, frame_request
from wireproto.kafka.errors import MalformedAnswer

MAX_IN_FLIGHT: Final = 32
"""Requests to one gateway that are not answered. A gateway asks a few kinds of things, and of each in a
round; Kafka's brokers have five of a kind in flight (`max.in.flight.requests.per.connection`)."""

MAX_IN_FLIGHT_BYTES: Final = 4 * 1024 * 1024
"""Bytes of those: half of the largest request that a gateway takes (`gateway.front.limits`). They are in
memory until they are answered."""

_MAX_CORRELATION_ID: Final = 2**31 - 1

Ticket = TypeVar("Ticket")


class _Asked(NamedTuple, Generic[Ticket]):
    ticket: Ticket
    correlation_id: int
    api_key: int
    version: int
    size: int
    deadline: float


class Conversation(Generic[Ticket]):
    """Over one connection. A ticket is whoever waits for an answer; times are of one clock, in seconds."""

    def __init__(self, who: str, client_id: str) -> None:
        self._who = who
        self._client_id = client_id
        self._next = 0
        self._waiting: deque[_Asked[Ticket]] = deque()
        self._bytes = 0

    def ask(self, ticket: Ticket, question: Question, version: int, deadline: float) -> bytes:
        """What is to be sent. Raises PeerBusy."""
        body = question.body(version)
        frame = frame_request(question.api_key, version, self._next, self._client_id, body)
        if len(self._waiting) >= MAX_IN_FLIGHT or self._bytes + len(frame) > MAX_IN_FLIGHT_BYTES:
            raise PeerBusy(f"{self._who} has not answered {len(self._waiting)} requests yet")
        asked = _Asked(ticket, self._next, question.api_key, version, len(frame), deadline)
        self._waiting.append(asked)
        self._bytes += len(frame)
        self._next = 0 if self._next == _MAX_CORRELATION_ID else self._next + 1
        return frame

    def take(self, frame: memoryview) -> tuple[Ticket, Any]:
        """Whose answer it is, and the answer. Raises MalformedAnswer: nothing more is to be believed."""
        correlation_id = correlation_id_of(frame)
        if not self._waiting:
            raise MalformedAnswer("an answer came that nobody has asked for")
        asked = self._waiting[0]
        if correlation_id != asked.correlation_id:
            raise MalformedAnswer(
                f"the answer is for request {correlation_id}, and {asked.correlation_id} is the oldest"
            )
        answer = decode_answer(asked.api_key, asked.version, frame)
        self._waiting.popleft()
        self._bytes -= asked.size
        return asked.ticket, answer

    @property
    def deadline(self) -> float:
        """When the first of those that wait has waited long enough; never, where none does."""
        return min((asked.deadline for asked in self._waiting), default=math.inf)

    def end(self) -> list[Ticket]:
        """Nothing more will be answered: those that have waited."""
        left = [asked.ticket for asked in self._waiting]
        self._waiting.clear()
        self._bytes = 0
        return left
