"""Network namespaces: each process of a mesh on a host of its own, and routes between them that swallow
packets.

A blackhole route drops silently, as a pulled plug does: no reset, no error; what is lost is sent again by TCP
for a while, and found dead by heartbeats.
"""

from __future__ import annotations

import itertools
import os
import random
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Self

import pytest

from tests.peers.mesh import GatewayProcess, MeshCluster, StoreProcess
from tests.peers.process import ServerProcess

_numbers = itertools.count()


def ip(*arguments: str) -> str:
    """The output of `ip`. Raises CalledProcessError."""
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True).stdout


class Host:
    """A namespace with an address of its own."""

    def __init__(self, name: str, address: str) -> None:
        self.name, self.address = name, address

    @property
    def prefix(self) -> list[str]:
        """In front of a command that shall run here."""
        return ["ip", "netns", "exec", self.name]

    def drop(self, other: Host, way: str) -> None:
        """`way` is add or del: packets from here to the other are dropped, and who connects is told."""
        ip("-n", self.name, "route", way, "blackhole", f"{other.address}/32")

    def ignore(self, other: Host, way: str) -> None:
        """`way` is add or del: packets from the other are dropped here, and it notices nothing."""
        rule = ["INPUT", "-s", other.address, "-j", "DROP"]
        command = [*self.prefix, "iptables", "-w", {"add": "-A", "del": "-D"}[way], *rule]
        subprocess.run(command, check=True, capture_output=True)


class Outside(Host):
    """This machine itself, where the clients are. Its own routes are left alone: the other end drops."""

    @property
    def prefix(self) -> list[str]:
        return []

    def drop(self, other: Host, way: str) -> None:
        other.ignore(self, way)

    def ignore(self, other: Host, way: str) -> None:
        other.drop(self, way)


class Network:
    """A context manager around a bridge and the hosts at it; all go with it, faults as well."""

    def __init__(self) -> None:
        if os.geteuid() != 0:
            pytest.skip("network namespaces take root")
        # Short: an interface name has 15 characters at most.
        self._id = f"df{os.getpid() % 100_000}{next(_numbers)}"
        self._hosts: list[Host] = []
        self._more = itertools.count()

    def __enter__(self) -> Self:
        for _ in range(20):
            self._net = f"10.{random.randrange(64, 250)}.{random.randrange(250)}"
            if f" {self._net}." not in ip("-4", "addr"):
                break
        ip("link", "add", self._id, "type", "bridge")
        ip("addr", "add", f"{self._net}.254/24", "dev", self._id)
        ip("link", "set", self._id, "up")
        return self

    def __exit__(self, *_exc: object) -> None:
        for host in self._hosts:
            ip("netns", "del", host.name)
        ip("link", "del", self._id)

    def host(self) -> Host:
        """One more host."""
        number = len(self._hosts) + 1
        name = f"{self._id}-{number}"
        host = Host(name, f"{self._net}.{number}")
        ip("netns", "add", name)
        self._hosts.append(host)
        ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
        ip("link", "set", name, "master", self._id, "up")
        ip("-n", name, "addr", "add", f"{host.address}/24", "dev", "eth0")
        ip("-n", name, "link", "set", "lo", "up")
        ip("-n", name, "link", "set", "eth0", "up")
        return host

    @property
    def outside(self) -> Outside:
        """This machine, as the hosts see it."""
        return Outside("outside", f"{self._net}.254")

    def another_address(self, host: Host) -> str:
        """One more address of a host."""
        address = f"{self._net}.{100 + next(self._more)}"
        ip("-n", host.name, "addr", "add", f"{address}/24", "dev", "eth0")
        return address

    def place(self, mesh: MeshCluster) -> dict[ServerProcess, Host]:
        """A host for each process of a mesh that is not started yet."""
        places: dict[ServerProcess, Host] = {}
        for process in (mesh.tower, *mesh.stores, mesh.gateway):
            host = places[process] = self.host()
            process.prefix = host.prefix
        mesh.tower.reached_at = places[mesh.tower].address
        mesh.tower.arguments += ("--listen", mesh.tower.reached_at, "--insecure-mesh")
        mesh.gateway.host = places[mesh.gateway].address
        nodes: list[StoreProcess | GatewayProcess] = [*mesh.stores, mesh.gateway]
        for node in nodes:
            node.arguments += ["--mesh-listen", places[node].address, "--insecure-mesh"]
        return places


@contextmanager
def cut(
    ones: Sequence[Host], others: Sequence[Host], *, back: bool = True, silent: bool = False
) -> Iterator[None]:
    """Nothing gets from `ones` to `others`; with `back`, nor the other way. Heals itself.

    Args:
        silent: who connects is not told that there is no way.
    """
    pairs = [(one, other) for one in ones for other in others]
    if back:
        pairs += [(other, one) for one, other in pairs]
    drops: list[Callable[[str], None]] = [
        partial(other.ignore, one) if silent else partial(one.drop, other) for one, other in pairs
    ]
    done: list[Callable[[str], None]] = []
    try:
        for drop in drops:
            drop("add")
            done.append(drop)
        yield
    finally:
        for drop in done:
            drop("del")
