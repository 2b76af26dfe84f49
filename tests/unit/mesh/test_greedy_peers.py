"""Peers that subscribe without end: they are cut, the socket lives, and its other links with it."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

from mesh.connections import Connection, connection, cut
from mesh.link_bounds import DATA, MAX_SUBSCRIPTION_FRAME_BYTES
from mesh.link_watch import Link
from mesh.links import Context, Publisher, Subscriber
from mesh.protocol.subscriptions import MAX_BYTES, MAX_PEER_BYTES, OVERHEAD_BYTES
from mesh.zmq_trio import SubscriberSocket
from tests.unit.mesh.zmtp import OLD_GREETING, Peer, frame, subscriptions

MIB = 1 << 20
in_thread = trio.to_thread.run_sync


class Scene:
    """A publisher on TCP with one good subscriber."""

    def __init__(self, context: Context) -> None:
        self.publisher = Publisher(context)
        endpoint = self.publisher.bind("tcp://127.0.0.1:*")
        self.port = int(endpoint.rpartition(":")[2])
        self.heard: list[list[bytes]] = []
        self._came = trio.Event()
        self.subscriber = Subscriber(context, self._on_message)
        self.subscriber.subscribe(b"GOOD")
        self.subscriber.connect(endpoint)

    def _on_message(self, frames: list[bytes]) -> None:
        self.heard.append(frames)
        self._came.set()

    async def until_cut(self) -> None:
        while not self.publisher.cut:  # noqa: ASYNC110 - nobody is told
            await trio.sleep(0.01)

    async def check(self) -> None:
        """The good link is the one that it was: nothing is sent twice to get through."""
        self._came = trio.Event()
        self.publisher.send([b"GOOD", b"%d" % len(self.heard)])
        await self._came.wait()
        assert self.heard[-1] == [b"GOOD", b"%d" % (len(self.heard) - 1)]


def run(test: Callable[[Scene], Awaitable[None]]) -> None:
    context = Context()

    async def main() -> None:
        scene = Scene(context)
        try:
            with trio.fail_after(60):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(scene.publisher.run)
                    nursery.start_soon(scene.subscriber.run)
                    await scene.publisher.wait_subscribed(b"GOOD")
                    await scene.check()
                    await test(scene)
                    await scene.check()
                    nursery.cancel_scope.cancel()
        finally:
            scene.publisher.close()
            scene.subscriber.close()

    try:
        trio.run(main)
    finally:
        context.close()


def rss() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_a_flood_of_subscriptions_takes_little_memory_and_its_peer_is_cut() -> None:
    """400,000 of 200 bytes took 4.2 GB."""

    async def test(scene: Scene) -> None:
        before = rss()

        def flood() -> bool:
            with Peer.connect(scene.port, b"SUB") as peer:
                for thousand in range(400):
                    if not peer.send(subscriptions(1000, 200, thousand * 1000)):
                        break
                return peer.is_cut()

        assert await in_thread(flood)
        await scene.until_cut()
        assert rss() - before < 400 * MIB  # it was 50 to 100: what comes until a busy machine looks

    run(test)


def test_the_same_subscription_again_and_again() -> None:
    async def test(scene: Scene) -> None:
        def flood() -> bool:
            with Peer.connect(scene.port, b"SUB") as peer:
                while peer.send(subscriptions(1, 200) * 1000):
                    pass
                return peer.is_cut()

        assert await in_thread(flood)
        await scene.until_cut()

    run(test)


def test_many_peers_that_each_ask_for_what_one_may() -> None:
    """Those with most are cut; whoever has little stays."""
    of_one = MAX_PEER_BYTES // (200 + OVERHEAD_BYTES)

    async def test(scene: Scene) -> None:
        peers = [
            await in_thread(Peer.connect, scene.port, b"SUB") for _ in range(MAX_BYTES // MAX_PEER_BYTES + 4)
        ]
        for number, peer in enumerate(peers):
            await in_thread(peer.send, subscriptions(of_one, 200, number * of_one))
        await scene.until_cut()
        for peer in peers:
            peer._socket.close()

    run(test)


def test_a_message_without_an_end() -> None:
    """ZeroMQ gathers its parts, and says nothing of them."""

    async def test(scene: Scene) -> None:
        before = rss()

        def send() -> bool:
            with Peer.connect(scene.port, b"SUB") as peer:
                parts = frame(b"x" * 1000, more=True) * 100
                for _ in range(3000):
                    if not peer.send(parts):
                        break
                return peer.is_cut()

        assert await in_thread(send)
        await scene.until_cut()
        assert rss() - before < 100 * MIB

    run(test)


def test_a_publisher_whose_message_has_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is cut, and others that this node hears are not: another link brings as much, in messages."""
    monkeypatch.setattr("mesh.zmq_trio.GATHERED_LOOK_SECONDS", 0.05)
    context = Context()
    heard: list[list[bytes]] = []

    def serve(server: socket.socket) -> bool:
        accepted, _ = server.accept()
        with Peer(accepted, b"PUB") as peer:
            parts = frame(b"M" + b"x" * 99_999, more=True) * 10
            for _ in range(200):
                if not peer.send(parts):
                    break
            return peer.is_cut()

    async def main() -> None:
        few = DATA._replace(max_gathered_bytes=8 * MIB)
        subscriber = SubscriberSocket(context.sockets, heard.append, link=few)
        publisher = Publisher(context)
        subscriber.subscribe(b"M")
        with socket.create_server(("127.0.0.1", 0)) as server, trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(publisher.run)
                nursery.start_soon(subscriber.run)
                await nursery.start(subscriber.follow_links, lambda _endpoint, _live: None)
                subscriber.connect(publisher.bind("tcp://127.0.0.1:*"))
                await publisher.wait_subscribed(b"M")
                for number in range(300):
                    publisher.send([b"M%d" % number, bytes(100_000)])
                    while len(heard) <= number:  # noqa: ASYNC110 - nobody is told
                        await trio.sleep(0.001)
                subscriber.connect(f"tcp://127.0.0.1:{server.getsockname()[1]}")
                assert await in_thread(serve, server)
                assert subscriber.cut == 1
                publisher.send([b"M", b"x"] * 100)
                while len(heard) == 300:  # noqa: ASYNC110 - nobody is told
                    await trio.sleep(0.001)
                assert heard[300:] == [[b"M", b"x", b"M", b"x", b"M"]]
                nursery.cancel_scope.cancel()
        subscriber.close()
        publisher.close()

    try:
        trio.run(main)
    finally:
        context.close()


def test_heartbeats_are_no_flood() -> None:
    """A node that lives for long is not cut, whatever it has subscribed to at first."""
    link = Link(Connection(-1, "peer"), now=0.0)
    day = 86_400.0
    assert not link.may_not_have(4096 + 20 * day, now=day)
    assert not link.may_not_have(4096 + 86 * day, now=day), "sealed by CURVE"
    assert link.may_not_have(MAX_PEER_BYTES + 150 * day, now=day)


def test_a_long_subscription_is_not_taken() -> None:
    async def test(scene: Scene) -> None:
        def ask() -> bool:
            with Peer.connect(scene.port, b"SUB") as peer:
                peer.send(frame(b"\x01" + b"x" * MAX_SUBSCRIPTION_FRAME_BYTES))
                return peer.is_cut()

        assert await in_thread(ask)

    run(test)


def test_a_peer_of_a_protocol_that_tells_no_connection_is_refused() -> None:
    async def test(scene: Scene) -> None:
        def ask() -> bytes:
            with socket.create_connection(("127.0.0.1", scene.port)) as peer:
                peer.settimeout(20)
                peer.sendall(OLD_GREETING + subscriptions(10, 20))
                said = b""
                try:
                    while piece := peer.recv(1000):
                        said += piece
                except ConnectionError:
                    pass
                return said

        assert len(await in_thread(ask)) <= 64
        assert not any(
            prefix.startswith(b"0")
            for prefix in scene.publisher._outside.open()._subscribers._subscriptions.prefixes
        )

    run(test)


def test_only_the_connection_that_is_meant_is_cut() -> None:
    """Descriptors are used again, for whatever comes."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        first = socket.create_connection(server.getsockname())
        accepted, _ = server.accept()
        meant = connection(accepted.fileno())
        assert meant is not None
        number = accepted.fileno()
        with socket.create_connection(server.getsockname()) as second:
            other, _ = server.accept()
            other_number = other.fileno()
            assert not cut(meant._replace(descriptor=other_number))
            second.sendall(b"x")
            assert other.recv(1) == b"x"
            other.close()
        assert cut(meant)
        assert first.recv(1) == b""
        first.close()
        accepted.close()
        assert not cut(meant)
        assert connection(number) is None
    with Path("/proc/self/statm").open() as file:
        assert connection(file.fileno()) is None
        assert not cut(meant._replace(descriptor=file.fileno()))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert connection(ours.fileno()) is None
        assert not cut(meant._replace(descriptor=ours.fileno()))
        theirs.sendall(b"x")
        assert ours.recv(1) == b"x"


@pytest.mark.parametrize("descriptor", [-1, 1 << 30])
def test_no_descriptor(descriptor: int) -> None:
    assert connection(descriptor) is None
