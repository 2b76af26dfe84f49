"""A container of an image, made of namespaces and mounts, as a container runtime makes it."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from tests.deploy import seccomp
from tests.deploy.image import ROOT, Image
from tests.faults.network import Host
from tests.peers.process import ServerProcess

FIRST_PROCESS = (
    f"import sys; sys.path.insert(0, {str(ROOT)!r}); "
    "from tests.deploy.first_process import main; main(sys.argv[1])"
)
VOLUME = "/data"


class Container(ServerProcess):
    """Runs in a host's network namespace, with mounts and process numbers of its own; it is process 1 there.

    Args:
        directory: for its logs and its volume, which outlives it.
        command: in place of the image's; the entry point stays.
        environment: besides the image's.
        read_only: directories of this machine, by where the container has them.
    """

    def __init__(
        self,
        image: Image,
        host: Host,
        directory: Path,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        read_only: Mapping[str, Path] | None = None,
    ) -> None:
        super().__init__(directory)
        self._read_only = {inside: str(outside) for inside, outside in (read_only or {}).items()}
        self.image, self.host = image, host
        self.prefix = host.prefix
        self.volume = directory / "volume"
        self.volume.mkdir(mode=0o700)
        self._command = [*image.config["Entrypoint"], *command]
        self.variables = {**image.environment, **(environment or {})}
        user, group = image.user
        # A new volume has the owner that the directory has in the image.
        os.chown(self.volume, user, group)

    def launch(self) -> None:
        """Start it without waiting."""
        user, group = self.image.user
        container = {
            "root": str(self.image.root),
            "mounts": {VOLUME: str(self.volume)},
            "read_only_mounts": self._read_only,
            "user": user,
            "group": group,
            "environment": self.variables,
            "command": self._command,
            "filter": base64.b64encode(seccomp.of_containers()).decode(),
        }
        namespaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child=SIGKILL"]
        self._spawn([*namespaces, sys.executable, "-I", "-c", FIRST_PROCESS, json.dumps(container)])

    def start(self, ready: str) -> Self:
        """Start it and wait until standard output has this pattern. Raises ServerEnded."""
        self.launch()
        pattern = re.compile(ready, re.MULTILINE)
        self._wait_until(lambda: pattern.search(self.stdout_path.read_text(errors="replace")))
        return self

    @property
    def first_pid(self) -> int:
        """Its process 1, by its number outside."""
        return int(Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()[0])

    def stop(self, seconds: float) -> int:
        """What a runtime does: the stop signal to process 1, and the exit code. Raises AssertionError if it
        is not over within so many seconds.
        """
        os.kill(self.first_pid, signal.Signals[self.image.config["StopSignal"]])
        return self.wait(seconds)

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run another command beside process 1, as its user, as health checks are run."""
        user, group = (str(number) for number in self.image.user)
        inside = ["--mount", "--pid", "--net", "--root", "--wd=/", "-S", user, "-G", group]
        return subprocess.run(
            ["nsenter", "--target", str(self.first_pid), *inside, *command],
            env=self.variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def check_health(self) -> subprocess.CompletedProcess[str]:
        """The image's own health check."""
        how, *command = self.image.config["Healthcheck"]["Test"]
        assert how == "CMD", "a shell would be needed"
        return self.run(*command)
