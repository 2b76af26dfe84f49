"""A mesh of real processes: a tower, stores and a gateway, the way an operator starts them."""

import re
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from dafka.operators.socket import ask
from mesh.protocol.address_state import AddressState
from mesh.store.db import Database
from mesh.store.ranges import read_records
from tests.peers.ports import free_ports
from tests.peers.process import ServerProcess
from tests.peers.tower import TowerProcess

STORE_READY = re.compile(r"^The store (\S+) is ready on (\S+),", re.MULTILINE)
GATEWAY_READY = re.compile(r"^Kafka is ready on (\S+):(\d+).*\n", re.MULTILINE)

ALL_BYTES = 1 << 30


def _to(*towers: TowerProcess) -> list[str]:
    """The options that name them."""
    addresses = [tower.address for tower in towers]
    return [f"--tower={one.host}:{one.port_in}:{one.port_out}" for one in addresses]


class StoreProcess(ServerProcess):
    """A running `dafka store`; its data stays over restarts."""

    def __init__(self, directory: Path, name: str, tower: TowerProcess, *arguments: str) -> None:
        super().__init__(directory)
        self.name = name
        self.data = directory / "data"
        self._tower = tower
        self.more_towers: list[TowerProcess] = []
        """Those that stand in for it."""
        self.arguments = list(arguments)

    def launch(self) -> None:
        """Start it without waiting."""
        own = ["store", "--data", str(self.data), "--name", self.name, *_to(self._tower, *self.more_towers)]
        self._spawn([*self.python, "-m", "dafka.cli", *own, *self.arguments])

    def start(self) -> Self:
        """Start it and wait for the line that says it serves. Raises ServerEnded if it refused to."""
        self.launch()
        self._wait_until(lambda: STORE_READY.search(self.stdout_path.read_text(errors="replace")))
        return self

    def contents(self) -> dict[str, list[bytes]]:
        """What it has on its disk, by address, from sequence 0 to the head; it must not run."""
        assert self.returncode is not None, "it runs"
        database = Database(self.data / "db")
        try:
            found = {}
            for address in database.addresses("", 1_000_000):
                state = database.load(address)
                assert state is not None
                found[address] = _records(database, state)
            return found
        finally:
            database.close()


def _records(database: Database, state: AddressState) -> list[bytes]:
    records: list[bytes] = []
    while len(records) <= state.head:
        records += read_records(database, state.address, len(records), state.head, ALL_BYTES)
    return records


class GatewayProcess(ServerProcess):
    """A running `dafka gateway`, on the same port after a restart."""

    def __init__(self, directory: Path, tower: TowerProcess, stores: int, *arguments: str) -> None:
        super().__init__(directory)
        self.data = directory / "data"
        self.host, self.port = "127.0.0.1", 0
        self._tower = tower
        self.more_towers: list[TowerProcess] = []
        """Those that stand in for it."""
        self._stores = stores
        self.arguments = list(arguments)

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    def launch(self) -> None:
        """Start it without waiting."""
        self.port = self.port or free_ports(1)[0]
        own = ["gateway", "--data", str(self.data), "--stores", str(self._stores)]
        own += _to(self._tower, *self.more_towers)
        listen = ["--listen", f"{self.host}:{self.port}"]
        self._spawn([*self.python, "-m", "dafka.cli", *own, *listen, *self.arguments])

    def start(self) -> Self:
        """Start it and wait for the line that says it serves. Raises ServerEnded if it refused to."""
        self.launch()
        return self.wait_ready()

    def wait_ready(self) -> Self:
        """Until it serves: at once, or when it takes another one's place."""
        ready = self._wait_until(lambda: GATEWAY_READY.search(self.stdout_path.read_text(errors="replace")))
        self.host, self.port = ready[1], int(ready[2])
        return self


class MeshCluster:
    """A context manager around a tower, `stores` stores and a gateway that has admitted all of them."""

    def __init__(self, directory: Path, stores: int = 3, gateway_arguments: Sequence[str] = ()) -> None:
        self.tower = TowerProcess(directory / "tower")
        names = [f"s{number}" for number in range(1, stores + 1)]
        self.stores = [StoreProcess(directory / name, name, self.tower) for name in names]
        self.gateway = GatewayProcess(directory / "gateway", self.tower, stores, *gateway_arguments)
        self._stack = ExitStack()

    @property
    def bootstrap(self) -> str:
        return self.gateway.bootstrap

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            processes: list[TowerProcess | StoreProcess | GatewayProcess]
            processes = [self.tower, *self.stores, self.gateway]
            for process in processes:
                stack.callback(process.kill9)
                process.start()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stack.close()

    def status(self) -> dict[str, Any]:
        """What `dafka mesh status --json` shows."""
        status: dict[str, Any] = ask(self.gateway.data, "mesh.status")
        return status

    def wait_until_all_have_all(self, seconds: float = 60.0) -> None:
        """Until every store has confirmed every closed segment."""
        deadline = time.monotonic() + seconds
        while True:
            status = self.status()
            if not any(store["unconfirmed_segments"] for store in status["stores"]):
                return
            assert time.monotonic() < deadline, f"some store does not catch up: {status}"
            time.sleep(0.05)

    def stop(self) -> None:
        """End all of them in order, the stores last: each must end with 0."""
        for process in (self.gateway, *self.stores, self.tower):
            assert process.terminate() == 0, process.tail()
