"""What processes write is their owner's alone, whatever the umask is that they were started with."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.peers.standalone import Standalone

OF_OTHERS = 0o077


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def wide(directory: Path) -> dict[str, str]:
    """What in it has rights for others; nothing there is a link."""
    return {
        str(path.relative_to(directory)): stat.filemode(path.lstat().st_mode)
        for path in directory.rglob("*")
        if path.lstat().st_mode & OF_OTHERS
    }


@pytest.mark.parametrize(
    ("options", "kinds"),
    [
        (("--chaos", "{run}/chaos"), {"catalog.sqlite", "CURRENT", "lock", "identity.json", "chaos"}),
        (("--gateways", "1", "--stores", "1"), {"catalog.sqlite", "CURRENT", "catalog.sock"}),
    ],
    ids=["one process", "several"],
)
def test_nothing_is_for_others(tmp_path: Path, options: tuple[str, ...], kinds: set[str]) -> None:
    run, data = tmp_path / "run", tmp_path / "data"
    run.mkdir()
    given = [option.format(run=run) for option in options]
    arguments = ["--port-file", str(run / "port"), "--topics", "orders:1", *given]
    with Standalone(data, *arguments, directory=tmp_path / "server") as server:
        producer = Producer({"bootstrap.servers": server.bootstrap})
        producer.produce("orders", b"x")
        assert producer.flush(30) == 0
        assert wide(data) == {}
        assert wide(run) == {}
        assert data.stat().st_mode & OF_OTHERS == 0
        assert (run / "port").read_text().strip() == server.bootstrap
        assert kinds <= {path.name for folder in (data, run) for path in folder.rglob("*")}
        assert server.terminate() == 0
    assert wide(data) == {}
    with Standalone(data, *arguments, directory=tmp_path / "server-2") as server:
        assert "have rights for others" not in server.log
