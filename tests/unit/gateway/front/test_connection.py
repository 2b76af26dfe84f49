"""One connection: order, pipelining, sizes and bugs, over real sockets."""

from __future__ import annotations

import logging
import struct
import threading
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from gateway.common.failures import DiskFailed
from gateway.common.handlers import Request, Response
from gateway.front.dispatch import MAX_DECODED_ON_LOOP_BYTES
from gateway.front.limits import FREE_ELEMENTS, PRODUCED_ELEMENT_BYTES, Limits
from tests.unit.gateway.kafka_wire import (
    BEGIN,
    ECHO,
    HANG_SECONDS,
    PARK,
    Client,
    Fakes,
    Pending,
    ProduceBody,
    Running,
    answer,
    produce_body,
    raw_body,
    request,
    run,
    running,
)
from wireproto.kafka.errors import MalformedRequest
from wireproto.kafka.produce import ManyPartitions

KIB, MIB = 1024, 1024 * 1024


def serve(
    body: Callable[[Running, Client], Awaitable[None]],
    limits: Limits | None = None,
    fakes: Fakes | None = None,
) -> None:
    """Runs `body` against a server, with one client of it."""

    async def main() -> None:
        async with running(limits, fakes=fakes) as server, server.client() as client:
            await body(server, client)

    run(main)


def test_one_write_may_bring_many_requests_and_answers_come_in_order() -> None:
    async def body(server: Running, client: Client) -> None:
        bodies = [b"%d" % i * (i % 50) for i in range(1000)]
        await client.send(*(request(ECHO, i, each) for i, each in enumerate(bodies)))
        expected = b"".join(answer(i, each) for i, each in enumerate(bodies))
        assert await client.read(len(expected)) == expected
        assert server.fakes.ran == bodies

    serve(body)


def test_requests_that_come_byte_by_byte_are_answered_all_the_same() -> None:
    async def body(server: Running, client: Client) -> None:
        for byte in request(ECHO, 1, b"abc") + request(ECHO, 2, b""):
            await client.send(bytes([byte]))
            await wait_all_tasks_blocked()
        expected = answer(1, b"abc") + answer(2)
        assert await client.read(len(expected)) == expected

    serve(body)


@pytest.mark.parametrize("size", [1, 8 * KIB - 20, 8 * KIB, 16 * KIB - 1, 16 * KIB, 100 * KIB, 3 * MIB])
def test_a_request_of_any_size_arrives_whole(size: int) -> None:
    async def body(server: Running, client: Client) -> None:
        large = bytes(range(256)) * (size // 256 + 1)
        frames = [request(ECHO, 1, b"before"), request(ECHO, 2, large[:size]), request(ECHO, 3, b"after")]
        expected = answer(1, b"before") + answer(2, large[:size]) + answer(3, b"after")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(client.send, *frames))
            assert await client.read(len(expected)) == expected
        assert server.server.context.request_memory.used == 0

    serve(body)


def test_a_produce_begins_while_earlier_ones_wait_and_answers_keep_the_order() -> None:
    async def body(server: Running, client: Client) -> None:
        fakes = server.fakes
        await client.send(*(request(BEGIN, i, b"%d" % i) for i in range(3)))
        await wait_all_tasks_blocked()
        assert fakes.ran == [b"0", b"1", b"2"]
        fakes.pending[2].finish()
        fakes.pending[1].finish()
        await wait_all_tasks_blocked()
        await client.send(request(BEGIN, 3, b"3"))
        await wait_all_tasks_blocked()
        assert fakes.ran[-1] == b"3"
        fakes.pending[0].finish()
        assert [await client.frame() for _ in range(3)] == [answer(i, b"%d" % i) for i in range(3)]
        fakes.pending[3].finish()
        assert await client.frame() == answer(3, b"3")

    serve(body)


def test_anything_but_a_produce_waits_for_all_answers_before_it() -> None:
    async def body(server: Running, client: Client) -> None:
        fakes = server.fakes
        await client.send(
            request(BEGIN, 1, b"p1"), request(ECHO, 2, b"e"), request(BEGIN, 3, b"p2"), request(ECHO, 4, b"f")
        )
        await wait_all_tasks_blocked()
        assert fakes.ran == [b"p1"]
        fakes.pending[0].finish()
        assert await client.frame() == answer(1, b"p1")
        assert await client.frame() == answer(2, b"e")
        await wait_all_tasks_blocked()
        assert fakes.ran == [b"p1", b"e", b"p2"]
        fakes.pending[1].finish()
        assert await client.frame() == answer(3, b"p2")
        assert await client.frame() == answer(4, b"f")

    serve(body)


def test_a_parked_request_holds_back_what_follows_but_not_what_went_before() -> None:
    async def body(server: Running, client: Client) -> None:
        fakes = server.fakes
        await client.send(
            request(ECHO, 1, b"a"), request(PARK, 2, b"p"), request(BEGIN, 3, b"q"), request(ECHO, 4, b"b")
        )
        assert await client.frame() == answer(1, b"a")  # though the next one is parked
        await wait_all_tasks_blocked()
        assert fakes.ran == [b"a", b"p"]
        async with server.client() as other:
            await other.send(request(ECHO, 9, b"c"))
            assert await other.frame() == answer(9, b"c")
        fakes.release.set()
        assert await client.frame() == answer(2, b"p")
        await wait_all_tasks_blocked()
        assert fakes.ran == [b"a", b"p", b"c", b"q"]
        fakes.pending[0].finish()
        assert await client.frame() == answer(3, b"q")
        assert await client.frame() == answer(4, b"b")

    serve(body)


def test_an_answer_behind_a_pending_one_does_not_hold_back_one_that_is_ready() -> None:
    async def body(server: Running, client: Client) -> None:
        await client.send(request(BEGIN, 1, b"1"), request(BEGIN, 2, b"2"))
        await wait_all_tasks_blocked()
        server.fakes.pending[0].finish()
        assert await client.frame() == answer(1, b"1")
        server.fakes.pending[1].finish()
        assert await client.frame() == answer(2, b"2")

    serve(body)


def test_a_request_without_an_answer_keeps_its_place() -> None:
    async def body(server: Running, client: Client) -> None:
        await client.send(request(BEGIN, 1, b"1"), request(BEGIN, 2, b"2"), request(ECHO, 3, b"3"))
        await wait_all_tasks_blocked()
        server.fakes.pending[0].silent = True
        for pending in server.fakes.pending:
            pending.finish()
        assert await client.frame() == answer(2, b"2")
        assert await client.frame() == answer(3, b"3")

    serve(body)


def test_no_more_produces_begin_than_may_be_in_flight() -> None:
    async def body(server: Running, client: Client) -> None:
        fakes = server.fakes
        await client.send(*(request(BEGIN, i, b"%d" % i) for i in range(5)))
        await wait_all_tasks_blocked()
        assert len(fakes.pending) == 2
        fakes.pending[0].finish()
        assert await client.frame() == answer(0, b"0")
        await wait_all_tasks_blocked()
        assert len(fakes.pending) == 3
        for i in range(1, 5):
            fakes.pending[i].finish()
            assert await client.frame() == answer(i, b"%d" % i)
            await wait_all_tasks_blocked()

    serve(body, Limits(max_in_flight_requests=2))


def test_no_more_bytes_are_in_flight_than_may_be_unless_it_is_one_request() -> None:
    async def body(server: Running, client: Client) -> None:
        fakes = server.fakes
        large = bytes(100 * KIB)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(
                client.send, request(BEGIN, 0, large), request(BEGIN, 1, b"1"), request(BEGIN, 2, large)
            )
            await wait_all_tasks_blocked()
            assert [p.body for p in fakes.pending] == [large]  # alone, it may be larger
            fakes.pending[0].finish()
            assert await client.frame() == answer(0, large)
            await wait_all_tasks_blocked()
            assert [p.body for p in fakes.pending] == [large, b"1"]
            fakes.pending[1].finish()
            assert await client.frame() == answer(1, b"1")
            await wait_all_tasks_blocked()
            fakes.pending[2].finish()
            assert await client.frame() == answer(2, large)
        assert server.server.context.request_memory.used == 0

    serve(body, Limits(max_in_flight_bytes=64 * KIB))


def test_requests_wait_for_memory_before_it_is_allocated_and_others_go_on() -> None:
    async def body(server: Running, client: Client) -> None:
        fakes, memory = server.fakes, server.server.context.request_memory
        large = bytes(80 * KIB)
        await client.send(request(BEGIN, 1, large))
        await wait_all_tasks_blocked()
        assert memory.used > 80 * KIB
        async with server.client() as second, trio.open_nursery() as nursery:
            nursery.start_soon(second.send, request(ECHO, 2, large))
            await wait_all_tasks_blocked()
            assert memory.waiting == 1
            assert fakes.ran == [large]
            fakes.pending[0].finish()
            assert await second.frame() == answer(2, large)
        assert await client.frame() == answer(1, large)
        assert memory.used == 0

    serve(body, Limits(max_request_bytes=100 * KIB, request_memory_bytes=100 * KIB))


@pytest.mark.parametrize("size", [600, 100 * KIB])
def test_a_request_that_waits_for_minutes_gives_its_memory_back_at_once(size: int) -> None:
    """As JoinGroup does; its answer comes all the same, and what is given back is not given twice."""
    waits = 11
    fakes = Fakes()
    gone: list[bool] = []
    begun = trio.Semaphore(0)

    def copied_body(_version: int, frame: memoryview, offset: int) -> bytes:
        return bytes(frame[offset:])

    @fakes.registry.api(key=waits, name="Wait", min_version=0, max_version=0, decoder=copied_body)
    async def wait(request: Request, broker: object) -> Response:
        request.forget_frame()
        request.forget_frame()
        try:
            len(request.frame)
        except ValueError:
            gone.append(True)
        begun.release()
        await fakes.release.wait()
        return answer(request.header.correlation_id, request.body)

    async def body(server: Running, client: Client) -> None:
        context = server.server.context
        await client.send(request(waits, 1, b"x" * size), request(ECHO, 2, b"behind it"))
        await begun.acquire()  # a large one is decoded in a thread
        await wait_all_tasks_blocked()
        assert gone == [True]
        assert (context.request_memory.used, context.small_request_memory.used) == (0, 0)
        fakes.release.set()
        assert await client.frame() == answer(1, b"x" * size)
        assert await client.frame() == answer(2, b"behind it")
        assert (context.request_memory.used, context.small_request_memory.used) == (0, 0)
        async with server.client() as other:
            fakes.release = trio.Event()
            await other.send(request(waits, 3, b"y" * size))
            await begun.acquire()
        fakes.release.set()
        await wait_all_tasks_blocked()
        assert (context.request_memory.used, context.small_request_memory.used) == (0, 0)

    serve(body, fakes=fakes)


def test_a_request_takes_memory_for_what_it_becomes_when_its_turn_has_come() -> None:
    """Those before it may take as long as their client likes: others would wait for that memory."""
    large = bytes(40 * KIB)

    async def body(server: Running, client: Client) -> None:
        memory = server.server.context.decoded_memory
        await client.send(request(BEGIN, 1, b"waits"), request(ECHO, 2, large))
        await wait_all_tasks_blocked()
        assert memory.used == 0
        async with server.client() as other:
            await other.send(request(ECHO, 3, large))
            assert await other.frame() == answer(3, large)
        server.fakes.pending[0].finish()
        assert await client.frame() == answer(1, b"waits")
        assert await client.frame() == answer(2, large)
        assert memory.used == 0

    serve(body, Limits(decoded_memory_bytes=1 * KIB))


def test_memory_comes_back_from_a_client_that_leaves_in_the_middle() -> None:
    async def body(server: Running, client: Client) -> None:
        memory = server.server.context.request_memory
        async with server.client() as other:
            await other.send(request(BEGIN, 1, bytes(30 * KIB)), request(ECHO, 2, bytes(1 * MIB))[:-1])
            await wait_all_tasks_blocked()
            assert memory.used > 1 * MIB
        server.fakes.pending[0].finish()
        await wait_all_tasks_blocked()
        assert memory.used == 0
        assert len(server.server.connections) == 1

    serve(body)


def test_small_requests_wait_for_memory_of_their_own() -> None:
    async def body(server: Running, client: Client) -> None:
        memory = server.server.context.small_request_memory
        await client.send(request(BEGIN, 1, b"x" * 600))
        await wait_all_tasks_blocked()
        assert 600 < memory.used < 700
        async with server.client() as second:
            await second.send(request(ECHO, 2, b"y" * 600))
            await wait_all_tasks_blocked()
            assert memory.waiting == 1
            server.fakes.pending[0].finish()
            assert await second.frame() == answer(2, b"y" * 600)
        assert await client.frame() == answer(1, b"x" * 600)
        assert memory.used == 0

    serve(body, Limits(small_request_memory_bytes=1000))


def test_a_client_that_closes_its_sending_side_still_gets_its_answers() -> None:
    async def body(server: Running, client: Client) -> None:
        await client.send(request(BEGIN, 1, b"p"), request(ECHO, 2, b"e"))
        await client.stream.send_eof()
        await wait_all_tasks_blocked()
        server.fakes.pending[0].finish()
        assert await client.frame() == answer(1, b"p")
        assert await client.frame() == answer(2, b"e")
        assert await client.closed()

    serve(body)


def test_a_client_with_many_requests_does_not_keep_others_waiting() -> None:
    async def body(server: Running, client: Client) -> None:
        async with server.client() as other:
            await client.send(*(request(ECHO, i, b"many") for i in range(2000)))
            await other.send(request(ECHO, 7, b"one"))
            assert await other.frame() == answer(7, b"one")
            for i in range(2000):
                assert await client.frame() == answer(i, b"many")
        assert server.fakes.ran.index(b"one") < 200

    serve(body)


def test_producers_wait_at_a_closed_gate_and_nobody_else_does() -> None:
    async def body(server: Running, client: Client) -> None:
        gate = server.server.context.produce_gate
        gate.close()
        async with server.client() as producer:
            await producer.send(request(BEGIN, 1, b"p"))
            await client.send(request(ECHO, 2, b"e"))
            assert await client.frame() == answer(2, b"e")
            await wait_all_tasks_blocked()
            assert server.fakes.ran == [b"e"]
            gate.open()
            await wait_all_tasks_blocked()
            server.fakes.pending[0].finish()
            assert await producer.frame() == answer(1, b"p")

    serve(body, fakes=Fakes())


def test_a_large_answer_is_accounted_until_it_is_written() -> None:
    fakes = Fakes()
    piece = bytes(range(256)) * 4 * KIB

    @fakes.registry.api(
        key=1,
        name="Large",
        min_version=0,
        max_version=0,
        decoder=raw_body,
    )
    async def large(request: Request, broker: object) -> Response:
        await request.reserve(8 * MIB)
        head = struct.pack(">ii", 4 + 8 * len(piece), request.header.correlation_id)
        return [head, *([memoryview(piece)] * 8)]

    async def body(server: Running, client: Client) -> None:
        memory = server.server.context.response_memory
        await client.send(request(1, 5), request(ECHO, 6, b"after"))
        await wait_all_tasks_blocked()
        assert memory.used == 8 * MIB  # the client has not read
        assert fakes.ran == []  # and gets no further answer made
        assert await client.frame() == struct.pack(">ii", 4 + 8 * MIB, 5) + piece * 8
        assert await client.frame() == answer(6, b"after")
        await wait_all_tasks_blocked()
        assert memory.used == 0

    serve(body, fakes=fakes)


@pytest.mark.parametrize("where", ["handler", "begin", "response"])
def test_a_bug_closes_its_connection_after_the_answers_before_it_and_nothing_else(
    where: str, caplog: pytest.LogCaptureFixture
) -> None:
    fakes = buggy(where, ZeroDivisionError("deliberate"))

    async def body(server: Running, client: Client) -> None:
        async with server.client() as other:
            await other.send(request(ECHO, 1, b"fine"), request(1, 2), request(ECHO, 3, b"never"))
            assert await other.frame() == answer(1, b"fine")
            assert await other.closed()
        await client.send(request(ECHO, 4, b"alive"))
        assert await client.frame() == answer(4, b"alive")
        assert fakes.ran == [b"fine", b"alive"]
        assert server.server.metrics.connections_closed == {("bug",): 1}

    with caplog.at_level(logging.ERROR):
        serve(body, fakes=fakes)
    assert "ZeroDivisionError: deliberate" in caplog.text


def test_a_failed_request_that_has_no_answer_closes_the_connection_after_the_answers_before_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def body(server: Running, client: Client) -> None:
        async with server.client() as other:
            await other.send(*(request(BEGIN, i, b"%d" % i) for i in range(3)))
            await wait_all_tasks_blocked()
            first, second, third = server.fakes.pending
            second.error = MalformedRequest("an append with acks=0 failed")
            for pending in (third, second, first):
                pending.finish()
            assert await other.frame() == answer(0, b"0")
            assert await other.closed()
        assert server.server.metrics.connections_closed == {("malformed",): 1}

    with caplog.at_level(logging.WARNING):
        serve(body)
    (record,) = caplog.records
    assert "an append with acks=0 failed" in record.getMessage()
    assert record.exc_info is None


@pytest.mark.parametrize("where", ["handler", "begin", "response"])
def test_a_failed_disk_ends_the_server(where: str) -> None:
    fakes = buggy(where, DiskFailed("the disk of /data failed"))

    async def body(server: Running, client: Client) -> None:
        await client.send(request(1, 2))
        await trio.sleep_forever()

    with pytest.RaisesGroup(
        pytest.RaisesExc(DiskFailed, match="the disk of /data failed"), flatten_subgroups=True
    ):
        serve(body, fakes=fakes)


def buggy(where: str, error: Exception) -> Fakes:
    """A registry whose API 1 fails in its handler, in its `begin`, or in the pending response."""
    fakes = Fakes()

    class Broken(Pending):
        def response(self) -> Response:
            raise error

    async def handler(request: Request, broker: object) -> Response:
        raise error

    async def begin(request: Request, broker: object) -> Broken:
        if where == "begin":
            raise error
        broken = Broken(request)
        broken.finish()
        return broken

    fakes.registry.api(
        key=1, name="Broken", min_version=0, max_version=0, begin=where != "handler",
        decoder=produce_body,
    )(handler if where == "handler" else begin)  # fmt: skip
    return fakes


def test_requests_are_counted_by_api() -> None:
    async def body(server: Running, client: Client) -> None:
        first, second = request(ECHO, 1, b"abc"), request(ECHO, 2, b"d" * 500)
        await client.send(first, second)
        assert await client.frame() == answer(1, b"abc")
        assert await client.frame() == answer(2, b"d" * 500)
        stats = server.server.metrics.apis[ECHO]
        assert stats.requests == 2
        assert stats.request_bytes == len(first) + len(second) - 8
        assert stats.response_bytes == 8 + 3 + 8 + 500
        assert sum(stats.latency.counts) == 2

    serve(body)


def test_handlers_learn_the_address_that_clients_are_to_use() -> None:
    fakes = Fakes()
    seen: list[tuple[object, ...]] = []

    @fakes.registry.api(key=1, name="Where", min_version=0, max_version=0, decoder=lambda *_: None)
    async def where(request: Request, broker: object) -> Response:
        seen.append((request.local_address, request.client_address, request.header.client_id))
        return answer(request.header.correlation_id)

    async def main() -> None:
        async with running(listen="0.0.0.0:0", fakes=fakes) as server:
            port = server.address[1]
            stream = await trio.open_tcp_stream("127.0.0.1", port)
            async with stream:
                client = Client(stream)
                await client.send(request(1, 1, client="spark-1"))
                assert await client.frame() == answer(1)
                mine = stream.socket.getsockname()
        assert seen == [(("127.0.0.1", port), f"{mine[0]}:{mine[1]}", "spark-1")]

    run(main)


# large requests -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("broken", [False, True])
def test_others_are_served_while_a_large_request_is_decoded(broken: bool) -> None:
    """It is decoded in a worker thread; small ones, and records, are not worth that."""
    fakes = Fakes()
    others_were_served = threading.Event()
    threads: list[threading.Thread] = []

    def slow(version: int, frame: memoryview, offset: int) -> memoryview:
        threads.append(threading.current_thread())
        if len(frame) > MAX_DECODED_ON_LOOP_BYTES:
            assert others_were_served.wait(HANG_SECONDS)
            if broken:
                raise MalformedRequest("a test")
        return raw_body(version, frame, offset)

    @fakes.registry.api(key=2, name="Slow", min_version=0, max_version=0, decoder=slow)
    async def answer_slowly(request: Request, broker: object) -> Response:
        return answer(request.header.correlation_id, bytes(request.body))

    large = bytes(MAX_DECODED_ON_LOOP_BYTES)

    async def body(server: Running, client: Client) -> None:
        async with server.client() as other:
            await client.send(request(2, 1, b"small"))
            assert await client.frame() == answer(1, b"small")
            await client.send(request(2, 2, large), request(ECHO, 3, b"after"))
            for number in range(3):
                await other.send(request(ECHO, number, b"others"))
                assert await other.frame() == answer(number, b"others")
            others_were_served.set()
            if broken:
                assert await client.closed()
            else:
                assert await client.frame() == answer(2, large)
                assert await client.frame() == answer(3, b"after")
        assert [thread is threading.main_thread() for thread in threads] == [True, False]

    serve(body, fakes=fakes)


MANY = 21


class Producing(Fakes):
    """Its Produce has as many elements as its body says; of more than a few it decodes beside the loop."""

    def __init__(self, few: int = 256) -> None:
        super().__init__()
        self.threads: list[threading.Thread] = []
        self.others_were_served = threading.Event()
        self.room: list[trio.Event] = []

        def decode(_version: int, frame: memoryview, offset: int) -> ProduceBody:
            self.threads.append(threading.current_thread())
            content = bytes(frame[offset:])
            return ProduceBody(content, elements=int(content))

        def decode_few(version: int, frame: memoryview, offset: int) -> ProduceBody:
            body = decode(version, frame, offset)
            if body.elements > few:
                raise ManyPartitions
            return body

        def decode_many(version: int, frame: memoryview, offset: int) -> ProduceBody:
            assert self.others_were_served.wait(HANG_SECONDS)
            return decode(version, frame, offset)

        @self.registry.api(
            key=MANY, name="Many", min_version=0, max_version=0, decoder=decode_few, begin=True,
            large_decoder=decode_many,
        )  # fmt: skip
        async def begin(request: Request, broker: object) -> Pending:
            if self.room and not self.room[0].is_set():
                await request.wait_for_room(self.room[0].wait)
            pending = Pending(request)
            self.pending.append(pending)
            return pending


def test_others_are_served_while_a_produce_of_very_many_partitions_is_decoded() -> None:
    fakes = Producing()

    async def body(server: Running, client: Client) -> None:
        await client.send(request(MANY, 1, b"256"), request(MANY, 2, b"257"), request(MANY, 3, b"1"))
        async with server.client() as other:
            for number in range(3):
                await other.send(request(ECHO, number, b"others"))
                assert await other.frame() == answer(number, b"others")
        fakes.others_were_served.set()
        while len(fakes.pending) < 3:
            await wait_all_tasks_blocked(0.001)
        for pending in fakes.pending:
            pending.finish()
        for number, content in enumerate([b"256", b"257", b"1"], 1):
            assert await client.frame() == answer(number, content)
        assert [thread is threading.main_thread() for thread in fakes.threads] == [True, True, False, True]

    serve(body, fakes=fakes)


def test_producers_of_many_partitions_wait_for_each_other_and_nobody_else_does() -> None:
    fakes = Producing(few=1000)
    limits = Limits(produced_memory_bytes=100 * PRODUCED_ELEMENT_BYTES)

    async def body(server: Running, client: Client) -> None:
        memory = server.server.context.produced_memory
        await client.send(request(MANY, 1, b"%d" % (60 + FREE_ELEMENTS)))
        await wait_all_tasks_blocked()
        assert memory.used == 60 * PRODUCED_ELEMENT_BYTES
        async with server.client() as second, server.client() as third:
            await second.send(request(MANY, 2, b"%d" % (60 + FREE_ELEMENTS)))
            await wait_all_tasks_blocked()
            assert (len(fakes.pending), memory.waiting) == (1, 1)
            await third.send(request(MANY, 3, b"%d" % FREE_ELEMENTS), request(ECHO, 4, b"x" * 40 * KIB))
            await wait_all_tasks_blocked()
            fakes.pending[1].finish()
            assert await third.frame() == answer(3, b"%d" % FREE_ELEMENTS)
            assert await third.frame() == answer(4, b"x" * 40 * KIB)
            fakes.pending[0].finish()
            assert await client.frame() == answer(1, b"76")
            await wait_all_tasks_blocked()
            assert len(fakes.pending) == 3
            fakes.pending[2].finish()
            assert await second.frame() == answer(2, b"76")
        assert memory.used == 0

    serve(body, limits, fakes)


def test_what_requests_become_counts_among_what_is_in_flight() -> None:
    fakes = Producing(few=1000)

    async def body(_server: Running, client: Client) -> None:
        await client.send(*(request(MANY, number, b"116") for number in range(3)))
        await wait_all_tasks_blocked()
        assert len(fakes.pending) == 2
        fakes.pending[0].finish()
        assert await client.frame() == answer(0, b"116")
        await wait_all_tasks_blocked()
        assert len(fakes.pending) == 3
        for number in (1, 2):  # or the end waits for them
            fakes.pending[number].finish()

    serve(body, Limits(max_in_flight_bytes=201 * PRODUCED_ELEMENT_BYTES), fakes)


def test_producers_without_answers_that_wait_for_room_leave_memory_to_others() -> None:
    """They may wait as long as stores are away: no more than some of them, the others are hung up on."""
    fakes = Producing()
    fakes.room.append(trio.Event())
    size = len(request(MANY, 1, b"1".rjust(40 * KIB))) - 4

    async def body(server: Running, client: Client) -> None:
        memory = server.server.context.request_memory
        waiting = []
        async with AsyncExitStack() as stack:
            for _ in range(2):
                waiting.append(await stack.enter_async_context(server.client()))
                await waiting[-1].send(request(MANY, 1, b"1".rjust(40 * KIB)))
            await wait_all_tasks_blocked()
            assert memory.used == 2 * size
            for _ in range(20):
                async with server.client() as one_more:
                    await one_more.send(request(MANY, 1, b"1".rjust(40 * KIB)))
                    assert await one_more.closed()
            await client.send(request(ECHO, 5, bytes(40 * KIB)))
            assert await client.frame() == answer(5, bytes(40 * KIB))
            fakes.room[0].set()
            await wait_all_tasks_blocked()
            assert len(fakes.pending) == 2
            for pending in fakes.pending:
                pending.finish()
        await wait_all_tasks_blocked()
        assert (memory.used, server.server.context.room_memory.used) == (0, 0)

    serve(
        body,
        Limits(max_request_bytes=4 * size, request_memory_bytes=4 * size, room_memory_bytes=2 * size),
        fakes,
    )
