"""Data directories that a power loss, a disk or a person has damaged: opened when safe, else refused with
what to do."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from mesh.store.db import LOG_DIRECTORY
from mesh.store.write_ahead.mark import NAME as MARK
from mesh.store.write_ahead.reading import ReadFile
from tests.clients.stored import create_topic, put, stored_records
from tests.differential.batches import Record
from tests.faults import disks
from tests.faults.workloads import make_value, read_value
from tests.peers.copies import copy_data
from tests.peers.process import ServerEnded
from tests.peers.standalone import Standalone

TOPIC = "disk"
USAGE, DATA_REFUSED = 2, 3
RECORDS = 30


def newest_log(data: Path) -> ReadFile:
    """The newest file of the store's write-ahead log."""
    return disks.newest_log(data / "store" / "db")


def page_of(data: Path) -> Path:
    """Where the log says how far it has come."""
    return data / "store" / "db" / LOG_DIRECTORY / MARK


@dataclass(frozen=True)
class Damaged:
    """A directory whose process was killed; the log up to `safe` bytes holds what was acknowledged before the
    last, and `page` is what its page said then.
    """

    data: Path
    safe: int
    end: int
    page: bytes

    def copy(self, to: Path) -> Path:
        return copy_data(self.data, to)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Damaged:
    """Thirty records and a last one, each acknowledged, then SIGKILL: bytes behind `safe` stand for a torn
    write.
    """
    data = tmp_path_factory.mktemp("killed") / "data"
    with Standalone(data) as server:
        create_topic(server.bootstrap, TOPIC)
        put(server.bootstrap, TOPIC, [Record(make_value("p", n, 500)) for n in range(RECORDS)], per_batch=1)
        page = page_of(data).read_bytes()
        safe = newest_log(data).end
        put(server.bootstrap, TOPIC, [Record(make_value("p", RECORDS, 3000))])
        server.kill9()
    end = newest_log(data).end
    assert end - safe > 3000, "the log does not grow with what is written: this test looks at the wrong file"
    return Damaged(data, safe, end, page)


def records_in(server: Standalone) -> list[int]:
    """The numbers of the records there; every content is right."""
    found = [read_value(record.value) for _, record in stored_records(server.bootstrap, TOPIC)]
    assert all(digest for _, _, digest in found)
    return [number for _, number, _ in found]


def refused(server: Standalone, codes: tuple[int, ...] = (DATA_REFUSED,)) -> str:
    """Starts a server that must refuse; what it said."""
    try:
        with pytest.raises(ServerEnded):
            server.start()
    finally:
        server.kill9()
    assert server.returncode in codes
    assert "Traceback" not in server.log
    assert server.log.strip()
    return server.log


# How much of the last record is there.
PLACES = {"at the record": 0.0, "header": 0.001, "its start": 0.003, "the middle": 0.5, "its end": 1.0}


def tear(killed: Damaged, to: Path, place: str, *, zeros: bool, is_known: bool = False) -> Path:
    """A copy of the directory whose log ends too early, or in zeros. With `is_known` its page says that it
    went further.
    """
    data = killed.copy(to)
    at = killed.safe + int(PLACES[place] * (killed.end - killed.safe - 1))
    with newest_log(data).path.open("r+b") as file:
        file.truncate(at)
        if zeros:
            file.truncate(killed.end)
    if not is_known:
        page_of(data).write_bytes(killed.page)
    return data


@pytest.mark.slow
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("place", PLACES)
def test_a_torn_tail_is_cut(killed: Damaged, tmp_path: Path, place: str, zeros: bool) -> None:
    """The last write did not reach the disk whole: it opens, with everything before it."""
    data = tear(killed, tmp_path / "data", place, zeros=zeros)
    with Standalone(data, directory=tmp_path / "server") as server:
        assert records_in(server) == list(range(RECORDS))
        put(server.bootstrap, TOPIC, [Record(make_value("p", 99, 100))])
        server.restart()
        assert records_in(server) == [*range(RECORDS), 99]


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_a_tail_that_was_acknowledged_is_refused(killed: Damaged, tmp_path: Path, place: str) -> None:
    """The same bytes, and the page beside them says that there were more: a person decides."""
    data = tear(killed, tmp_path / "data", place, zeros=True, is_known=True)
    said = refused(Standalone(data, directory=tmp_path / "refused"))
    assert newest_log(data).path.name in said
    assert "--accept-loss" in said
    with Standalone(data, "--accept-loss", directory=tmp_path / "accepted") as server:
        assert records_in(server) == list(range(RECORDS))


@pytest.mark.slow
@pytest.mark.parametrize("part", [0.1, 0.5, 0.9])
def test_a_flipped_bit_in_the_middle_is_refused(killed: Damaged, tmp_path: Path, part: float) -> None:
    """Nothing is changed, and the message says which file and what can be done."""
    data = killed.copy(tmp_path / "data")
    log = newest_log(data).path
    content = bytearray(log.read_bytes())
    content[int(killed.safe * part)] ^= 0x10
    log.write_bytes(content)
    digest = hashlib.sha256(log.read_bytes()).hexdigest()
    said = refused(Standalone(data, directory=tmp_path / "refused"))
    assert log.name in said
    assert "--accept-loss" in said
    assert hashlib.sha256(log.read_bytes()).hexdigest() == digest
    with Standalone(data, "--accept-loss", directory=tmp_path / "accepted") as accepted:
        kept = records_in(accepted)
        assert kept == list(range(len(kept)))
        assert len(kept) < RECORDS + 1


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Standalone(data, directory=tmp_path / "one") as first:
        create_topic(first.bootstrap, TOPIC)
        said = refused(Standalone(data, directory=tmp_path / "two"))
        assert str(data) in said
        assert str(first.pid) in said
        put(first.bootstrap, TOPIC, [Record(make_value("p", 0, 100))])
        assert records_in(first) == [0]


def test_anothers_store_is_refused(tmp_path: Path) -> None:
    """The store of one cluster under the gateway of another."""
    for name in ("one", "two"):
        with Standalone(tmp_path / name, directory=tmp_path / f"run-{name}") as server:
            create_topic(server.bootstrap, TOPIC)
    shutil.rmtree(tmp_path / "one" / "store")
    shutil.copytree(tmp_path / "two" / "store", tmp_path / "one" / "store")
    refused(Standalone(tmp_path / "one", directory=tmp_path / "mixed"))


@pytest.mark.parametrize("part", ["gateway", "store"])
def test_a_newer_format_is_refused(tmp_path: Path, part: str) -> None:
    data = tmp_path / "data"
    with Standalone(data, directory=tmp_path / "one"):
        pass
    identity = data / part / "identity.json"
    content = json.loads(identity.read_text())
    identity.write_text(json.dumps(content | {"version": content["version"] + 1}))
    refused(Standalone(data, directory=tmp_path / "two"))
    assert json.loads(identity.read_text())["version"] == content["version"] + 1


@pytest.mark.parametrize("part", ["gateway", "store"])
def test_a_foreign_directory_is_refused(tmp_path: Path, part: str) -> None:
    """Somebody's files: nothing is written among them."""
    folder = tmp_path / "data" / part
    folder.mkdir(parents=True)
    (folder / "thesis.txt").write_text("do not touch")
    refused(Standalone(tmp_path / "data", directory=tmp_path / "server"), codes=(USAGE, DATA_REFUSED))
    assert [path.name for path in folder.iterdir() if path.name != "lock"] == ["thesis.txt"]


def test_a_read_only_directory_is_refused(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("mounting takes root")
    data = tmp_path / "data"
    data.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(data)], capture_output=True, text=True, check=False
    )
    if mount.returncode != 0:
        pytest.skip(f"cannot mount here: {mount.stderr.strip()}")
    try:
        refused(Standalone(data, directory=tmp_path / "server"), codes=(USAGE, DATA_REFUSED))
    finally:
        subprocess.run(["umount", str(data)], check=True)
