"""Clocks of processes that can be moved while they run.

A small library in front of the C library's adds to what its clocks say; how much is in a file that all its
processes have in their memory, so that it is another number from one moment to the next. Python's clocks are
the C library's; Go's (etcd) are not.
"""

from __future__ import annotations

import hashlib
import struct
import subprocess
from pathlib import Path
from typing import Final

from tests.peers.cache import cached_folder
from tests.peers.requirements import require

SOURCE: Final = Path(__file__).parent / "clocks.c"
FORMAT: Final = struct.Struct("=qq")
COMPILE_SECONDS: Final = 120.0


class Clocks:
    """Those of one process from its next start on."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.wall_seconds = 0.0
        """How far the time of day is from the right one."""
        self.asleep_seconds = 0.0
        """How long the machine slept, as it seems: the clock that goes on meanwhile is ahead by that."""
        self._write()

    @property
    def prefix(self) -> list[str]:
        """In front of the process's command."""
        return ["env", f"LD_PRELOAD={library()}", f"MOVED_CLOCKS={self._file}"]

    def set_wall(self, seconds: float) -> None:
        self.wall_seconds = seconds
        self._write()

    def sleep(self, seconds: float) -> None:
        """The machine seems to sleep for so long, and to wake up now: the time of day goes on, too."""
        self.asleep_seconds += seconds
        self.wall_seconds += seconds
        self._write()

    def _write(self) -> None:
        content = FORMAT.pack(int(self.wall_seconds * 1e9), int(self.asleep_seconds * 1e9))
        if self._file.exists():
            # In place: the file is in the memory of the process.
            with self._file.open("r+b") as file:
                file.write(content)
        else:
            self._file.write_bytes(content)


def library() -> Path:
    """The library, compiled if need be."""
    digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:8]
    return cached_folder(f"clocks-{digest}", _compile) / "clocks.so"


def _compile(folder: Path) -> None:
    command = [require("gcc"), "-Wall", "-Wextra", "-Werror", "-O2", "-shared", "-fPIC"]
    subprocess.run(
        [*command, "-o", str(folder / "clocks.so"), str(SOURCE), "-ldl"],
        check=True,
        capture_output=True,
        timeout=COMPILE_SECONDS,
    )
