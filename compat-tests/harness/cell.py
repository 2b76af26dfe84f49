"""One cell of the table: a client's program in one scenario against one server."""

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.folders import ClientFolder
from harness.scenarios import Scenario
from harness.secured import SecuredServer
from harness.servers import Server

PASS, FAIL, NOT_IN_CLIENT = "pass", "fail", "not in this client"
NOT_IN_CLIENT_STATUS = 77
"""Exit status of a program that says its client cannot do this at all."""
KILL_SERVER, RESTARTED = "kill-server", "restarted"
"""What the program says to have the server killed, and what it is told once it serves again."""
CHECK_CODEC = "check-codec"
"""`check-codec TOPIC CODEC`: all batches of partition 0 must be stored so, once the program has passed."""
WORDS_CHARACTERS = 2000


@dataclass
class Cell:
    """How it went, and the end of what the program wrote to standard error."""

    outcome: str
    words: str
    seconds: float

    def as_json(self) -> dict[str, object]:
        return asdict(self)


def run_cell(
    client: ClientFolder,
    home: Path,
    scenario: Scenario,
    server: Server,
    codecs_of: Callable[[str, str], set[str]],
) -> Cell:
    """Run it to its end or its time limit; nothing it started is left running.

    `codecs_of` tells for a bootstrap and a topic under which codecs partition 0 is stored.
    """
    start = time.monotonic()
    # A JVM that gets a SIGKILL leaves its native libraries behind, megabytes each.
    with tempfile.TemporaryDirectory(prefix="compat-", ignore_cleanup_errors=True) as temporary:
        more = {"TMPDIR": temporary, "COMPAT_SECONDS": str(scenario.lasts_seconds)}
        if isinstance(server, SecuredServer):
            more |= server.environment
        status, talk = _run(client, {**client.environment(home), **more}, scenario, server)
    outcome, words = _judged(status, talk, scenario)
    if outcome == PASS:
        outcome, words = _codecs_judged(talk, server, codecs_of)
    return Cell(outcome, words[-WORDS_CHARACTERS:].strip(), round(time.monotonic() - start, 1))


def _run(
    client: ClientFolder, environment: dict[str, str], scenario: Scenario, server: Server
) -> tuple[int | None, "_Talk"]:
    """Its exit status, None when its time was over, and what it said."""
    process = subprocess.Popen(
        client.command(scenario.name, server.bootstrap),
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    talk = _Talk(process, server)
    try:
        status: int | None = process.wait(scenario.limit_seconds)
    except subprocess.TimeoutExpired:
        status = None
    finally:
        end_session(process)
    talk.join()
    return status, talk


def _judged(status: int | None, talk: "_Talk", scenario: Scenario) -> tuple[str, str]:
    if talk.server_failed:
        return FAIL, f"{talk.errors}\n{talk.server_failed}"
    if status is None:
        return FAIL, f"{talk.errors}\nstill running after {scenario.limit_seconds:g} s"
    if status == NOT_IN_CLIENT_STATUS:
        return NOT_IN_CLIENT, talk.errors
    if status != 0:
        return FAIL, f"{talk.errors}\nended with {status}"
    return PASS, ""


def _codecs_judged(
    talk: "_Talk", server: Server, codecs_of: Callable[[str, str], set[str]]
) -> tuple[str, str]:
    for topic, codec in talk.codecs:
        stored = codecs_of(server.bootstrap, topic)
        if stored != {codec}:
            return FAIL, f"{topic} should be stored under {codec}, and is under {sorted(stored)}"
    return PASS, ""


def end_session(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    """The program and whatever it started: members of groups are processes of their own."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # all of it has ended
    process.wait()


class _Talk:
    """Reads what a program says, in threads, and does what it asks for."""

    def __init__(self, process: subprocess.Popen[str], server: Server) -> None:
        self.codecs: list[tuple[str, str]] = []
        self.server_failed = ""
        self._errors: list[str] = []
        self._process = process
        self._tasks: dict[str, Callable[[], str]] = {KILL_SERVER: lambda: _restarted(server)}
        if isinstance(server, SecuredServer):
            self._tasks |= server.tasks
        self._threads = [threading.Thread(target=self._answer), threading.Thread(target=self._listen)]
        for thread in self._threads:
            thread.start()

    @property
    def errors(self) -> str:
        return "".join(self._errors)

    def join(self) -> None:
        for thread in self._threads:
            thread.join()

    def _answer(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdin is not None
        with self._process.stdout, self._process.stdin:
            for line in self._process.stdout:
                word, *rest = line.split() or [""]
                if word in self._tasks and not self._done(self._tasks[word]):
                    return
                if word == CHECK_CODEC:
                    self.codecs.append((rest[0], rest[1]))

    def _done(self, task: Callable[[], str]) -> bool:
        """Have the server do it, and tell the program; False where there is no going on."""
        assert self._process.stdin is not None
        try:
            told = task()
        except Exception as failure:
            self.server_failed = f"the server did not do it: {failure}"
            end_session(self._process)
            return False
        try:
            self._process.stdin.write(f"{told}\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return False  # it did not wait; its exit status tells why
        return True

    def _listen(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr:
            self._errors.extend(self._process.stderr)


def _restarted(server: Server) -> str:
    """SIGKILL of the server; what the program is told once it serves again."""
    server.restart()
    return RESTARTED
