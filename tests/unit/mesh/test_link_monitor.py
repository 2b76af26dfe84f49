"""Which links of a socket are live, as ZeroMQ's monitor tells it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
import zmq

from mesh.links import Context
from mesh.protocol.endpoints import Endpoint, parse_endpoint
from mesh.zmq_trio import PublisherSocket, SubscriberSocket

POLL_SECONDS = 0.005


class Links:
    """What was told: by endpoint whether its link is live, and everything in order."""

    def __init__(self) -> None:
        self.live: dict[Endpoint, bool] = {}
        self.told: list[tuple[str, bool]] = []

    def on_link(self, endpoint: str, live: bool) -> None:
        self.told.append((endpoint, live))
        self.live[parse_endpoint(endpoint)] = live

    async def until(self, expected: dict[Endpoint, bool]) -> None:
        while self.live != expected:  # noqa: ASYNC110 - the monitor is what is tested
            await trio.sleep(POLL_SECONDS)


Socket = PublisherSocket | SubscriberSocket
KINDS: dict[str, Callable[[Context], Socket]] = {
    "publisher": lambda context: PublisherSocket(context.sockets),
    "subscriber": lambda context: SubscriberSocket(context.sockets, lambda _frames: None),
}


def run(make: Callable[[Context], Socket], test: Callable[[Socket, Links], Awaitable[None]]) -> None:
    context = Context()

    async def main() -> None:
        socket, links = make(context), Links()
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                await nursery.start(socket.follow_links, links.on_link)
                await test(socket, links)
                nursery.cancel_scope.cancel()
        socket.close()

    try:
        trio.run(main)
    finally:
        context.close()


def listener(kind: str, context: zmq.Context[zmq.Socket[bytes]], port: int = 0) -> zmq.Socket[bytes]:
    socket = context.socket(zmq.SUB if kind == "publisher" else zmq.PUB)
    socket.linger = 0
    try:
        socket.bind(f"tcp://0.0.0.0:{port or '*'}")
    except zmq.ZMQError:
        socket.close()
        raise
    return socket


async def listener_again(kind: str, context: zmq.Context[zmq.Socket[bytes]], port: int) -> zmq.Socket[bytes]:
    """On a port whose last listener ZeroMQ may still be closing."""
    while True:
        try:
            return listener(kind, context, port)
        except zmq.ZMQError:
            await trio.sleep(POLL_SECONDS)


def port_of(socket: zmq.Socket[bytes]) -> int:
    return int(socket.getsockopt_string(zmq.LAST_ENDPOINT).rpartition(":")[2])


@pytest.mark.parametrize("kind", KINDS)
def test_a_link_that_goes_and_comes_back_is_the_same_one(kind: str) -> None:
    """ZeroMQ writes the endpoint of a link that it made anew in another way."""

    async def test(socket: Socket, links: Links) -> None:
        with zmq.Context() as context:
            first = listener(kind, context)
            here = Endpoint("127.0.0.1", port_of(first))
            socket.connect(str(here))
            await links.until({here: True})
            first.close()
            await links.until({here: False})
            with await listener_again(kind, context, here.port):
                await links.until({here: True})

    run(KINDS[kind], test)


def test_many_links_at_once_are_all_told() -> None:
    """The monitor's edge comes once, for however many events."""

    async def test(socket: Socket, links: Links) -> None:
        with zmq.Context() as context:
            publisher = listener("subscriber", context)
            port = port_of(publisher)
            places = [Endpoint(f"127.0.0.{number}", port) for number in range(1, 101)]
            for place in places:
                socket.connect(str(place))
            await links.until(dict.fromkeys(places, True))
            publisher.close()
            await links.until(dict.fromkeys(places, False))

    run(KINDS["subscriber"], test)


def test_a_connection_alone_is_no_link() -> None:
    """Somebody listens, and says nothing."""

    async def test(socket: Socket, links: Links) -> None:
        with zmq.Context() as context, listener("subscriber", context) as publisher:
            listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
            async with trio.open_nursery() as nursery:
                connected = trio.Event()

                async def silent(_stream: trio.SocketStream) -> None:
                    connected.set()
                    await trio.sleep_forever()

                await nursery.start(trio.serve_listeners, silent, listeners)
                socket.connect(f"tcp://127.0.0.1:{listeners[0].socket.getsockname()[1]}")
                await connected.wait()
                here = Endpoint("127.0.0.1", port_of(publisher))
                socket.connect(str(here))
                await links.until({here: True})
                nursery.cancel_scope.cancel()

    run(KINDS["subscriber"], test)


def test_when_nobody_follows_any_more_links_still_work() -> None:
    """ZeroMQ tells its monitor from within the thread that serves all links, and waits for a reader."""
    context = Context()

    async def main() -> None:
        heard, links = trio.Event(), Links()
        socket = SubscriberSocket(context.sockets, lambda _frames: heard.set())
        socket.subscribe(b"")
        with trio.fail_after(60), zmq.Context() as outside:
            with listener("subscriber", outside) as publisher:
                here = Endpoint("127.0.0.1", port_of(publisher))
                async with trio.open_nursery() as nursery:
                    await nursery.start(socket.follow_links, links.on_link)
                    socket.connect(str(here))
                    await links.until({here: True})
                    nursery.cancel_scope.cancel()
            with await listener_again("subscriber", outside, here.port) as publisher:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(socket.run)
                    while not heard.is_set():
                        publisher.send(b"x")
                        await trio.sleep(POLL_SECONDS)
                    nursery.cancel_scope.cancel()
        socket.close()

    try:
        trio.run(main)
    finally:
        context.close()


def test_it_can_be_closed_while_links_come_and_go() -> None:
    """In any order, with events on their way: ZeroMQ must not wait for a reader that is gone."""
    with zmq.Context() as outside, listener("subscriber", outside) as publisher:
        port = port_of(publisher)
        for number in range(30):
            context = Context()

            async def main(context: Context = context, number: int = number) -> None:
                socket = SubscriberSocket(context.sockets, lambda _frames: None)
                async with trio.open_nursery() as nursery:
                    await nursery.start(socket.follow_links, lambda _endpoint, _live: None)
                    for host in range(1, 50):
                        socket.connect(f"tcp://127.0.0.{host}:{port}")
                    for _ in range(50 * number):
                        await trio.lowlevel.checkpoint()
                    if number % 2:
                        socket.close()
                    nursery.cancel_scope.cancel()
                socket.close()

            trio.run(main)
            context.close()
