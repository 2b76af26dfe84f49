"""A client's load on an arrangement, from a host of its own, and the judgement of what it wrote."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

from tests.deploy.arrangement import Arrangement
from tests.deploy.client import PARTITIONS
from tests.deploy.image import ROOT
from tests.peers.process import ServerProcess

TOPIC = "orders"
COPIES = ("--partitions", "4", "--replication-factor", "3", "--config", "min.insync.replicas=2")
"""How the topic is created where a store of three may be away."""
GOES_ON_SECONDS = 60.0


class Load(ServerProcess):
    """A context manager around a client that writes without an end."""

    def __init__(self, arrangement: Arrangement, bootstrap: str, directory: Path) -> None:
        super().__init__(directory)
        self._arrangement, self._bootstrap = arrangement, bootstrap
        self.environment["PYTHONPATH"] = str(ROOT)

    def _command(self, what: str) -> list[str]:
        program = (sys.executable, "-m", "tests.deploy.client")
        return self._arrangement.in_client(*program, what, self._bootstrap, TOPIC)

    def __enter__(self) -> Self:
        self._spawn(self._command("write"))
        return self

    def __exit__(self, *_exc: object) -> None:
        self.kill9()

    @property
    def acked(self) -> int:
        """What it has said so far, in hundreds."""
        lines = self.stdout_path.read_text().split("\n")[:-1]
        return int(lines[-1].split()[1]) if lines else 0

    def go_on(self) -> None:
        """What was sent before this has its answer, and more is acknowledged. Raises AssertionError."""
        before, deadline = self.acked, time.monotonic() + GOES_ON_SECONDS
        while self.acked < before + 300:
            assert self.returncode is None, self.tail()
            assert time.monotonic() < deadline, f"nothing is acknowledged any more: {self.tail()}"
            time.sleep(0.05)

    def outlives_each_kill(self) -> None:
        """Kill each part and start it again. The load goes on meanwhile, unless that was the only gateway."""
        is_alone = len(self._arrangement.of_role("gateway")) == 1
        for running in self._arrangement.running.values():
            running.kill9()
            if running.part.role != "gateway" or not is_alone:
                self.go_on()
            running.launch()
            running.wait_until_ready()
            self.go_on()

    def judge(self) -> int:
        """Stop it: everything was acknowledged, and is there once and in order. The number of records."""
        assert self.terminate() == 0, self.tail()
        result = json.loads(self.stdout_path.read_text().splitlines()[-1])
        assert result["failures"] == []
        assert result["acked"] == result["sent"] > 0
        done = subprocess.run(
            self._command("read"),
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        found = {int(partition): numbers for partition, numbers in json.loads(done.stdout).items()}
        assert found == {first: [*range(first, result["sent"], PARTITIONS)] for first in range(PARTITIONS)}
        return int(result["sent"])
