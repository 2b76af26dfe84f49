"""Clients that are silent, slow, or do not read; on a clock that only the test moves."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable

import pytest
import trio
from kafka.protocol.metadata import ApiVersionsRequest
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.common.handlers import Request, Response
from gateway.front.limits import (
    DECODED_BYTES_PER_BYTE,
    FIRST_REQUEST_SECONDS,
    HURRY_SECONDS,
    IDLE_SECONDS,
    MIN_BYTES_PER_SECOND,
    STALL_SECONDS,
    STARVED_SECONDS,
    Limits,
)
from gateway.front.listeners import Listener
from gateway.security.plain import PlainExchange
from gateway.security.sasl_session import SaslSession
from tests.unit.gateway.front.test_authentication import Speaker, with_sasl
from tests.unit.gateway.kafka_wire import (
    BEGIN,
    ECHO,
    PARK,
    Client,
    Fakes,
    Running,
    answer,
    raw_body,
    request,
    run,
    running,
)

KIB, MIB = 1024, 1024 * 1024


class Time:
    """The test's clock: time passes in steps, in which the server may look at its deadlines."""

    def __init__(self, clock: MockClock) -> None:
        self._clock = clock

    async def passes(self, seconds: float) -> None:
        await wait_all_tasks_blocked()
        self._clock.jump(seconds)
        await wait_all_tasks_blocked()


def serve(
    body: Callable[[Running, Client, Time], Awaitable[None]],
    limits: Limits | None = None,
    fakes: Fakes | None = None,
) -> None:
    clock = MockClock()

    async def main() -> None:
        async with running(limits, fakes=fakes) as server, server.client() as client:
            await body(server, client, Time(clock))

    run(main, clock=clock)


LARGE = 1
"""The key of an API whose answers have LARGE_BYTES: more than the kernel takes without a reader."""

LARGE_BYTES = 24 * MIB


def with_large_answers() -> Fakes:
    fakes = Fakes()

    @fakes.registry.api(key=LARGE, name="Large", min_version=0, max_version=0, decoder=raw_body)
    async def large(request: Request, broker: object) -> Response:
        await request.reserve(LARGE_BYTES)
        return answer(request.header.correlation_id, bytes(LARGE_BYTES))

    return fakes


def reasons(server: Running) -> dict[tuple[str, ...], float]:
    return server.server.metrics.connections_closed


def test_who_connects_and_says_nothing_is_closed() -> None:
    async def body(server: Running, client: Client, time: Time) -> None:
        await time.passes(FIRST_REQUEST_SECONDS - 1)
        assert len(server.server.connections) == 1
        await time.passes(2)
        assert await client.closed()
        assert reasons(server) == {("deadline",): 1}

    serve(body)


def test_who_asks_but_never_says_who_he_is_is_closed() -> None:
    """The one request that may come before that is no reason to wait for long."""
    clock = MockClock()
    fakes = with_sasl(Fakes())

    def begin(_listener: Listener) -> SaslSession:
        return SaslSession({"PLAIN": lambda: PlainExchange(lambda _user, _password: True)})

    async def main() -> None:
        time = Time(clock)
        async with (
            running(fakes=fakes, begin_session=begin) as server,
            server.client() as unknown,
            server.client() as known,
        ):
            one, other = Speaker(unknown), Speaker(known)
            await one.ask(ApiVersionsRequest(version=0))
            await one.handshake()
            await other.handshake()
            await other.authenticate()
            await time.passes(FIRST_REQUEST_SECONDS - 1)
            assert len(server.server.connections) == 2
            await time.passes(2)
            assert await unknown.closed()
            await time.passes(IDLE_SECONDS - FIRST_REQUEST_SECONDS - 10)
            assert await other.is_served()
            assert reasons(server) == {("deadline",): 1}

    run(main, clock=clock)


@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01"])
def test_who_never_begins_to_speak_tls_is_closed(said: bytes) -> None:
    clock = MockClock()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    async def main() -> None:
        time = Time(clock)
        async with running(tls_of=lambda _listener: context) as server, server.client() as client:
            await client.send(said)
            await time.passes(FIRST_REQUEST_SECONDS - 1)
            assert len(server.server.connections) == 1
            await time.passes(2)
            assert await client.closed()
            assert reasons(server) == {("deadline",): 1}

    run(main, clock=clock)


def test_who_asks_for_nothing_any_more_is_closed() -> None:
    async def body(server: Running, client: Client, time: Time) -> None:
        await time.passes(FIRST_REQUEST_SECONDS - 2)
        for i in range(3):
            await client.send(request(ECHO, i))
            assert await client.frame() == answer(i)
            await time.passes(IDLE_SECONDS - 1)
        assert len(server.server.connections) == 1
        await time.passes(2)
        assert await client.closed()

    serve(body)


def test_who_waits_for_an_answer_is_not_idle() -> None:
    async def body(server: Running, client: Client, time: Time) -> None:
        async with server.client() as other:
            await client.send(request(BEGIN, 1, b"p"))
            await other.send(request(PARK, 2, b"q"))
            await time.passes(IDLE_SECONDS + 1)
            await time.passes(IDLE_SECONDS + 1)
            assert len(server.server.connections) == 2
            server.fakes.pending[0].finish()
            server.fakes.release.set()
            assert await client.frame() == answer(1, b"p")
            assert await other.frame() == answer(2, b"q")

    serve(body)


@pytest.mark.parametrize("sent", [1, 3, 4, 5, 100, 20 * KIB])
def test_a_request_that_stops_arriving_is_given_up(sent: int) -> None:
    async def body(server: Running, client: Client, time: Time) -> None:
        await client.send(request(ECHO, 1))
        assert await client.frame() == answer(1)
        await client.send(request(ECHO, 2, bytes(40 * KIB))[:sent])
        await time.passes(STALL_SECONDS - 1)
        assert len(server.server.connections) == 1
        await time.passes(2)
        assert await client.closed()
        assert reasons(server) == {("deadline",): 1}
        assert server.server.context.request_memory.used == 0

    serve(body)


def test_a_request_that_dribbles_in_is_given_up() -> None:
    async def body(server: Running, client: Client, time: Time) -> None:
        async with server.client() as other:
            for byte in request(ECHO, 1, b"x" * 100)[: int(STALL_SECONDS)]:
                await client.send(bytes([byte]))
                await other.send(request(ECHO, byte))
                assert await other.frame() == answer(byte)  # nobody else suffers
                await time.passes(1)
            await time.passes(1)
            assert await client.closed()
            assert len(server.server.connections) == 1

    serve(body)


def test_each_request_has_its_own_time_to_arrive() -> None:
    async def body(server: Running, client: Client, time: Time) -> None:
        for i in range(5):
            frame = request(ECHO, i, b"some body")
            await client.send(frame[:9])
            await time.passes(STALL_SECONDS / 3)
            await client.send(frame[9:])
            assert await client.frame() == answer(i, b"some body")
            await time.passes(STALL_SECONDS)

    serve(body)


def test_a_large_request_over_a_slow_link_may_take_its_time() -> None:
    async def body(server: Running, client: Client, time: Time) -> None:
        frame = request(ECHO, 1, bytes(1 * MIB))
        step = 2 * MIN_BYTES_PER_SECOND
        for start in range(0, len(frame), step):
            await client.send(frame[start : start + step])
            await time.passes(1)
        expected = answer(1, bytes(1 * MIB))
        assert await client.read(len(expected)) == expected

    serve(body)


def test_a_client_that_never_reads_is_closed_and_its_answer_forgotten() -> None:
    async def body(server: Running, client: Client, time: Time) -> None:
        await client.send(request(LARGE, 1))
        await time.passes(STALL_SECONDS - 1)
        (connection,) = server.server.connections
        assert connection._output.unsent > 0
        await time.passes(2)
        assert not server.server.connections
        assert reasons(server) == {("deadline",): 1}

    serve(body, fakes=with_large_answers())


def test_a_client_that_stops_reading_is_closed_however_much_it_read() -> None:
    async def body(server: Running, client: Client, time: Time) -> None:
        await client.send(request(LARGE, 1))
        assert len(await client.read(LARGE_BYTES // 2)) == LARGE_BYTES // 2
        await time.passes(STALL_SECONDS - 1)
        assert len(server.server.connections) == 1
        await time.passes(2)
        assert not server.server.connections

    serve(body, fakes=with_large_answers())


def test_a_client_that_reads_too_slowly_is_closed() -> None:
    async def body(server: Running, client: Client, time: Time) -> None:
        await client.send(request(LARGE, 1))
        # It does read, before each stall limit; on the average too little.
        read = 0
        while server.server.connections and read < LARGE_BYTES // 2:
            await time.passes(STALL_SECONDS - 1)
            read += len(await client.read(1 * MIB // 4))
        assert not server.server.connections

    serve(body, fakes=with_large_answers())


def test_when_answers_wait_for_memory_the_client_that_does_not_read_is_closed() -> None:
    async def body(server: Running, client: Client, time: Time) -> None:
        memory = server.server.context.response_memory
        async with server.client() as deaf:
            await deaf.send(request(LARGE, 1))
            await wait_all_tasks_blocked()
            await client.send(request(LARGE, 2))
            await wait_all_tasks_blocked()
            assert (memory.used, memory.waiting) == (LARGE_BYTES, 1)
            await time.passes(STARVED_SECONDS - 1)
            assert len(server.server.connections) == 2
            await time.passes(2)
            assert await client.frame() == answer(2, bytes(LARGE_BYTES))
            await wait_all_tasks_blocked()
            assert memory.used == 0
            assert reasons(server) == {("memory",): 1}

    serve(body, Limits(response_memory_bytes=LARGE_BYTES + 1 * MIB), with_large_answers())


def test_when_memory_is_short_the_client_that_hoards_it_is_closed() -> None:
    async def body(server: Running, client: Client, time: Time) -> None:
        memory = server.server.context.request_memory
        async with server.client() as hoarder, trio.open_nursery() as nursery:
            await hoarder.send(request(ECHO, 1, bytes(90 * KIB))[: 30 * KIB])
            await wait_all_tasks_blocked()
            large = bytes(50 * KIB)
            nursery.start_soon(client.send, request(ECHO, 2, large))
            await wait_all_tasks_blocked()
            assert memory.waiting == 1
            await time.passes(9)
            assert len(server.server.connections) == 2
            await time.passes(2)
            assert await client.frame() == answer(2, large)
            assert await hoarder.closed()
            assert reasons(server) == {("memory",): 1}

    serve(body, Limits(max_request_bytes=100 * KIB, request_memory_bytes=100 * KIB))


def test_a_parked_request_gives_the_memory_of_what_it_became_to_those_who_wait_for_it() -> None:
    """A request of a kilobyte may become twenty; the smallest, and those of Produce, are not counted."""
    size = 40 * KIB

    async def body(server: Running, client: Client, time: Time) -> None:
        memory = server.server.context.decoded_memory
        async with server.client() as parked, server.client() as other, trio.open_nursery() as nursery:
            await parked.send(request(PARK, 1, bytes(size)))
            await wait_all_tasks_blocked()
            assert size * DECODED_BYTES_PER_BYTE <= memory.used < (size + 100) * DECODED_BYTES_PER_BYTE
            held = memory.used
            await other.send(request(ECHO, 3, b"small"), request(BEGIN, 4, bytes(size)))
            assert await other.frame() == answer(3, b"small")
            await wait_all_tasks_blocked()
            assert memory.used == held
            server.fakes.pending[0].finish()
            assert await other.frame() == answer(4, bytes(size))
            nursery.start_soon(client.send, request(ECHO, 2, bytes(size)))
            await wait_all_tasks_blocked()
            assert memory.waiting == 1
            await time.passes(HURRY_SECONDS)
            assert await client.frame() == answer(2, bytes(size))
            assert await parked.frame() == answer(1, bytes(size))
        await wait_all_tasks_blocked()
        assert memory.used == 0

    serve(body, Limits(decoded_memory_bytes=60 * KIB * DECODED_BYTES_PER_BYTE))


def test_what_a_parked_request_became_is_free_when_its_client_goes_away() -> None:
    async def body(server: Running, _client: Client, _time: Time) -> None:
        memory = server.server.context.decoded_memory
        async with server.client() as parked:
            await parked.send(request(PARK, 1, bytes(2 * KIB)))
            await wait_all_tasks_blocked()
            assert memory.used > 0
            (connection,) = (one for one in server.server.connections if one.memory.decoded.held)
            connection.close("a test")
            assert await parked.closed()
        await wait_all_tasks_blocked()
        assert memory.used == 0

    serve(body)


@pytest.mark.parametrize("size", [60 * KIB, 10 * KIB])
def test_a_parked_request_gives_its_memory_to_those_who_wait_for_it(size: int) -> None:
    async def body(server: Running, client: Client, time: Time) -> None:
        context = server.server.context
        memory = context.request_memory if size > 16 * KIB else context.small_request_memory
        async with server.client() as parked, trio.open_nursery() as nursery:
            await parked.send(request(PARK, 1, bytes(size)))
            await time.passes(60)
            assert server.fakes.ran == [bytes(size)]
            assert not server.fakes.release.is_set()  # nobody else wants anything
            nursery.start_soon(client.send, request(ECHO, 2, bytes(size)))
            await wait_all_tasks_blocked()
            assert memory.waiting == 1
            await time.passes(HURRY_SECONDS)
            assert await client.frame() == answer(2, bytes(size))
            assert await parked.frame() == answer(1, bytes(size))
        await wait_all_tasks_blocked()
        assert memory.used == 0

    serve(
        body,
        Limits(
            max_request_bytes=100 * KIB, request_memory_bytes=100 * KIB, small_request_memory_bytes=15 * KIB
        ),
    )
