"""Dafka's own programs in C, as they are built from its public source: a producer and a consumer.

`dafka_console_producer` tells nobody what was acknowledged, and forgets what it has not sent when it dies. So
what counts is what stores have heard: of each life a beginning of its lines, and of one that is not killed
all of them.
"""

from __future__ import annotations

import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO, Final, Self

from mesh.protocol.endpoints import TowerAddress
from tests.faults.native_reader import ReadValues

LINK_SECONDS: Final = 2.0
"""What a C producer publishes before stores are linked to it nobody hears."""

LINE_SECONDS: Final = 0.01
"""Between two lines."""

PREFIX: Final = b"c "


def _towers(tower: TowerAddress) -> tuple[str, ...]:
    """As a tower in C sees it: it publishes where nodes hear it."""
    pub, sub = (f"tcp://{tower.host}:{port}" for port in (tower.port_out, tower.port_in))
    return "--pub", pub, "--sub", sub


class CSender:
    """`dafka_console_producer`, which may be killed; its lines name the sender, the life and their number."""

    def __init__(self, programs: Path, tower: TowerAddress, subject: str, number: int) -> None:
        self._command = [str(programs / "dafka_console_producer"), *_towers(tower), subject]
        self._number = number
        self._life = -1
        self._lines = 0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._life += 1
        self._lines = 0
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert self._process.stdin is not None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._feed, args=(self._process.stdin, self._stop))
        self._thread.start()

    def _feed(self, stdin: IO[bytes], stop: threading.Event) -> None:
        if stop.wait(LINK_SECONDS):
            return
        while not stop.wait(LINE_SECONDS):
            try:
                stdin.write(b"%b%d %d %d\n" % (PREFIX, self._number, self._life, self._lines))
                stdin.flush()
            except OSError:
                return  # it was killed
            self._lines += 1

    def rest(self) -> list[bytes]:
        """Give it nothing more: the lines of its life."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        return [b"%b%d %d %d" % (PREFIX, self._number, self._life, line) for line in range(self._lines)]

    def kill9(self) -> None:
        self._stop.set()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._process.stdin is not None
            if self._thread is not None:
                self._thread.join()
            with suppress(OSError):  # what it has not read
                self._process.stdin.close()


class CReader(ReadValues):
    """`dafka_console_consumer` from the beginning, of a published topic; a context manager. One that was
    killed begins anew.
    """

    def __init__(self, programs: Path, tower: TowerAddress, subject: str) -> None:
        super().__init__()
        program = str(programs / "dafka_console_consumer")
        self._command = ["stdbuf", "-oL", program, "--from-beginning", *_towers(tower), subject]

    def __enter__(self) -> Self:
        self.start()
        return self

    def start(self) -> None:
        self.values.clear()
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            _, address, content = line.rstrip(b"\n").split(b" ", 2)
            self.values[int(address.rpartition(b"-")[2])].append(content)

    def __exit__(self, *_: object) -> None:
        self.kill9()

    def kill9(self) -> None:
        self._process.kill()
        self._thread.join()
        self._process.wait()
