"""A program in C with czmq, which examples/ has, on a mesh with keys."""

from __future__ import annotations

import hashlib
import subprocess
from functools import partial
from pathlib import Path

import pytest

from mesh.keys.directory import OWN, add, read_member, remove
from tests.mesh.keyed_processes import PATIENCE_SECONDS, SUBJECT, issue, native
from tests.peers.cache import cached_folder
from tests.peers.mesh import StoreProcess
from tests.peers.requirements import require, unavailable
from tests.peers.tower import TowerProcess

SOURCE = Path(__file__).parents[2] / "examples" / "mesh" / "native_producer.c"

STRANGERS_SECONDS = 3.0
"""How long a stranger tries."""

pytestmark = pytest.mark.slow


def program() -> Path:
    """The program, compiled."""
    compiler = require("gcc")
    if not Path("/usr/include/czmq.h").exists():
        unavailable("czmq's headers are not installed: apt-get install libczmq-dev")
    digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:8]
    return cached_folder(f"native-producer-{digest}", partial(_compile, compiler)) / SOURCE.stem


def _compile(compiler: str, folder: Path) -> None:
    warnings = ("-Wall", "-Wextra", "-Werror")
    command = [compiler, *warnings, "-o", str(folder / SOURCE.stem), str(SOURCE), "-lczmq", "-lzmq"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS * 4, check=False)
    assert done.returncode == 0, done.stderr


def publish(keys: Path, tower: TowerProcess, content: str, seconds: float) -> int | None:
    """Its exit code; None if no store had acknowledged the record after so many seconds."""
    address = tower.address
    ports = (f"tcp://{address.host}:{port}" for port in (address.port_in, address.port_out))
    command = [str(program()), str(keys / "sensors"), str(keys / "tower" / OWN), *ports, SUBJECT, content]
    try:
        return subprocess.run(command, timeout=seconds, check=False).returncode
    except subprocess.TimeoutExpired:
        return None


def test_it_publishes_what_a_store_acknowledges_and_a_reader_reads(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    issue(keys, {"tower": "tower", "s1": "store", "sensors": "producer", "screen": "reader"})
    with TowerProcess(tmp_path / "tower", "--mesh-keys", str(keys / "tower")) as tower:
        store = StoreProcess(tmp_path / "s1", "s1", tower, "--mesh-keys", str(keys / "s1"))
        try:
            store.start()
            assert publish(keys, tower, "from C", PATIENCE_SECONDS) == 0
            consumed = native("consume", keys / "screen", tower, "--from-beginning", "--max-records=1")
            assert (consumed.returncode, consumed.stdout) == (0, b"from C\n"), consumed.stderr

            remove(keys / "s1", "sensors")
            store.wait_for_log("the keys in")
            assert publish(keys, tower, "of a stranger", STRANGERS_SECONDS) is None
            add(keys / "s1", read_member(keys / "sensors" / OWN))
            assert publish(keys, tower, "again", PATIENCE_SECONDS) == 0
            consumed = native("consume", keys / "screen", tower, "--from-beginning", "--max-records=2")
            assert sorted(consumed.stdout.splitlines()) == [b"again", b"from C"], consumed.stderr
        finally:
            store.kill9()
