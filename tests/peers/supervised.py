"""`dafka standalone --gateways N` as a real process with processes of its own."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import Self

from tests.peers.ports import free_ports_in_a_row
from tests.peers.process import STOP_TIMEOUT_SECONDS, ServerProcess

MOST_GATEWAYS = 4

IS_PROCESS = re.compile(r"(\S+) is process (\d+)$", re.MULTILINE)


class Supervised(ServerProcess):
    """On the same data after a restart; on free ports unless `listen` says otherwise."""

    def __init__(self, directory: Path, gateways: int, stores: int, *arguments: str) -> None:
        super().__init__(directory)
        self.data = directory / "data"
        self.port_file = directory / "bootstrap"
        self.listen = "127.0.0.1:0"
        own = ["--gateways", str(gateways), "--stores", str(stores), "--data", str(self.data)]
        self.arguments = [*own, "--port-file", str(self.port_file), *arguments]
        self.bootstrap = ""

    def stay_on_its_ports(self) -> None:
        """From the next start on gateways have ports that follow each other, the same ones each time."""
        self.listen = f"127.0.0.1:{free_ports_in_a_row(MOST_GATEWAYS)}"

    def launch(self) -> None:
        """Start it without waiting."""
        command = [sys.executable, "-m", "dafka.cli", "standalone", "--listen", self.listen]
        self._spawn([*command, *self.arguments])

    def start(self) -> Self:
        """Start it and wait until all serve. Raises ServerEnded if they do not."""
        self.launch()
        self._wait_until(lambda: self.port_file.exists() or None)
        self.bootstrap = self.port_file.read_text().strip()
        return self

    @property
    def addresses(self) -> list[str]:
        """By gateway, the first one's first."""
        return self.bootstrap.split(",")

    @property
    def pids(self) -> dict[str, int]:
        """Name -> the process that was started last."""
        return {name: int(pid) for name, pid in IS_PROCESS.findall(self.log)}

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """Send a signal to one of them."""
        os.kill(self.pids[name], number)

    def wait_until_it_serves_again(self, name: str, times: int = 1) -> None:
        """It was started again so many times."""
        self._wait_until(lambda: self.log.count(f"{name} serves again") >= times or None)

    def wait_until_all_are_gone(self) -> None:
        """Raises AssertionError: some go on although nobody has them any more."""
        deadline = time.monotonic() + STOP_TIMEOUT_SECONDS
        while left := [name for name, pid in self.pids.items() if _is_there(pid)]:
            assert time.monotonic() < deadline, f"left: {left}"
            time.sleep(0.01)


def _is_there(pid: int) -> bool:
    """Whether a process of ours runs: one that nobody has waited for has ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
