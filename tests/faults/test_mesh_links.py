"""A mesh whose links, and whose clients' connections, lead through a proxy that treats them badly."""

from __future__ import annotations

import random
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.faults.history import History
from tests.faults.mesh_scene import Scene
from tests.faults.proxy import IN, OUT, Proxy
from tests.faults.report import report
from tests.peers.mesh import GatewayProcess, MeshCluster, StoreProcess

BOUND, TOLD = "127.0.0.3", "127.0.0.2"
"""Where a node's publisher is, and where others find it: at the proxy, on a port of the same number."""
SEED = 20_260_401
MIB = 1024 * 1024
STOP_SECONDS = 20.0
"""A stop in order takes 10 at most, and a busy machine some more."""
AT_ONCE_SECONDS = 5.0
SIZES = (100, 1000)
"""Small records: all that is waiting crosses a slow link in seconds."""

pytestmark = pytest.mark.slow


@contextmanager
def proxies(mesh: MeshCluster) -> Iterator[list[Proxy]]:
    """A proxy before every publisher of a mesh that is not started yet: of each store, and of the gateway."""
    nodes: list[StoreProcess | GatewayProcess] = [*mesh.stores, mesh.gateway]
    made = []
    with ExitStack() as stack:
        for node in nodes:
            proxy = Proxy((BOUND, 0), host=TOLD)
            proxy.target = (BOUND, proxy.port)
            made.append(stack.enter_context(proxy))
            node.arguments += ["--mesh-listen", f"{BOUND}:{proxy.port}", "--mesh-advertise", TOLD]
        yield made


@pytest.fixture
def linked(tmp_path: Path, history: History) -> Iterator[tuple[Scene, list[Proxy]]]:
    mesh = MeshCluster(tmp_path)
    with proxies(mesh) as made, mesh:
        yield Scene(mesh, history, sizes=SIZES), made


@contextmanager
def swallowed(those: list[Proxy]) -> Iterator[None]:
    """What these nodes publish is thrown away."""
    with ExitStack() as stack:
        for proxy in those:
            stack.enter_context(proxy.dropped(IN))
        yield


def test_sigterm_under_load_and_a_second_one(linked: tuple[Scene, list[Proxy]]) -> None:
    """What is in flight is waited for and answered; a second signal ends the gateway at once."""
    scene, (first, second, *_) = linked
    gateway, load = scene.mesh.gateway, scene.load
    with scene.counted("SIGTERM while acknowledgements are held"):
        with first.held(IN), second.held(IN):
            _until_it_waits(scene)
            gateway.send_signal(signal.SIGTERM)
            time.sleep(1.0)
            assert gateway.returncode is None, gateway.tail()
            before = load.acked
        assert gateway.wait(STOP_SECONDS) == 0, gateway.tail()
        time.sleep(0.1)  # what it answered last is read by the client
        report("answered after SIGTERM", count=load.acked - before)
        assert load.acked > before
        after = load.acked
        time.sleep(0.5)
        assert load.acked == after
    gateway.start()
    scene.go_on("and back", healed=True)
    with scene.counted("two signals while acknowledgements are held"), first.held(IN), second.held(IN):
        _until_it_waits(scene)
        gateway.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        assert gateway.returncode is None, gateway.tail()
        gateway.send_signal(signal.SIGTERM)
        assert gateway.wait(AT_ONCE_SECONDS) == -signal.SIGTERM
        assert "Traceback" not in gateway.log
    gateway.start()
    scene.finish()


def _until_it_waits(scene: Scene) -> None:
    """Nothing is acknowledged any more, and the load has sent what may be in flight."""
    before = -1
    while scene.load.acked != before or scene.load.in_flight < 100:
        before = scene.load.acked
        time.sleep(0.3)


@pytest.mark.long
def test_acknowledgements_that_are_lost(linked: tuple[Scene, list[Proxy]]) -> None:
    """Of one store: not missed. Of two: everything waits, and each record is there once all the same."""
    scene, (first, second, *_) = linked
    with swallowed([first]):
        scene.go_on("one store's acknowledgements are lost")
    with swallowed([first, second]), scene.counted("two stores' acknowledgements are lost"):
        before = scene.load.acked
        time.sleep(7.0)
        # What was already under way when it began.
        assert scene.load.acked < before + 3000
    scene.finish()


@pytest.mark.long
def test_a_gateway_killed_with_a_tail_that_nobody_acknowledged(linked: tuple[Scene, list[Proxy]]) -> None:
    """Two stores have records that their gateway does not know they have; the next life decides."""
    scene, (first, second, *_) = linked
    for _ in range(3):
        with first.held(IN), second.held(IN), scene.counted("killed while acknowledgements are held"):
            time.sleep(0.5)
            assert scene.load.in_flight
            scene.mesh.gateway.kill9()
        scene.mesh.gateway.start()
        scene.go_on("and back", healed=True)
    scene.finish()


@pytest.mark.long
def test_links_that_are_reset_all_the_time(linked: tuple[Scene, list[Proxy]]) -> None:
    scene, made = linked
    choice = random.Random(SEED)
    with scene.counted("links are reset every 0.1 s for 10 s"):
        for _ in range(100):
            choice.choice(made).reset_all()
            time.sleep(0.1)
    report("resets", count=sum(proxy.reset_count for proxy in made))
    scene.finish()


@pytest.mark.long
def test_slow_links(linked: tuple[Scene, list[Proxy]]) -> None:
    """300 ms and 200 kB/s to and from every node: slower, and nothing else."""
    scene, made = linked
    with ExitStack() as stack:
        for proxy in made:
            stack.enter_context(proxy.slowed(0.3, 200_000))
        scene.go_on("all links slow")
    scene.finish()


# Kafka clients --------------------------------------------------------------------------------------------


@pytest.fixture
def proxied(tmp_path: Path, history: History) -> Iterator[tuple[Scene, Proxy]]:
    """The load's connections lead through a proxy, by a listener of their own."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        target = ("127.0.0.1", free.getsockname()[1])
    mesh = MeshCluster(tmp_path)
    with Proxy(target) as proxy:
        told = f"{proxy.host}:{proxy.port}"
        mesh.gateway.arguments += ["--listen", f"VIA={target[0]}:{target[1]}@{told}"]
        with mesh:
            yield Scene(mesh, history, sizes=SIZES, **{"bootstrap.servers": told}), proxy


@pytest.mark.parametrize("way", [IN, OUT])
def test_connections_reset_in_the_middle(proxied: tuple[Scene, Proxy], way: str) -> None:
    """After the request and before its answer, or within the request: the client tries again, and nothing is
    there twice.
    """
    scene, proxy = proxied
    choice = random.Random(SEED)
    with scene.counted(f"connections reset in the middle, {way}"):
        for _ in range(30):
            with proxy.resets(choice.randrange(2000 if way == IN else 20_000), way):
                _until_reset(proxy)
            scene.load.wait_for_acks(20)
    report("resets", count=proxy.reset_count)
    assert proxy.reset_count >= 30
    scene.finish()


def _until_reset(proxy: Proxy) -> None:
    """Until one more connection was reset."""
    before, deadline = proxy.reset_count, time.monotonic() + STOP_SECONDS
    while proxy.reset_count == before:
        assert time.monotonic() < deadline, "nothing passes"
        time.sleep(0.002)


@pytest.mark.long
def test_a_slow_client(proxied: tuple[Scene, Proxy]) -> None:
    scene, proxy = proxied
    with proxy.slowed(0.3, 64 * 1024):
        scene.go_on("300 ms and 64 KiB/s to the client", 100)
    scene.finish()


# a store far behind ---------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize(("how", "records"), [("killed", 200_000), ("stopped", 60_000)])
def test_a_store_far_behind(tmp_path: Path, history: History, how: str, records: int) -> None:
    """Further than any queue is long: no memory grows for it, and in the end it has the same bytes."""
    with MeshCluster(tmp_path) as mesh:
        scene = Scene(mesh, history, pause=0.00001, sizes=(200, 500))
        store, gateway = mesh.stores[1], mesh.gateway
        if how == "killed":
            store.kill9()
        else:
            store.send_signal(signal.SIGSTOP)
        before = gateway.rss_bytes
        with scene.counted(f"one store {how}"):
            scene.load.wait_for_acks(records, 400.0)
        report("the gateway's memory", mib_more=round((gateway.rss_bytes - before) / MIB, 1))
        assert gateway.rss_bytes - before < 200 * MIB
        if how == "killed":
            store.start()
        else:
            store.send_signal(signal.SIGCONT)
        scene.finish()
