"""Keys of a mesh of processes, made by `dafka keys`, and native commands that use them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from dafka.cli import run
from mesh.keys.directory import OWN
from tests.peers.tower import TowerProcess

PATIENCE_SECONDS = 30.0
SUBJECT = "heat"
"""What the keys of producers are for."""


def issue(path: Path, nodes: dict[str, str]) -> None:
    """A directory for each of them, and everybody's certificate in all."""
    for name, role in nodes.items():
        subjects = ("--subject", SUBJECT) if role == "producer" else ()
        assert run(["keys", "init", str(path / name), "--name", name, "--role", role, *subjects]) == 0
    for name in nodes:
        assert run(["keys", "add", str(path / name), *(str(path / other / OWN) for other in nodes)]) == 0


def native(
    command: str, keys: Path, tower: TowerProcess, *arguments: str, subject: str = SUBJECT
) -> subprocess.CompletedProcess[bytes]:
    """`dafka produce` or `dafka consume`, with these keys."""
    address = tower.address
    where = f"--tower={address.host}:{address.port_in}:{address.port_out}"
    return subprocess.run(
        [sys.executable, "-m", "dafka.cli", command, subject, where, f"--mesh-keys={keys}", *arguments],
        input=b"one\ntwo\n",
        capture_output=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
