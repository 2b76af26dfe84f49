"""A process that is kept running: started, read, and started again when it ends.

Its log goes to the standard error of this process, each line with its name. What it prints says that it
serves, and where.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Final

import trio

from mesh.data_directory import EXIT_ENVIRONMENT

if TYPE_CHECKING:
    from dafka.settings import LoggingSettings

FIRST_PAUSE: Final = 0.1
LAST_PAUSE: Final = 10.0
"""Seconds before a process that has ended is started again: twice as long each time."""

STEADY_SECONDS: Final = 30.0
"""One that has served for so long is started again at once."""

LAST_WORDS_SECONDS: Final = 1.0
"""How long what a process has said last is read after its end, if one that it left behind holds its pipes."""

MAX_LINE_BYTES: Final = 64 * 1024
"""A longer line of a log is broken into several."""

logger = logging.getLogger(__name__)


class ChildEnded(Exception):
    """A process ended before all of them served: the message says which, and what it said last."""

    def __init__(self, name: str, status: int, last_words: str) -> None:
        self.exit_code = status if status > 0 else EXIT_ENVIRONMENT
        super().__init__(f"{name} {_how(status)} before it served: {last_words or 'it said nothing'}")


class Child:
    """One of them. `settings` gives what it is started with, each time."""

    def __init__(self, name: str, settings: Callable[[], LoggingSettings], ready_line: str) -> None:
        """`ready_line`: how the line begins that says that it serves, the last of those that it prints."""
        self.name = name
        self.ready = trio.Event()
        """It has served once."""
        self.said: Sequence[str] = ()
        """What it has printed, of the run that served last."""
        self.process: trio.Process | None = None
        self._settings = settings
        self._ready_line = ready_line
        self._is_stopping = False
        self._stopping = trio.Event()
        self._last_words = ""
        self._as_json = False

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep it running until `stop`. Raises ChildEnded: it ended before it has ever served."""
        pause = FIRST_PAUSE
        task_status.started()
        while not self._is_stopping:
            begun = trio.current_time()
            status = await self._run_once()
            if self._is_stopping:
                return
            if not self.ready.is_set():
                raise ChildEnded(self.name, status, self._last_words)
            if trio.current_time() - begun > STEADY_SECONDS:
                pause = FIRST_PAUSE
            logger.error("%s %s: it is started again in %g s", self.name, _how(status), pause)
            with trio.move_on_after(pause):
                await self._stopping.wait()
            pause = min(2 * pause, LAST_PAUSE)

    async def _run_once(self) -> int:
        settings = self._settings()
        self._as_json = settings.log_format == "json"
        self.process = process = await trio.lowlevel.open_process(
            [sys.executable, "-m", "dafka.processes.member", self.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={name: value for name, value in os.environ.items() if not name.startswith("DAFKA_")},
            start_new_session=True,
        )
        logger.info("%s is process %d", self.name, process.pid)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_tell, process, pickle.dumps(settings))
                nursery.start_soon(self._read_output, process)
                nursery.start_soon(self._read_log, process)
                await process.wait()
                # What it has said last is read to its end; a process that it left behind may hold the pipes.
                nursery.cancel_scope.deadline = trio.current_time() + LAST_WORDS_SECONDS
        finally:
            if process.poll() is None:
                process.kill()
        return process.returncode or 0

    def told(self, beginning: str) -> list[str]:
        """What follows this, in the lines that begin with it."""
        return [line.removeprefix(beginning) for line in self.said if line.startswith(beginning)]

    async def stop(self, seconds: float) -> None:
        """Have it end, at once if it takes longer than that, and start it no more."""
        self._is_stopping = True
        self._stopping.set()
        process = self.process
        if process is None or process.poll() is not None:
            return
        process.terminate()
        with trio.move_on_after(seconds):
            await process.wait()
            return
        logger.error("%s has not stopped within %g s: it is killed", self.name, seconds)
        process.kill()
        await process.wait()

    async def _read_output(self, process: trio.Process) -> None:
        assert process.stdout is not None
        said: list[str] = []
        async for line in _lines(process.stdout):
            said.append(line)
            if line.startswith(self._ready_line):
                self.said = said
                logger.info("%s serves%s", self.name, " again" if self.ready.is_set() else "")
                self.ready.set()

    async def _read_log(self, process: trio.Process) -> None:
        assert process.stderr is not None
        async for line in _lines(process.stderr):
            self._last_words = line
            sys.stderr.write(f"{self._named(line)}\n")
            sys.stderr.flush()

    def _named(self, line: str) -> str:
        """A line of its log, with its name."""
        if self._as_json and line.startswith("{"):
            return f'{{"process": {json.dumps(self.name)}, {line[1:]}'
        return f"{self.name} {line}"


async def _tell(process: trio.Process, settings: bytes) -> None:
    """Its standard input stays open: its end is how it learns that this process is gone."""
    assert process.stdin is not None
    with contextlib.suppress(trio.BrokenResourceError):
        await process.stdin.send_all(settings)


async def _lines(stream: trio.abc.ReceiveStream) -> AsyncIterator[str]:
    rest = b""
    with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        async for data in stream:
            *whole, rest = (rest + data).split(b"\n")
            for line in whole:
                yield line.decode(errors="replace")
            if len(rest) > MAX_LINE_BYTES:
                yield rest.decode(errors="replace")
                rest = b""
    if rest:
        yield rest.decode(errors="replace")


def _how(status: int) -> str:
    """How a process has ended, for people."""
    if status < 0:
        return f"was ended by {signal.Signals(-status).name}"
    return f"ended with exit code {status}"
