"""The first line a user sees: that it serves, and how to connect. To standard output."""

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from gateway.front.listener_sockets import ListenerSocket
from gateway.front.listeners import DEFAULT_LISTENER_NAME, Listener, join_host_port
from gateway.security.protocol import SecurityProtocol
from mesh.private_files import new_file


def say_ready(sockets: Sequence[ListenerSocket]) -> None:
    """Print one line per address that is served, and below it how to connect."""
    addresses = [join_host_port(*entry.socket.getsockname()[:2]) for entry in sockets]
    for address in addresses:
        print(f"Kafka is ready on {address}")
    for told in dict.fromkeys(_told(entry.listener) for entry in sockets):
        print(f"  clients are told to use: {told}")
    client = advertised(sockets)
    _say_how_to_connect(client)
    if (protocol := sockets[0].listener.protocol) is not SecurityProtocol.PLAINTEXT:
        print(f"  each of them with security.protocol={protocol.value}: see docs/security.md", flush=True)


def say_cluster_ready(clients: Sequence[str], others: Sequence[str]) -> None:
    """Print that all gateways serve, where their clients connect, and what else was started."""
    print(f"Kafka is ready on {', '.join(clients)}")
    print(f"  beside them: {', '.join(others)}")
    _say_how_to_connect(",".join(clients))


def _say_how_to_connect(bootstrap: str) -> None:
    print(f"  kcat:    kcat -b {bootstrap} -L")
    print(f'  Python:  kafka.KafkaProducer(bootstrap_servers="{bootstrap}")')
    print(f'  Spark:   spark.readStream.format("kafka").option("kafka.bootstrap.servers", "{bootstrap}")')
    print(f"  check:   dafka doctor {bootstrap}", flush=True)


def _told(listener: Listener) -> str:
    """The address that Metadata gives to who comes in on a listener, and the listener's name."""
    if listener.is_wildcard and listener.advertised_host is None:
        told = f"the address that they reached, port {listener.port} (or what --listen says after an @)"
    else:
        told = join_host_port(*listener.advertised(listener.host))
    return told if listener.name == DEFAULT_LISTENER_NAME else f"{told} (listener {listener.name})"


def advertised(sockets: Sequence[ListenerSocket]) -> str:
    """Where clients of the first listener connect."""
    host, port = sockets[0].listener.advertised(sockets[0].socket.getsockname()[0])
    return join_host_port(host, port)


class PortFile:
    """A file with HOST:PORT of the first listener (of each gateway, with commas between), for whoever started
    the process; None: there is none.

    A context manager: at its end the file is gone.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._written = ""

    def write(self, bootstrap: str) -> None:
        """Make the file, whole at once: whoever waits for it may read it the moment it is there."""
        if self._path is not None:
            self._written = f"{bootstrap}\n"
            draft = self._path.with_name(f"{self._path.name}.{os.getpid()}")
            with os.fdopen(new_file(draft), "w") as file:
                file.write(self._written)
            draft.replace(self._path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._path is not None and self._written:
            with contextlib.suppress(OSError):
                # Unless it is another server's by now.
                if self._path.read_text() == self._written:
                    self._path.unlink()


def say_store_ready(name: str, where: str, towers: Sequence[str]) -> None:
    """Print that a store serves, and who introduces it."""
    print(f"The store {name} is ready on {where}, found through {', '.join(towers)}", flush=True)


def say_tower_ready(host: str, port_in: int, port_out: int) -> None:
    """Print where a tower serves, as nodes write it with `--tower`."""
    print(f"Tower is ready on {join_host_port(host, port_in)}:{port_out}", flush=True)
