"""The clusters that `takeovers` does harm to."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Protocol, Self

from tests.faults.network import Network
from tests.faults.whole_cluster import WholeCluster
from tests.peers.etcd import EtcdProcess
from tests.peers.process import ServerProcess, status_bytes
from tests.peers.supervised import Supervised

KILLED: Final = "gateway killed"
STOPPED: Final = "gateway stopped"
LEADER_KILLED: Final = "etcd leader killed"
FAULTS: Final = (KILLED, STOPPED, LEADER_KILLED)


class Cluster(Protocol):
    """Three gateways, three stores and what they need. A context manager that ends all of it."""

    @property
    def faults(self) -> Sequence[str]:
        """What `begin` takes."""
        ...

    @property
    def bootstrap(self) -> str:
        """How clients find it."""
        ...

    def start(self) -> object:
        """Return when all serve."""

    def stop(self) -> None:
        """End all of them in order."""

    def begin(self, fault: str, number: int, /) -> float:
        """Do harm to gateway `number`, or to what the fault says; just before, by `time.monotonic()`."""
        ...

    def end(self, fault: str, number: int, /) -> None:
        """Have all of them serve again."""

    def memory(self) -> dict[str, int]:
        """Resident bytes by process."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...


class OneMachine(Supervised):
    """`dafka standalone --gateways 3`."""

    faults = (KILLED,)

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, 3, 3)
        self._served_again = 0

    def __enter__(self) -> Self:
        self.stay_on_its_ports()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.kill9()
        self.wait_until_all_are_gone()

    def start(self) -> Self:
        self.port_file.unlink(missing_ok=True)
        return super().start()

    def stop(self) -> None:
        assert self.terminate() == 0, self.tail()

    def begin(self, _fault: str, number: int) -> float:
        self._served_again = self.log.count(f"gateway-{number} serves again")
        begun = time.monotonic()
        self.kill(f"gateway-{number}")
        return begun

    def end(self, _fault: str, number: int) -> None:
        self.wait_until_it_serves_again(f"gateway-{number}", self._served_again + 1)

    def memory(self) -> dict[str, int]:
        return {name: status_bytes(pid, "VmRSS") for name, pid in self.pids.items()}


class OverEtcd:
    """Gateways and stores over an etcd of three members, each on a host of its own."""

    faults = FAULTS

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._stack = ExitStack()
        self._leader: EtcdProcess | None = None

    def __enter__(self) -> Self:
        network = self._stack.enter_context(Network())
        self._cluster = WholeCluster(self._directory, network)
        self._runs = False
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stack.close()

    @property
    def bootstrap(self) -> str:
        return self._cluster.bootstrap

    def start(self) -> None:
        if self._runs:
            self._cluster.start_nodes()
        else:
            self._runs = True
            self._stack.enter_context(self._cluster)

    def stop(self) -> None:
        for process in (*self._cluster.gateways, *self._cluster.stores):
            assert process.terminate() == 0, process.tail()

    def begin(self, fault: str, number: int) -> float:
        victim: ServerProcess = self._cluster.gateways[number - 1]
        if fault == LEADER_KILLED:
            victim = self._leader = self._cluster.etcd.leader()
        begun = time.monotonic()
        victim.send_signal(signal.SIGSTOP if fault == STOPPED else signal.SIGKILL)
        return begun

    def end(self, fault: str, number: int) -> None:
        gateway = self._cluster.gateways[number - 1]
        if fault == LEADER_KILLED:
            assert self._leader is not None
            self._leader.kill9()
            self._leader.start()
        else:
            gateway.kill9()
            gateway.start()

    def memory(self) -> dict[str, int]:
        return {each.directory.name: each.rss_bytes for each in self._cluster.processes}


CLUSTERS: Final[dict[str, Callable[[Path], Cluster]]] = {"standalone": OneMachine, "etcd": OverEtcd}
