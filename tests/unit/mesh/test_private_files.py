"""Rights of what is made, and names that lead elsewhere: what they lead to stays as it is."""

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dafka.processes.ready import PortFile
from mesh.data_directory import DataDirectory, DataDirectoryRefused, Kind, replace_file
from mesh.private_files import (
    close_to_others,
    copy_file,
    make_directory,
    open_file,
    read_file,
    warn_if_readable,
    wider_files,
)
from mesh.store.db import Database, StoreFailed

PRECIOUS = b"somebody's\n"


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    """Nothing relies on the process's own."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    path = tmp_path / "precious"
    path.write_bytes(PRECIOUS)
    return path


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


LINK: dict[str, Callable[[Path, Path], None]] = {
    "symbolic": lambda path, target: path.symlink_to(target),
    "another name of a file": lambda path, target: path.hardlink_to(target),
    "to nothing": lambda path, target: path.symlink_to(target.with_name("made")),
}


@pytest.mark.parametrize("kind", LINK)
@pytest.mark.parametrize("name", ["lock", "identity.json", "running"])
def test_a_link_is_refused_and_what_it_leads_to_stays(
    tmp_path: Path, precious: Path, name: str, kind: str
) -> None:
    path = tmp_path / "data"
    with DataDirectory(path, Kind.STORE) as directory:
        directory.mark_running("never")
    (path / name).unlink()
    LINK[kind](path / name, precious)

    def start() -> None:
        with DataDirectory(path, Kind.STORE) as directory:
            directory.may_have_lost()

    with pytest.raises(DataDirectoryRefused, match=f"{name} in it is a link, or no file") as caught:
        start()
    assert caught.value.exit_code == 3
    assert precious.read_bytes() == PRECIOUS
    assert not precious.with_name("made").exists()


@pytest.mark.parametrize("kind", LINK)
@pytest.mark.parametrize("name", ["identity.json.new", "running.new"])
def test_a_link_where_a_file_is_made_goes(tmp_path: Path, precious: Path, name: str, kind: str) -> None:
    path = tmp_path / "data"
    with DataDirectory(path, Kind.STORE) as directory:
        LINK[kind](path / name, precious)
        directory.set_cluster_id("c")
        directory.mark_running("always")
    assert precious.read_bytes() == PRECIOUS
    assert not precious.with_name("made").exists()
    assert not (path / name).exists()
    with DataDirectory(path, Kind.STORE) as directory:
        assert directory.cluster_id == "c"


@pytest.mark.parametrize("name", ["lock", "identity.json"])
def test_a_pipe_is_not_waited_at(tmp_path: Path, name: str) -> None:
    with DataDirectory(tmp_path / "data", Kind.STORE):
        pass
    (tmp_path / "data" / name).unlink()
    os.mkfifo(tmp_path / "data" / name)
    with pytest.raises(DataDirectoryRefused, match="is a link, or no file"):
        DataDirectory(tmp_path / "data", Kind.STORE)


def test_what_is_made_is_the_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "above" / "data"
    with DataDirectory(path, Kind.STORE) as directory:
        directory.mark_running("always")
        Database(path / "db").close()
        found = {entry.name: mode(entry) for entry in path.iterdir()}
    assert found == {"lock": 0o600, "identity.json": 0o600, "running": 0o600, "db": 0o700}
    assert mode(path) == 0o700


def test_a_directory_that_others_could_enter_is_closed_to_them_and_not_to_its_group(tmp_path: Path) -> None:
    path = tmp_path / "data"
    with DataDirectory(path, Kind.STORE):
        pass
    path.chmod(0o2775)
    (path / "lock").chmod(0o644)
    with DataDirectory(path, Kind.STORE):
        assert path.stat().st_mode & 0o7777 == 0o2770
        assert mode(path / "lock") == 0o600
    assert not close_to_others(path)


def test_a_directory_that_is_not_ours_to_close_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A volume's root belongs to another user."""

    def not_ours(_path: Path, _mode: int) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    path = tmp_path / "data"
    path.mkdir(mode=0o755)
    monkeypatch.setattr(Path, "chmod", not_ours)
    with DataDirectory(path, Kind.STORE):
        assert [record.message for record in caplog.records] == [
            f"{path}: other users can enter it, and it is not ours to change: chmod o-rwx it as its owner"
        ]


def test_somebody_elses_directory_is_not_changed(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text("x")
    tmp_path.chmod(0o755)
    with pytest.raises(DataDirectoryRefused):
        DataDirectory(tmp_path, Kind.STORE)
    assert mode(tmp_path) == 0o755


def test_files_that_were_made_wider_are_told_of_once_and_with_what_to_do(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, disk = tmp_path / "data", tmp_path / "disk"
    disk.mkdir(mode=0o700)
    with DataDirectory(path, Kind.STORE):
        (path / "db").symlink_to(disk)  # ours
        Database(path / "db").close()
    for found in disk.iterdir():
        found.chmod(0o600)
    caplog.clear()
    with DataDirectory(path, Kind.STORE):
        assert caplog.messages == []
    (disk / "CURRENT").chmod(0o644)
    (path / "identity.json").chmod(0o640)
    (path / "older").mkdir(mode=0o755)
    with DataDirectory(path, Kind.STORE):
        told = (
            f"{path}: 3 files and directories in it have rights for others than their owner, db/CURRENT for "
            f"one: unless its group is to have them, take them away (chmod -R go-rwx {path})"
        )
        assert caplog.messages == [told]
    assert [mode(disk / "CURRENT"), mode(path / "identity.json")] == [0o644, 0o640]


def test_links_that_lead_around_end_and_names_that_are_not_ours(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    (tmp_path / "around").symlink_to(tmp_path)
    (tmp_path / "nowhere").symlink_to(tmp_path / "nothing")
    (tmp_path / "below").mkdir(mode=0o700)
    (tmp_path / "below" / "around").symlink_to(tmp_path)
    (tmp_path / ".snapshot").mkdir(mode=0o755)
    (tmp_path / "lost+found").mkdir(mode=0o755)
    assert wider_files(tmp_path) == []


def test_a_directory_that_is_closed_to_us_has_nothing_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "theirs").mkdir(mode=0o755)
    scan = os.scandir

    def closed(path: Path) -> object:
        if path.name == name:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", closed)
    name = "theirs"
    assert wider_files(tmp_path) == [tmp_path / "theirs"]
    name = tmp_path.name
    with pytest.raises(PermissionError):
        wider_files(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes links of other users")
@pytest.mark.parametrize("name", ["db/CURRENT", "db/000004.log", "db/new.dbtmp", "catalog.sqlite-wal"])
def test_somebody_elses_link_anywhere_below_is_refused_and_not_followed(
    tmp_path: Path, precious: Path, name: str
) -> None:
    path = tmp_path / "data"
    with DataDirectory(path, Kind.STORE):
        Database(path / "db").close()
    (path / name).unlink(missing_ok=True)
    (path / name).symlink_to(precious)
    os.lchown(path / name, 4711, 4711)
    with pytest.raises(DataDirectoryRefused, match=f"{name} in it is a link") as caught:
        DataDirectory(path, Kind.STORE)
    assert caught.value.exit_code == 3
    assert precious.read_bytes() == PRECIOUS


@pytest.mark.parametrize(("rights", "told"), [(0o600, False), (0o640, False), (0o644, True), (0o601, True)])
def test_a_secret_that_everybody_can_read_is_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, rights: int, told: bool
) -> None:
    path = tmp_path / "key.pem"
    warn_if_readable(path, "the private key in it")
    path.write_text("x")
    path.chmod(rights)
    warn_if_readable(path, "the private key in it")
    said = [f"{path}: other users can read the private key in it: chmod o-rwx it"]
    assert caplog.messages == (said if told else [])


@pytest.mark.parametrize("kind", LINK)
def test_a_link_where_the_port_file_is_made_goes(tmp_path: Path, precious: Path, kind: str) -> None:
    path = tmp_path / "port"
    LINK[kind](tmp_path / f"port.{os.getpid()}", precious)
    LINK[kind](path, precious)
    with PortFile(path) as made:
        made.write("127.0.0.1:1")
        assert (mode(path), path.read_text()) == (0o600, "127.0.0.1:1\n")
        assert not path.is_symlink()
    assert precious.read_bytes() == PRECIOUS
    assert not precious.with_name("made").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes links of other users")
def test_a_database_behind_somebody_elses_link(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "db").symlink_to(tmp_path / "theirs")
    Database(tmp_path / "db").close()
    os.lchown(tmp_path / "db", 4711, 4711)
    with pytest.raises(StoreFailed, match="symbolic links"):
        Database(tmp_path / "db")


def test_copies_are_the_owners_alone(tmp_path: Path, precious: Path) -> None:
    precious.chmod(0o644)
    copy_file(precious, tmp_path / "copy")
    assert (mode(tmp_path / "copy"), (tmp_path / "copy").read_bytes()) == (0o600, PRECIOUS)
    replace_file(precious, b"new")
    assert (mode(precious), precious.read_bytes()) == (0o600, b"new")


def test_a_file_is_read_as_far_as_asked_for(precious: Path) -> None:
    assert read_file(precious, 4) == PRECIOUS[:4]


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    assert not make_directory(tmp_path)
    with pytest.raises(OSError, match="Invalid argument") as caught:
        open_file(tmp_path, os.O_RDONLY)
    assert caught.value.errno == errno.EINVAL
