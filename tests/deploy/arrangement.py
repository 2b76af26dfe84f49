"""The processes that a file in deploy/ describes, started with its flags and variables.

Each has a host of its own (a network namespace) where ports are as they are written, finds the others by the
names that the file gives them, and has the file's volumes as directories. Its command is `dafka` from this
checkout.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from tests.deploy.image import ROOT
from tests.deploy.parts import Check, Part
from tests.faults.network import Host, Network, ip
from tests.peers.process import ServerProcess
from tests.peers.requirements import require

DAFKA = (sys.executable, "-m", "dafka")
HOSTS_OF_NAMESPACES = Path("/etc/netns")
"""`ip netns exec NAME` puts the files of the folder NAME in the place of those in /etc."""
READY_SECONDS = 90.0
FOREIGN = ("DAFKA_", "KUBERNETES_")


class Running(ServerProcess):
    """One part."""

    def __init__(
        self, part: Part, host: Host, directory: Path, volumes: Path, prefix: Sequence[str] = ()
    ) -> None:
        super().__init__(directory)
        self.part, self.host = part, host
        self.prefix = [*host.prefix, *prefix]
        self._folders = {path: volumes / name for path, name in part.volumes.items()}
        for folder in self._folders.values():
            folder.mkdir(parents=True, exist_ok=True)
        foreign = [name for name in os.environ if name.startswith(FOREIGN)]
        self.environment = {name: text for name, text in os.environ.items() if name not in foreign}
        self.environment |= {name: self._placed(text) for name, text in part.environment.items()}
        self.environment["PYTHONPATH"] = str(ROOT)

    def _placed(self, text: str) -> str:
        """A path in a volume, also one behind `--option=`, where the volume is here; everything else is as it
        was.
        """
        option, _, given = text.rpartition("=") if text.startswith("--") else ("", "", text)
        for path, folder in self._folders.items():
            if given == path or given.startswith(f"{path}/"):
                placed = str(folder) + given.removeprefix(path)
                return f"{option}={placed}" if option else placed
        return text

    def launch(self) -> None:
        """Start it without waiting."""
        for command in self.part.first:
            done = subprocess.run(
                [*self.prefix, *DAFKA, *map(self._placed, command)],
                env=self.environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )
            assert done.returncode == 0, done.stdout + done.stderr
        program = [require(self.part.program)] if self.part.program else DAFKA
        self._spawn([*program, *map(self._placed, self.part.command)])

    def is_ready(self) -> bool:
        return self.answers(self.part.ready)

    def answers(self, check: Check) -> bool:
        """Whether a check, asked as the file says, is satisfied."""
        if check.command:
            assert check.command[0] == "dafka"
            asked = subprocess.run(
                [*self.prefix, *DAFKA, *check.command[1:]],
                env=self.environment,
                capture_output=True,
                check=False,
                timeout=60,
            )
            return asked.returncode == 0
        try:
            with urllib.request.urlopen(
                f"http://{self.host.address}:{check.port}{check.path}", timeout=5
            ) as page:
                return bool(page.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def wait_until_ready(self) -> None:
        """Raises AssertionError: it ended, or is not ready in time."""
        self._wait_until(lambda: True if self.is_ready() else time.sleep(0.2), READY_SECONDS)

    def restart(self) -> None:
        """As an upgrade does: stopped within its grace, in order, and started anew; ready when it returns."""
        self.stop()
        self.launch()
        self.wait_until_ready()

    def stop(self) -> None:
        """In order, within its grace."""
        code = self.terminate(self.part.grace_seconds)
        # etcd ends by the signal itself, when it has done what it does.
        assert code == (-signal.SIGTERM if self.part.program else 0), self.tail()


class Arrangement:
    """A context manager around all parts, started at once and in no order, as containers are.

    prefix: in front of each command; must leave the process its id.
    """

    def __init__(self, parts: Sequence[Part], directory: Path, prefix: Sequence[str] = ()) -> None:
        self._prefix = prefix
        self._network = Network()
        self._directory = directory
        self._parts = parts
        self._placed: list[tuple[Part, Host]] = []
        self._stack = ExitStack()
        self._client: Host
        self.running: dict[str, Running] = {}

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self._network)
            hosts = [self._network.host() for _ in self._parts]
            self._client = self._network.host()
            self._placed = list(zip(self._parts, hosts, strict=True))
            for host in (*hosts, self._client):
                folder = HOSTS_OF_NAMESPACES / host.name
                stack.callback(shutil.rmtree, folder, ignore_errors=True)
                folder.mkdir(parents=True)
            self._write_names()
            for part, host in zip(self._parts, hosts, strict=True):
                running = Running(
                    part, host, self._directory / part.name, self._directory / "volumes", self._prefix
                )
                self.running[part.name] = running
                stack.callback(running.kill9)
                running.launch()
            for running in self.running.values():
                running.wait_until_ready()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stack.close()

    def _write_names(self) -> None:
        lines = ["127.0.0.1 localhost"]
        for part, host in self._placed:
            lines += [f"{host.address} {name}" for name in part.names]
        for host in (*(host for _, host in self._placed), self._client):
            # In place: it is mounted where it is read.
            (HOSTS_OF_NAMESPACES / host.name / "hosts").write_text("\n".join(lines) + "\n")

    def move(self, running: Running) -> None:
        """Have a part that does not run come back under another address, which its names then have."""
        host = running.host
        before, host.address = host.address, self._network.another_address(host)
        # The system takes later addresses of a network away with the first one.
        for change, address in (("del", before), ("replace", host.address)):
            ip("-n", host.name, "addr", change, f"{address}/24", "dev", "eth0")
        self._write_names()

    def of_role(self, role: str) -> list[Running]:
        """In the order of the file."""
        return [running for running in self.running.values() if running.part.role == role]

    def in_client(self, *command: str) -> list[str]:
        """A command on one more host of the network, which knows the others by their names."""
        return [*self._client.prefix, *command]

    def run(self, *arguments: str) -> str:
        """What `dafka ARGUMENTS` says there. Raises AssertionError if it fails."""
        done = subprocess.run(
            self.in_client(*DAFKA, *arguments),
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout
