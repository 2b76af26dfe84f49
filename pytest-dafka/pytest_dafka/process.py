"""The server as a process: one for a run, started by whichever worker first needs it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import sys
import time
from pathlib import Path

START_SECONDS = 30.0
STOP_SECONDS = 10.0
"""Patience with a loaded machine: it takes half a second, and a tenth of one."""

LOOK_SECONDS = 0.005

BOOTSTRAP, CHAOS, LOG, PID = "bootstrap", "chaos", "log", "pid"
"""Files in the directory of a server."""


class CannotStart(Exception):
    """The server has ended before it served; the text has its last words."""


def shared(directory: Path, ends_with: int) -> str:
    """HOST:PORT of the run's server, which is started if nobody has done so yet. Raises CannotStart."""
    directory.mkdir(mode=0o700, exist_ok=True)
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (directory / BOOTSTRAP).exists():
            return (directory / BOOTSTRAP).read_text().strip()
        return start(directory, ends_with)


def start(directory: Path, ends_with: int, *arguments: str) -> str:
    """Start a server that ends with a process; HOST:PORT. Raises CannotStart."""
    command = [
        sys.executable, "-P", "-m", "dafka", "standalone", "--ephemeral", "--listen", "127.0.0.1:0",
        "--ends-with", str(ends_with), "--port-file", str(directory / BOOTSTRAP),
        "--chaos", str(directory / CHAOS), *arguments,
    ]  # fmt: skip
    log = os.open(directory / LOG, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        # Not as a child that Python counts: it may outlive the worker that starts it. In a session of its
        # own, so that Ctrl-C ends the tests and not the server under them.
        pid = os.posix_spawn(
            sys.executable,
            command,
            {name: value for name, value in os.environ.items() if not name.startswith("DAFKA_")},
            file_actions=[(os.POSIX_SPAWN_DUP2, log, number) for number in (1, 2)],
            setsid=True,
        )
    finally:
        os.close(log)
    (directory / PID).write_text(str(pid))
    deadline = time.monotonic() + START_SECONDS
    while not (directory / BOOTSTRAP).exists():
        if os.waitpid(pid, os.WNOHANG)[0] or time.monotonic() > deadline:
            raise CannotStart("dafka standalone does not serve:\n" + "\n".join(last_lines(directory)))
        time.sleep(LOOK_SECONDS)
    return (directory / BOOTSTRAP).read_text().strip()


def stop(directory: Path) -> None:
    """Stop the server of a directory, and remove that."""
    with contextlib.suppress(OSError, ValueError):
        pid = int((directory / PID).read_text())
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        while _is_there(pid) and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)
    shutil.rmtree(directory, ignore_errors=True)


def last_lines(directory: Path, count: int = 50) -> list[str]:
    """The end of the server's log."""
    try:
        return (directory / LOG).read_text(errors="replace").splitlines()[-count:]
    except OSError:
        return []


def _is_there(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == 0
    except ChildProcessError:
        pass  # a worker's child
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
