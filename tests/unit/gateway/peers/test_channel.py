"""A channel to another gateway that does as it should, or anything else."""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.peers.channel import MOST_BACKOFF_SECONDS, OPEN_SECONDS, Channel
from gateway.peers.connection import MAX_ANSWER_BYTES
from gateway.peers.conversation import MAX_IN_FLIGHT
from gateway.peers.failures import (
    PeerBusy,
    PeerFailed,
    PeerGone,
    PeerLacks,
    PeerSilent,
    PeerUnreachable,
)
from gateway.peers.question import Question
from tests.unit.gateway.peers.answers import ends_answer, ends_question, framed, versions_answer, versions_of
from tests.unit.gateway.peers.other_side import Listener, OtherSide
from wireproto.kafka.schemas import REQUEST_CLASSES


class Scene:
    def __init__(self, nursery: trio.Nursery) -> None:
        self.listener = Listener()
        self.closed = 0
        self.channel = Channel("gateway 3", "gateway-1", "1.2", self.listener.open, self._on_closed)
        self.nursery = nursery
        self.answers: dict[str, Any] = {}

    def _on_closed(self) -> None:
        self.closed += 1

    def ask(self, name: str, question: Question | None = None, seconds: float = 1.0) -> None:
        """In the background: the answer, or why there is none, is in `answers`."""

        async def asking() -> None:
            deadline = trio.current_time() + seconds
            try:
                self.answers[name] = await self.channel.ask(question or ends_question(orders=[0]), deadline)
            except PeerFailed as failure:
                self.answers[name] = failure

        self.nursery.start_soon(asking)

    async def failure(self, name: str) -> PeerFailed:
        await wait_all_tasks_blocked()
        failure = self.answers[name]
        assert isinstance(failure, PeerFailed), failure
        return failure

    async def connected(self) -> OtherSide:
        """Somebody asks; the other side has its request."""
        self.ask("first")
        other = await self.listener.accept()
        await other.greet()
        return other


def run(body: Callable[[Scene], Awaitable[None]]) -> None:
    async def main() -> None:
        with trio.fail_after(1000):
            async with trio.open_nursery() as nursery:
                scene = Scene(nursery)
                nursery.start_soon(scene.channel.run)
                await body(scene)
                nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))


def offset_in(found: Any) -> int:
    offset: int = found.topics[0].partitions[0].offset
    return offset


def test_nobody_is_connected_to_before_somebody_asks_and_one_connection_is_kept() -> None:
    async def body(scene: Scene) -> None:
        await trio.sleep(100)
        assert scene.listener.opened == []
        other = await scene.connected()
        for number in range(3):
            header, request = await other.request()
            assert (header.api_key, header.api_version, header.client_id) == (2, 9, "gateway-1")
            assert request.topics[0].name == "orders"
            await other.answer(header, ends_answer(orders={0: number}))
            await wait_all_tasks_blocked()
            scene.ask(f"{number}")
        assert [offset_in(scene.answers[name]) for name in ("first", "0", "1")] == [0, 1, 2]
        assert len(scene.listener.opened) == 1

    run(body)


def test_requests_do_not_wait_for_the_answer_before() -> None:
    async def body(scene: Scene) -> None:
        other = await scene.connected()
        for name in "abc":
            scene.ask(name)
            await wait_all_tasks_blocked()
        headers = [(await other.request())[0] for _ in range(4)]
        for number, header in enumerate(headers):
            await other.answer(header, ends_answer(orders={0: number}))
        await wait_all_tasks_blocked()
        assert [offset_in(scene.answers[name]) for name in ("first", *"abc")] == [0, 1, 2, 3]

    run(body)


def test_an_answer_may_come_byte_by_byte() -> None:
    async def body(scene: Scene) -> None:
        other = await scene.connected()
        header, _ = await other.request()
        for byte in framed(ends_answer(orders={0: 7}), header.api_version, header.correlation_id):
            await other.stream.send_all(bytes([byte]))
        await wait_all_tasks_blocked()
        assert offset_in(scene.answers["first"]) == 7

    run(body)


def test_a_large_answer_is_received_whole() -> None:
    async def body(scene: Scene) -> None:
        other = await scene.connected()
        header, _ = await other.request()
        offsets = {index: index * index for index in range(5_000)}
        await other.answer(header, ends_answer(orders=offsets))
        await wait_all_tasks_blocked()
        found = scene.answers["first"].topics[0].partitions
        assert {one.partition_index: one.offset for one in found} == offsets

    run(body)


HOSTILE: list[tuple[str, bytes, str]] = [
    ("another correlation id", framed(ends_answer(orders={0: 7}), 9, 77), "for request 77"),
    ("a frame that is too large", (MAX_ANSWER_BYTES + 1).to_bytes(4, "big"), "frame size"),
    ("a frame of a negative size", b"\xff\xff\xff\xff", "frame size"),
    ("an empty frame", bytes(4), "shorter than its header"),
    ("garbage", b"HTTP/1.1 400 Bad Request\r\n\r\n", "frame size"),
    ("an answer that is cut", b"\0\0\0\6\0\0\0\1\0\0", "middle of a field"),
    ("an array without its elements", b"\0\0\0\x0e\0\0\0\1\0\0\0\0\0\xff\xff\xff\xff\x0f", "elements"),
]


@pytest.mark.parametrize(("content", "why"), [one[1:] for one in HOSTILE], ids=[one[0] for one in HOSTILE])
def test_one_that_does_not_speak_as_it_should_is_hung_up_on(content: bytes, why: str) -> None:
    async def body(scene: Scene) -> None:
        other = await scene.connected()
        scene.ask("second")
        await other.request()
        await other.stream.send_all(content)
        for name in ("first", "second"):
            failure = await scene.failure(name)
            assert isinstance(failure, PeerUnreachable)
            assert "gateway 3 does not speak as it should" in str(failure)
            assert why in str(failure)
        assert scene.closed == 0, "that says nothing about its process"
        scene.ask("third")
        again = await scene.listener.accept()
        await again.greet()
        header, _ = await again.request()
        await again.answer(header, ends_answer(orders={0: 9}))
        await wait_all_tasks_blocked()
        assert offset_in(scene.answers["third"]) == 9

    run(body)


@pytest.mark.parametrize("sent", [b"", b"\0", framed(ends_answer(orders={0: 7}), 9, 1)[:-3]])
def test_one_that_closes_before_its_answer_or_in_the_middle(sent: bytes) -> None:
    async def body(scene: Scene) -> None:
        other = await scene.connected()
        await other.request()
        if sent:
            await other.stream.send_all(sent)
        await other.stream.aclose()
        failure = await scene.failure("first")
        assert isinstance(failure, PeerUnreachable)
        assert "the connection to gateway 3 was closed" in str(failure)
        assert scene.closed == 1

    run(body)


def test_one_that_is_silent_is_hung_up_on_when_the_first_deadline_is_over() -> None:
    async def body(scene: Scene) -> None:
        scene.ask("first", seconds=3)
        other = await scene.listener.accept()
        await other.greet()
        scene.ask("second", seconds=2)
        scene.ask("third", seconds=60)
        await trio.sleep(1.9)
        assert scene.answers == {}
        await trio.sleep(0.2)
        for name in ("first", "second", "third"):
            assert isinstance(await scene.failure(name), PeerSilent)
        assert scene.closed == 0

    run(body)


def test_who_asks_too_late_leaves_the_connection_to_the_others() -> None:
    async def body(scene: Scene) -> None:
        other = await scene.connected()
        header, _ = await other.request()
        scene.ask("late", seconds=0)
        assert isinstance(await scene.failure("late"), PeerSilent)
        await other.answer(header, ends_answer(orders={0: 1}))
        await wait_all_tasks_blocked()
        assert offset_in(scene.answers["first"]) == 1

    run(body)


def test_one_that_says_nothing_after_the_connection_is_open() -> None:
    async def body(scene: Scene) -> None:
        scene.ask("first", seconds=60)
        await scene.listener.accept()
        await trio.sleep(OPEN_SECONDS + 0.1)
        assert isinstance(await scene.failure("first"), PeerSilent)

    run(body)


def test_a_connection_that_cannot_be_opened_is_tried_more_and_more_slowly() -> None:
    async def body(scene: Scene) -> None:
        scene.listener.refuses = True
        for number in range(10):
            scene.ask(f"{number}", seconds=60)
            await trio.sleep(MOST_BACKOFF_SECONDS)
            failure = await scene.failure(f"{number}")
            assert isinstance(failure, PeerUnreachable)
            assert "gateway 3 is not reached: Connection refused" in str(failure)
        assert scene.closed == 0
        scene.listener.refuses = False
        scene.ask("last", seconds=60)
        other = await scene.listener.accept()
        await other.greet()
        header, _ = await other.request()
        await other.answer(header, ends_answer(orders={0: 1}))
        await wait_all_tasks_blocked()
        assert offset_in(scene.answers["last"]) == 1

    run(body)


def test_who_asks_all_the_time_is_no_reason_to_connect_more_often() -> None:
    async def body(scene: Scene) -> None:
        scene.listener.refuses = True
        for _ in range(200):
            scene.ask("again", seconds=60)
            await trio.sleep(0.1)
        pauses = [b - a for a, b in zip(scene.listener.opened_at, scene.listener.opened_at[1:], strict=False)]
        assert pauses == sorted(pauses)
        assert pauses[-1] == pytest.approx(MOST_BACKOFF_SECONDS, abs=0.2)

    run(body)


def test_whoever_waits_for_a_connection_is_bounded_in_number_and_in_time() -> None:
    async def body(scene: Scene) -> None:
        scene.ask("first", seconds=60)
        await scene.listener.accept()
        for number in range(1, MAX_IN_FLIGHT):
            scene.ask(f"{number}", seconds=1)
        await wait_all_tasks_blocked()
        scene.ask("one too many")
        assert isinstance(await scene.failure("one too many"), PeerBusy)
        await trio.sleep(1.1)
        assert isinstance(await scene.failure("1"), PeerSilent)
        scene.ask("now there is room", seconds=1)
        await wait_all_tasks_blocked()
        assert "now there is room" not in scene.answers

    run(body)


def test_what_the_other_one_does_not_have_is_said_and_does_not_hold_up_the_rest() -> None:
    async def body(scene: Scene) -> None:
        verify = Question(REQUEST_CLASSES[24](transactions=[]), lowest=4)
        scene.ask("verify", verify)
        scene.ask("ends")
        other = await scene.listener.accept()
        header, _ = await other.request()
        await other.answer(header, versions_of({2: (1, 9), 24: (0, 3)}))
        header, _ = await other.request()
        await other.answer(header, ends_answer(orders={0: 5}))
        assert isinstance(await scene.failure("verify"), PeerLacks)
        assert offset_in(scene.answers["ends"]) == 5

    run(body)


def test_one_that_refuses_to_say_what_it_has() -> None:
    async def body(scene: Scene) -> None:
        scene.ask("first", seconds=60)
        other = await scene.listener.accept()
        header, _ = await other.request()
        await other.answer(header, versions_answer(error=41))
        assert "gateway 3 does not say what it has: error 41" in str(await scene.failure("first"))

    run(body)


class Unspeakable(Question):
    """A request with a number that is out of range."""

    def body(self, version: int) -> bytes:
        if not version:
            raise AssertionError("it is asked in a version that both have")
        raise struct.error("int format requires -2147483648 <= number <= 2147483647")


def test_a_request_that_cannot_be_encoded_ends_nothing_but_itself(caplog: pytest.LogCaptureFixture) -> None:
    async def body(scene: Scene) -> None:
        wrong = Unspeakable(REQUEST_CLASSES[2](replica_id=-1, isolation_level=0, topics=[]))
        scene.ask("wrong", wrong, seconds=60)
        scene.ask("with it", seconds=60)
        other = await scene.listener.accept()
        await other.greet()
        assert "ListOffsets cannot be encoded" in str(await scene.failure("wrong"))
        assert "gateway 3 cannot be asked ListOffsets" in caplog.text
        header, _ = await other.request()
        await other.answer(header, ends_answer(orders={0: 1}))
        await wait_all_tasks_blocked()
        assert offset_in(scene.answers["with it"]) == 1

    run(body)


def test_a_failure_that_nobody_has_thought_of_is_logged_and_the_channel_goes_on(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(scene: Scene) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(scene.channel, "_open_stream", None)
            scene.ask("first", seconds=60)
            assert isinstance(await scene.failure("first"), PeerUnreachable)
        assert "an unexpected failure in the channel to gateway 3" in caplog.text
        other = await scene.connected()
        header, _ = await other.request()
        await other.answer(header, ends_answer(orders={0: 1}))
        await wait_all_tasks_blocked()
        assert offset_in(scene.answers["first"]) == 1

    run(body)


def test_who_gives_up_leaves_the_connection_to_the_others() -> None:
    async def body(scene: Scene) -> None:
        other = await scene.connected()
        first, _ = await other.request()
        with trio.CancelScope() as scope:
            scope.deadline = trio.current_time() + 0.1
            await scene.channel.ask(ends_question(orders=[1]), trio.current_time() + 60)
        assert scope.cancelled_caught
        scene.ask("second")
        given_up, second = (await other.request())[0], (await other.request())[0]
        for number, header in enumerate((first, given_up, second)):
            await other.answer(header, ends_answer(orders={0: number}))
        await wait_all_tasks_blocked()
        assert [offset_in(scene.answers[name]) for name in ("first", "second")] == [0, 2]
        assert len(scene.listener.opened) == 1

    run(body)


def test_one_that_lives_no_more_is_told_to_all_who_wait_and_to_those_who_ask_later() -> None:
    async def body(scene: Scene) -> None:
        other = await scene.connected()
        await other.request()
        scene.channel.close(PeerGone("gateway 3 does not live any more"))
        assert isinstance(await scene.failure("first"), PeerGone)
        scene.ask("later")
        assert isinstance(await scene.failure("later"), PeerGone)
        assert await other.stream.receive_some(1) == b""

    run(body)


def test_one_that_lives_no_more_before_there_is_a_connection() -> None:
    async def body(scene: Scene) -> None:
        scene.ask("first", seconds=60)
        await scene.listener.accept()
        scene.channel.close(PeerGone("gone"))
        assert isinstance(await scene.failure("first"), PeerGone)

    run(body)
