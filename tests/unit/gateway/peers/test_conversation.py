"""Whose answer is whose, what is bounded, and what ends a connection."""

from __future__ import annotations

import math
from typing import Any

import pytest

from gateway.peers import conversation as conversation_module
from gateway.peers.conversation import MAX_IN_FLIGHT, Conversation
from gateway.peers.failures import PeerBusy
from gateway.peers.question import Question
from tests.unit.gateway.peers.answers import ends_answer, ends_question, framed
from wireproto.kafka.errors import MalformedAnswer
from wireproto.kafka.headers import parse_request_header

VERSION = 11


def conversation() -> Conversation[str]:
    return Conversation("gateway 3", "gateway-1")


def ask(made: Conversation[str], ticket: str, deadline: float = 1.0, question: Question | None = None) -> int:
    """The correlation id that it was sent with."""
    frame = made.ask(ticket, question or ends_question(orders=[0]), VERSION, deadline)
    header = parse_request_header(memoryview(frame)[4:])
    assert (header.api_key, header.api_version, header.client_id) == (2, VERSION, "gateway-1")
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    return header.correlation_id


def answer(correlation_id: int, offset: int = 7) -> memoryview:
    return memoryview(framed(ends_answer(orders={0: offset}), VERSION, correlation_id))[4:]


def offset_in(found: Any) -> int:
    offset: int = found.topics[0].partitions[0].offset
    return offset


def test_answers_come_in_the_order_of_requests() -> None:
    made = conversation()
    ids = [ask(made, ticket) for ticket in "abc"]
    assert len(set(ids)) == 3
    found = [made.take(answer(one, offset)) for offset, one in enumerate(ids)]
    assert [(ticket, offset_in(one)) for ticket, one in found] == [("a", 0), ("b", 1), ("c", 2)]
    assert made.end() == []


@pytest.mark.parametrize("which", [1, 99, -1])
def test_an_answer_that_names_another_request_than_the_oldest_is_not_believed(which: int) -> None:
    made = conversation()
    for ticket in "ab":
        ask(made, ticket)
    with pytest.raises(MalformedAnswer, match=f"for request {which}, and 0 is the oldest"):
        made.take(answer(which))
    assert made.end() == ["a", "b"]


def test_an_answer_that_nobody_asked_for_is_not_believed() -> None:
    with pytest.raises(MalformedAnswer, match="nobody"):
        conversation().take(answer(0))


def test_what_is_no_answer_leaves_its_request_unanswered() -> None:
    made = conversation()
    ask(made, "a")
    with pytest.raises(MalformedAnswer):
        made.take(answer(0)[:-1])
    assert made.end() == ["a"]


def test_no_more_requests_are_in_flight_than_there_may_be() -> None:
    made = conversation()
    ids = [ask(made, "a") for _ in range(MAX_IN_FLIGHT)]
    with pytest.raises(PeerBusy, match=f"gateway 3 has not answered {MAX_IN_FLIGHT} requests"):
        ask(made, "b")
    made.take(answer(ids[0]))
    assert ask(made, "b") == MAX_IN_FLIGHT


def test_no_more_bytes_are_in_flight_than_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(conversation().ask("a", ends_question(orders=[0]), VERSION, 1.0))
    monkeypatch.setattr(conversation_module, "MAX_IN_FLIGHT_BYTES", 2 * size)
    made = conversation()
    first, _ = ask(made, "a"), ask(made, "b")
    with pytest.raises(PeerBusy):
        ask(made, "c")
    made.take(answer(first))
    ask(made, "c")


def test_the_first_deadline_counts() -> None:
    made = conversation()
    assert made.deadline == math.inf
    ids = [ask(made, "a", deadline) for deadline in (5.0, 3.0, 4.0)]
    assert made.deadline == 3.0
    made.take(answer(ids[0]))
    made.take(answer(ids[1]))
    assert made.deadline == 4.0
    assert made.end() == ["a"]
    assert made.deadline == math.inf


def test_correlation_ids_begin_anew_before_they_are_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation_module, "_MAX_CORRELATION_ID", 2)
    made = conversation()
    found = []
    for _ in range(5):
        found.append(ask(made, "a"))
        made.take(answer(found[-1]))
    assert found == [0, 1, 2, 0, 1]
