"""What a scenario is given, and how one ends."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

from frameworks.checks import equal
from frameworks.java import JavaProcess
from frameworks.side import Side

NOT_IN_CLIENT_STATUS = 77


class Stage:
    """One run of a scenario: the server, an empty directory, and the framework's processes."""

    def __init__(self, bootstrap: str, directory: Path, home: Path | None = None) -> None:
        self.bootstrap = bootstrap
        self.directory = directory
        self.server = Side(bootstrap)
        self.processes: list[JavaProcess] = []
        self.seconds = float(os.environ.get("COMPAT_SECONDS", "0"))
        """How long work goes on, in a scenario that lasts."""
        self._id = uuid.uuid4().hex[:8]
        self._home = home

    def name(self, what: str) -> str:
        """For a topic or a group of this run alone."""
        return f"{what}-{self._id}"

    def java(self, name: str, main_class: str, *arguments: str) -> JavaProcess:
        """Not started yet."""
        process = JavaProcess(name, main_class, arguments, self.directory, self._home)
        self.processes.append(process)
        return process

    def kill_server(self) -> None:
        """SIGKILL; it serves again once this returns."""
        print("kill-server", flush=True)
        equal(sys.stdin.readline(), "restarted\n", "what the runner says")


def main(scenarios: Mapping[str, Callable[[Stage], None]]) -> int:
    """`python -m FOLDER.scenarios SCENARIO BOOTSTRAP`; the exit status."""
    name, bootstrap = sys.argv[1:]
    if name not in scenarios:
        print(f"no scenario {name} in this program", file=sys.stderr)
        return NOT_IN_CLIENT_STATUS
    with tempfile.TemporaryDirectory(prefix="compat-", ignore_cleanup_errors=True) as directory:
        stage = Stage(bootstrap, Path(directory))
        try:
            scenarios[name](stage)
        except Exception:
            print("".join(process.tail() for process in stage.processes), file=sys.stderr)
            traceback.print_exc()
            return 1
        finally:
            for process in stage.processes:
                if process.runs:
                    process.kill9()
    return 0
