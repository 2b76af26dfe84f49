"""etcd as real processes: one member, or a cluster of several."""

from __future__ import annotations

import json
import signal
import ssl
import time
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol, Self

from tests.peers.ports import free_ports
from tests.peers.process import ServerProcess
from tests.peers.requirements import require

ELECTION_SECONDS = 30.0
AGAIN_SECONDS = 0.1
ASK_SECONDS = 5.0


class Certificates(Protocol):
    """Files in PEM: of the authority, of the server, and of a client."""

    ca: Path
    server: Path
    server_key: Path
    cert: Path
    key: Path


class EtcdProcess(ServerProcess):
    """One member; its data and its ports stay over restarts. `cluster` has the address of each member, as the
    others reach it, by name. `arguments` are more of etcd's flags.
    """

    def __init__(
        self,
        directory: Path,
        name: str,
        port: int,
        cluster: Mapping[str, str],
        *arguments: str,
        certificates: Certificates | None = None,
    ) -> None:
        super().__init__(directory, {"ETCD_UNSUPPORTED_ARCH": ""})
        self.name = name
        self.host = cluster[name].rpartition(":")[0]
        self.port = port
        self.data = directory / "data"
        self.arguments = list(arguments)
        self.scheme = "http" if certificates is None else "https"
        self._cluster = cluster
        self._context: ssl.SSLContext | None = None
        self._certificates = certificates
        if certificates is not None:
            own = [f"--cert-file={certificates.server}", f"--key-file={certificates.server_key}"]
            self.arguments += [*own, "--client-cert-auth", f"--trusted-ca-file={certificates.ca}"]

    @property
    def address(self) -> str:
        """As clients reach it."""
        return f"{self.host}:{self.port}"

    def launch(self) -> None:
        """Start it without waiting."""
        if self._certificates is not None:
            self._context = ssl.create_default_context(cafile=self._certificates.ca)
            self._context.load_cert_chain(self._certificates.cert, self._certificates.key)
        peer = f"http://{self._cluster[self.name]}"
        client = f"{self.scheme}://{self.address}"
        cluster = ",".join(f"{name}=http://{address}" for name, address in self._cluster.items())
        options = {
            "name": self.name,
            "data-dir": str(self.data),
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": cluster,
            "initial-cluster-token": "dafka-tests",
            "logger": "zap",
        }
        flags = [f"--{key}={value}" for key, value in options.items()]
        self._spawn([require("etcd"), *flags, "--pre-vote", *self.arguments])

    def wait_ready(self) -> None:
        """Until it takes a transaction."""
        self._wait_until(lambda: True if self._answers() else None)

    def start(self) -> Self:
        """Start it and wait until it takes a transaction: with others, when a majority of them runs."""
        self.launch()
        self.wait_ready()
        return self

    def _answers(self) -> bool:
        try:
            return bool(self.ask("/v3/kv/txn", {}))
        except OSError:
            return False

    def ask(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """What the JSON gateway of this member answers. Raises OSError."""
        request = urllib.request.Request(
            f"{self.scheme}://{self.address}{path}",
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=ASK_SECONDS, context=self._context) as response:
            told: dict[str, Any] = json.load(response)
        return told

    def delete_all(self, prefix: str) -> None:
        """What nobody but a test does."""
        self.ask("/v3/kv/deleterange", _range(prefix))

    def count(self, prefix: str) -> int:
        """Keys that begin so. Raises OSError."""
        return int(self.ask("/v3/kv/range", {**_range(prefix), "count_only": True}).get("count", 0))

    def pause(self) -> None:
        self.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.send_signal(signal.SIGCONT)

    @property
    def is_leader(self) -> bool:
        """Whether it leads its cluster. Raises OSError."""
        status = self.ask("/v3/maintenance/status", {})
        return bool(status.get("leader")) and status["leader"] == status["header"]["member_id"]


def _range(prefix: str) -> dict[str, str]:
    first = prefix.encode()
    end = first[:-1] + bytes([first[-1] + 1])
    return {"key": b64encode(first).decode(), "range_end": b64encode(end).decode()}


class Etcd:
    """A context manager around so many members, all ready. With `certificates` they encrypt, and ask their
    clients for certificates. `hosts` has the address that each member listens at.
    """

    def __init__(
        self,
        directory: Path,
        members: int = 1,
        *arguments: str,
        certificates: Certificates | None = None,
        hosts: Sequence[str] | None = None,
    ) -> None:
        ports = free_ports(2 * members)
        where = zip(hosts or ["127.0.0.1"] * members, ports[:members], strict=True)
        cluster = {f"n{number}": f"{host}:{port}" for number, (host, port) in enumerate(where, 1)}
        self.members = [
            EtcdProcess(directory / name, name, port, cluster, *arguments, certificates=certificates)
            for name, port in zip(cluster, ports[members:], strict=True)
        ]
        self._stack = ExitStack()

    @property
    def address(self) -> str:
        """For `--catalog`."""
        return "etcd://" + ",".join(member.address for member in self.members)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for member in self.members:
                stack.callback(member.kill9)
                member.launch()
            for member in self.members:
                member.wait_ready()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stack.close()

    def kill_all(self) -> None:
        for member in self.members:
            member.kill9()

    def start_all(self) -> None:
        for member in self.members:
            member.launch()
        for member in self.members:
            member.wait_ready()

    def leader(self) -> EtcdProcess:
        return self._first(lambda member: member.is_leader)

    def follower(self) -> EtcdProcess:
        return self._first(lambda member: not member.is_leader)

    def _first(self, is_it: Callable[[EtcdProcess], bool]) -> EtcdProcess:
        """Raises AssertionError: there is none, also after an election."""
        deadline = time.monotonic() + ELECTION_SECONDS
        while time.monotonic() < deadline:
            for member in self.members:
                try:
                    if is_it(member):
                        return member
                except OSError:
                    pass
            time.sleep(AGAIN_SECONDS)
        raise AssertionError("there is none")
