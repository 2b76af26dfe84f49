"""Three of everything: gateways, stores and members of etcd, and two towers, each on a host of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from tests.faults.network import Host, Network
from tests.peers.etcd import Etcd, EtcdProcess
from tests.peers.mesh import GATEWAY_READY, STORE_READY, GatewayProcess, StoreProcess
from tests.peers.tower import TowerProcess

GATEWAYS = STORES = MEMBERS = 3
TOWERS = 2
KAFKA_PORT = 9092
Process = GatewayProcess | StoreProcess | TowerProcess | EtcdProcess


class WholeCluster:
    """A context manager around all of them, ready.

    Args:
        prefix: in front of the commands of gateways, stores and towers, by the directory of the process.
    """

    def __init__(
        self,
        directory: Path,
        network: Network,
        gateway_arguments: Sequence[str] = (),
        prefixes: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self.hosts: dict[Process, Host] = {}
        self.clients: Host = network.outside
        self._stack = ExitStack()
        members = [network.host() for _ in range(MEMBERS)]
        self.etcd = Etcd(directory / "etcd", MEMBERS, hosts=[host.address for host in members])
        self.towers = [TowerProcess(directory / f"tower-{number}") for number in range(1, TOWERS + 1)]
        self.stores = [
            StoreProcess(directory / f"store-{number}", f"s{number}", self.towers[0])
            for number in range(1, STORES + 1)
        ]
        self.gateways = [
            GatewayProcess(
                directory / f"gateway-{number}",
                self.towers[0],
                STORES,
                *["--catalog", self.etcd.address, "--gateway-id", str(number), *gateway_arguments],
            )
            for number in range(1, GATEWAYS + 1)
        ]
        self.hosts.update(zip(self.etcd.members, members, strict=True))
        for process in self.processes:
            host = self.hosts.get(process) or network.host()
            self.hosts[process] = host
            process.prefix = [*host.prefix, *(prefixes or {}).get(process.directory.name, ())]
        for tower in self.towers:
            tower.reached_at = self.hosts[tower].address
            tower.arguments += ("--listen", tower.reached_at, "--insecure-mesh")
        nodes: list[StoreProcess | GatewayProcess] = [*self.stores, *self.gateways]
        for node in nodes:
            node.more_towers = self.towers[1:]
            node.arguments += ["--mesh-listen", self.hosts[node].address, "--insecure-mesh"]
        for gateway in self.gateways:
            gateway.host, gateway.port = self.hosts[gateway].address, KAFKA_PORT

    @property
    def processes(self) -> list[Process]:
        """In the order in which they are started."""
        return [*self.etcd.members, *self.towers, *self.stores, *self.gateways]

    @property
    def bootstrap(self) -> str:
        return ",".join(gateway.bootstrap for gateway in self.gateways)

    @property
    def is_ready(self) -> bool:
        """Whether each gateway and store has said that it serves, since it was started last."""
        gateways = all(GATEWAY_READY.search(each.stdout_path.read_text()) for each in self.gateways)
        return gateways and all(STORE_READY.search(each.stdout_path.read_text()) for each in self.stores)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for process in self.processes:
                stack.callback(process.kill9)
            stack.enter_context(self.etcd)
            for tower in self.towers:
                tower.start()
            self.start_nodes()
            self._stack = stack.pop_all()
        return self

    def start_nodes(self) -> None:
        """Start stores and gateways, and wait until they serve."""
        for store in self.stores:
            store.start()
        # All at once: each waits for the stores, and one of them makes the cluster.
        for gateway in self.gateways:
            gateway.launch()
        for gateway in self.gateways:
            gateway.wait_ready()

    def __exit__(self, *_exc: object) -> None:
        self._stack.close()
