"""Backups of a mesh of processes, and restores into another one, while everything is killed."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from dafka.operators.socket import ask
from mesh.crash_points import VARIABLE
from tests.backup import scene
from tests.backup.scene import dafka
from tests.peers.mesh import GatewayProcess, MeshCluster, StoreProcess
from tests.peers.process import ServerEnded
from tests.peers.tower import TowerProcess

STORES = 3


class Command:
    """A command as a process of its own, which may kill itself at some point."""

    def __init__(self, *arguments: str | Path, crash: str = "") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dafka", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, VARIABLE: crash},
        )

    def ends_with(self, *codes: int) -> None:
        """It has ended like this."""
        said, _ = self.process.communicate(timeout=90)
        assert self.process.returncode in codes, said


@contextmanager
def empty_stores(directory: Path) -> Iterator[tuple[TowerProcess, list[StoreProcess]]]:
    """A tower, and stores that belong to nobody."""
    with ExitStack() as stack:
        tower = TowerProcess(directory / "tower")
        stack.callback(tower.kill9)
        tower.start()
        stores = [StoreProcess(directory / f"n{number}", f"n{number}", tower) for number in range(STORES)]
        for store in stores:
            stack.callback(store.kill9)
            store.start()
        yield tower, stores


def restore(target: Path, data: Path, tower: TowerProcess, *arguments: str, crash: str = "") -> Command:
    address = tower.address
    at = f"{address.host}:{address.port_in}:{address.port_out}"
    mesh = ("--stores", str(STORES), "--tower", at)
    return Command("restore", target, "--data", data, *mesh, *arguments, crash=crash)


def fill(at: str) -> None:
    scene.create(at, "orders", 4, STORES, segment_bytes=scene.SEGMENT_BYTES)
    to = scene.producer(at)
    for partition in range(4):
        scene.produce(to, "orders", range(700), partition)
    scene.commit(at, "g", "orders", (700, 3))


def test_everything_is_lost_and_comes_back_whatever_is_killed_meanwhile(tmp_path: Path) -> None:
    target = tmp_path / "target"
    with MeshCluster(tmp_path / "old", STORES) as old:
        fill(old.bootstrap)
        kill_backups(target, old.gateway)
        taking = Command("backup", "take", target, "--data", old.gateway.data)
        old.stores[0].kill9()
        taking.ends_with(0)
        before, identities = scene.everything(old.bootstrap), scene.identities(old.bootstrap)
    assert dafka("backup", "verify", target) == 0
    data = tmp_path / "new" / "gateway" / "data"
    with empty_stores(tmp_path / "new") as (tower, stores):
        for crash in ("during-restore:3", "after-restored-segment:2", "during-restore:6"):
            restore(target, data, tower, crash=crash).ends_with(-signal.SIGKILL)
        gateway = GatewayProcess(tmp_path / "new" / "gateway", tower, STORES)
        gateway.port = old.gateway.port
        assert "is being restored there" in refusal(gateway)
        restore(target, data, tower, "--before", "2020-01-01").ends_with(3)
        restore(target, data, tower).ends_with(0)
        restore(target, data, tower).ends_with(3)
        try:
            gateway.start()
            assert scene.everything(gateway.bootstrap) == before
            assert scene.identities(gateway.bootstrap) == identities
            assert scene.committed(gateway.bootstrap, "g") == {("orders", 0): 700, ("orders", 1): 3}
            scene.produce(scene.producer(gateway.bootstrap), "orders", range(700, 800))
            wait_until_all_have_all(gateway)
            check_that_old_ones_are_refused(old, tower, gateway)
            # What a killed run had begun is on no disk.
            assert gateway.terminate() == 0
            segments = {len(list(store_addresses(store))) for store in stores}
            assert len(segments) == 1
        finally:
            gateway.kill9()


def kill_backups(target: Path, gateway: GatewayProcess) -> None:
    """Backups that are killed somewhere; and the gateway, under one that goes on by itself."""
    chance = random.Random(1)
    for _ in range(4):
        taking = Command("backup", "take", target, "--data", gateway.data)
        with contextlib.suppress(subprocess.TimeoutExpired):
            taking.process.wait(0.3 + chance.random() / 2)
        taking.process.kill()
        taking.ends_with(0, -signal.SIGKILL)
    if target.exists():
        assert dafka("backup", "verify", target, "--all") == 0
    taking = Command("backup", "take", target, "--data", gateway.data)
    gateway.kill9()
    gateway.start()
    taking.ends_with(0, 2)  # 2: the gateway was killed before the backup began


def refusal(gateway: GatewayProcess) -> str:
    try:
        gateway.start()
    except ServerEnded as ended:
        assert gateway.returncode == 3
        return str(ended)
    raise AssertionError("it serves")


def wait_until_all_have_all(gateway: GatewayProcess) -> None:
    def all_have() -> bool:
        return not any(store["unconfirmed_segments"] for store in ask(gateway.data, "mesh.status")["stores"])

    scene.settle(all_have, "every store has confirmed every segment")


def store_addresses(store: StoreProcess) -> Sequence[str]:
    assert store.terminate() == 0
    return sorted(store.contents())


def check_that_old_ones_are_refused(old: MeshCluster, tower: TowerProcess, new: GatewayProcess) -> None:
    """A store of the old cluster does not become one of the new one."""
    store = old.stores[1]
    store._tower = tower
    store.start()
    try:
        scene.settle(
            lambda: any(one["name"] == store.name for one in ask(new.data, "stores.list")), "it is heard of"
        )
        assert dafka("store", "admit", store.name, "--data", new.data) == 2
    finally:
        store.kill9()
