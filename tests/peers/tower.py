"""`dafka tower` as a real process, the way a user starts it."""

import re
from pathlib import Path
from typing import Self

from mesh.protocol.endpoints import TowerAddress
from tests.peers.ports import free_ports
from tests.peers.process import ServerProcess

READY = re.compile(r"^Tower is ready on (\S+):(\d+):(\d+)\n", re.MULTILINE)


class TowerProcess(ServerProcess):
    """A context manager around a running `dafka tower` on free ports, the same after a restart."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        super().__init__(directory)
        self.arguments = arguments
        self.host, self.port_in, self.port_out = "127.0.0.1", 0, 0
        self.reached_at = "127.0.0.1"
        """The host by which nodes reach it."""

    @property
    def address(self) -> TowerAddress:
        """As nodes reach it."""
        return TowerAddress(self.reached_at, self.port_in, self.port_out)

    @property
    def stdout(self) -> str:
        """What this life of the process wrote to standard output so far."""
        return self.stdout_path.read_text(errors="replace")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_exc: object) -> None:
        self.kill9()

    def launch(self) -> None:
        """Start it without waiting."""
        if not self.port_in:
            self.port_in, self.port_out = free_ports(2)
        ports = ("--port-in", str(self.port_in), "--port-out", str(self.port_out))
        self._spawn([*self.python, "-m", "dafka.cli", "tower", *ports, *self.arguments])

    def start(self) -> Self:
        """Start it and wait for the line that says it serves. Raises ServerEnded if it refused to."""
        self.launch()
        ready = self._wait_until(lambda: READY.search(self.stdout))
        self.host, self.port_in, self.port_out = ready[1], int(ready[2]), int(ready[3])
        return self
