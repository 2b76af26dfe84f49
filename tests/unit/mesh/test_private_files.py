"""Rights of what is made, and names that lead elsewhere: what they lead to stays as it is."""

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mesh.data_directory import DataDirectory, DataDirectoryRefused, Kind, replace_file
from mesh.private_files import close_to_others, copy_file, make_directory, open_file, read_file
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
