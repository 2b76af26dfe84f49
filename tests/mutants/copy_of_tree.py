"""A copy of the packages and their tests, in which one file at a time is another."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib.util import cache_from_source
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.mutants.mutant import Mutant

ROOT = Path(__file__).parent.parent.parent

PACKAGES = ("dafka", "gateway", "mesh", "wireproto")

COPIED = (*PACKAGES, "tests", "pyproject.toml")

CHECK_SECONDS = 180.0
"""A check that takes longer hangs: that is no failure, and somebody else has to find the mutation."""

PASSED, FAILED = 0, 1
"""pytest's exit codes. Any other says that a test could not even be begun."""


class CopyOfTree:
    """Made by `copy_of_tree`."""

    def __init__(self, path: Path, patience: float = CHECK_SECONDS) -> None:
        self._path = path
        self._patience = patience

    def imports_itself(self) -> bool:
        """Whether a process that runs here has its packages from here."""
        script = f"import {', '.join(PACKAGES)}\nfor one in ({', '.join(PACKAGES)}): print(one.__file__)"
        said = self.run(["-c", script])[1].split()
        return len(said) == len(PACKAGES) and all(Path(one).is_relative_to(self._path) for one in said)

    def test(self, checks: Sequence[str]) -> tuple[int | None, str]:
        """pytest's exit code for these, None if they take too long; and what it said."""
        temporary = f"--basetemp={self._path / 'pytest'}"
        options = ["-q", "-x", "--tb=short", "-p", "no:cacheprovider", temporary]
        try:
            return self.run(["-m", "pytest", *options, *checks])
        except subprocess.TimeoutExpired:
            return None, f"no end after {self._patience:.0f} s"

    def run(self, arguments: Sequence[str]) -> tuple[int, str]:
        """Exit code and output of a Python here. Raises TimeoutExpired."""
        # Into a file: who is left running would keep a pipe open.
        with tempfile.TemporaryFile("w+") as output:
            process = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=self._path,
                env={**os.environ, "PYTHONPATH": str(self._path)},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code = process.wait(self._patience)
            finally:
                # A check may have started gateways and stores, and a mutation may keep them from ending.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            output.seek(0)
            return code, output.read()

    @contextlib.contextmanager
    def mutated(self, mutant: Mutant) -> Iterator[None]:
        """For a while, one file is as the mutation leaves it. Raises ValueError as `Mutant.apply`."""
        file = self._path / mutant.file
        source = file.read_text()
        _write(file, mutant.apply(source))
        try:
            yield
        finally:
            _write(file, source)


def _write(file: Path, source: str) -> None:
    """Without what was compiled of it: Python tells a new source by its size and its second."""
    file.write_text(source)
    Path(cache_from_source(str(file))).unlink(missing_ok=True)


@contextlib.contextmanager
def copy_of_tree() -> Iterator[CopyOfTree]:
    """The copy, gone at the end."""
    with tempfile.TemporaryDirectory(prefix="dafka-mutants-") as directory:
        path = Path(directory).resolve()
        for name in COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, path / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / name, path / name)
        yield CopyOfTree(path)
