"""An etcd of three members, whose leader is killed and stopped under the clients of two handles: what these
are told is one thing after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import trio

from gateway.catalog.etcd.address import EtcdAddress
from gateway.catalog.etcd.catalog import EtcdCatalog
from gateway.catalog.etcd.credentials import Credentials
from tests.linearizable.catalog_clients import HandleClients, Shared
from tests.linearizable.search import Judgement
from tests.peers.etcd import Etcd

SECONDS = 120.0
OPERATIONS = 120
"""Of each client."""

LEASE_SECONDS = 2.0
"""The shortest that etcd has."""


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    with Etcd(tmp_path_factory.mktemp("etcd"), 3) as etcd:
        yield etcd


def judged(address: str, shared: Shared, disturb: Callable[[HandleClients], None] | None) -> Judgement:
    """What two handles' clients were told, each at a place of its own in the list of members; `disturb` is
    done when a third of it is over.
    """

    async def main() -> Judgement:
        with trio.fail_after(SECONDS):
            handles = [await EtcdCatalog.open(EtcdAddress.parse(address), Credentials()) for _ in range(2)]
            async with trio.open_nursery() as nursery:
                for handle in handles:
                    nursery.start_soon(handle.run)
                clients = [
                    HandleClients(shared, str(number), handle) for number, handle in enumerate(handles)
                ]
                async with trio.open_nursery() as working:
                    for one in clients:
                        working.start_soon(one.run, OPERATIONS)
                    if disturb is not None:
                        await trio.to_thread.run_sync(disturb, clients[0])
                nursery.cancel_scope.cancel()
            for handle in handles:
                await handle.aclose()
        return shared.judge()

    return trio.run(main)


def test_undisturbed(three: Etcd) -> None:
    told = judged(f"{three.address}/undisturbed", Shared(1), None)
    assert told.is_good, str(told)
    assert len(told.order) > OPERATIONS


def test_the_leader_is_killed(three: Etcd) -> None:
    leader = three.leader()

    def disturb(_clients: HandleClients) -> None:
        leader.kill9()
        leader.start()

    told = judged(f"{three.address}/killed", Shared(2, lease_seconds=LEASE_SECONDS), disturb)
    assert told.is_good, str(told)


def test_the_leader_is_stopped(three: Etcd) -> None:
    leader = three.leader()

    def disturb(_clients: HandleClients) -> None:
        leader.pause()
        try:
            three.leader()
        finally:
            leader.go_on()

    told = judged(f"{three.address}/stopped", Shared(3, lease_seconds=LEASE_SECONDS), disturb)
    assert told.is_good, str(told)
