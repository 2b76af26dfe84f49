"""Data directories: whose they are, and every reason to refuse one."""

import errno
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mesh import data_directory
from mesh.data_directory import DataDirectory, DataDirectoryRefused, Kind, replace_file


def refusal(path: Path, kind: Kind = Kind.STORE) -> DataDirectoryRefused:
    with pytest.raises(DataDirectoryRefused) as caught:
        DataDirectory(path, kind)
    return caught.value


def identity(path: Path) -> dict[str, object]:
    fields: dict[str, object] = json.loads((path / "identity.json").read_text())
    return fields


def test_a_new_directory_gets_an_identity(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b"
    with DataDirectory(path, Kind.STORE) as directory:
        assert directory.cluster_id is None
        assert len(directory.incarnation) == 32
        assert directory.incarnation == directory.incarnation.upper()
        assert identity(path) == {
            "format": "dafka-store",
            "version": 1,
            "cluster_id": None,
            "incarnation": directory.incarnation,
        }
        assert (path / "lock").read_text() == f"{os.getpid()}\n"


def test_the_identity_stays(tmp_path: Path) -> None:
    with DataDirectory(tmp_path, Kind.GATEWAY) as directory:
        directory.set_cluster_id("abc-DEF_1")
        first = directory.incarnation
    with DataDirectory(tmp_path, Kind.GATEWAY) as directory:
        assert (directory.cluster_id, directory.incarnation) == ("abc-DEF_1", first)
        second = directory.new_incarnation()
        assert second != first
        assert directory.incarnation == second
    with DataDirectory(tmp_path, Kind.GATEWAY) as directory:
        assert (directory.cluster_id, directory.incarnation) == ("abc-DEF_1", second)


def test_two_directories_have_different_incarnations(tmp_path: Path) -> None:
    with (
        DataDirectory(tmp_path / "a", Kind.STORE) as a,
        DataDirectory(tmp_path / "b", Kind.STORE) as b,
    ):
        assert a.incarnation != b.incarnation


def test_another_cluster_is_refused(tmp_path: Path) -> None:
    with DataDirectory(tmp_path, Kind.STORE) as directory:
        directory.set_cluster_id("ours")
        directory.set_cluster_id("ours")
        with pytest.raises(
            DataDirectoryRefused, match="belongs to the cluster ours, and this is the cluster theirs"
        ):
            directory.set_cluster_id("theirs")
        assert directory.cluster_id == "ours"
        assert identity(tmp_path)["cluster_id"] == "ours"


@pytest.mark.parametrize("name", ["", "a b", "a\n", "x" * 65, "ü"])
def test_a_cluster_id_has_few_characters(tmp_path: Path, name: str) -> None:
    with (
        DataDirectory(tmp_path, Kind.STORE) as directory,
        pytest.raises(ValueError, match="not a cluster id"),
    ):
        directory.set_cluster_id(name)


HOLDER = """
import sys
from mesh.data_directory import DataDirectory, Kind
directory = DataDirectory(sys.argv[1], Kind.STORE)
print("held", flush=True)
sys.stdin.read()
"""


def test_a_second_process_is_refused_and_told_who_has_it(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == b"held\n"
        before = identity(tmp_path)
        refused = refusal(tmp_path)
        assert refused.cause == f"process {holder.pid} is using it"
        assert refused.exit_code == 3
        assert identity(tmp_path) == before
        assert (tmp_path / "lock").read_text() == f"{holder.pid}\n"
        holder.kill()
    # The lock of a killed process is free.
    with DataDirectory(tmp_path, Kind.STORE) as directory:
        assert directory.incarnation == before["incarnation"]


def test_the_lock_is_given_back_after_a_refusal(tmp_path: Path) -> None:
    DataDirectory(tmp_path, Kind.STORE).close()
    refusal(tmp_path, Kind.GATEWAY)
    DataDirectory(tmp_path, Kind.STORE).close()


def test_a_holder_that_has_not_written_its_pid_yet(tmp_path: Path) -> None:
    with DataDirectory(tmp_path, Kind.STORE):
        (tmp_path / "lock").write_text("")
        assert refusal(tmp_path).cause == "another process is using it"


def test_another_kind_is_refused(tmp_path: Path) -> None:
    DataDirectory(tmp_path, Kind.STORE).close()
    refused = refusal(tmp_path, Kind.GATEWAY)
    assert refused.cause == "it is a dafka-store directory, and a dafka-gateway one is needed"


GOOD = {"format": "dafka-store", "version": 1, "cluster_id": None, "incarnation": "0123456789ABCDEF" * 2}
DAMAGED = {
    "empty": "",
    "not JSON": "{",
    "not an object": "[]",
    "not UTF-8": "\udcff",
    "nested without end": "[" * 4000,
    "too large": json.dumps(GOOD) + " " * 5000,
    "unknown format": json.dumps(GOOD | {"format": "kafka"}),
    "version 0": json.dumps(GOOD | {"version": 0}),
    "version true": json.dumps(GOOD | {"version": True}),
    "no incarnation": json.dumps({key: value for key, value in GOOD.items() if key != "incarnation"}),
    "lower-case incarnation": json.dumps(GOOD | {"incarnation": "a" * 32}),
    "cluster id with a blank": json.dumps(GOOD | {"cluster_id": "a b"}),
    "a key too many": json.dumps(GOOD | {"more": 1}),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_an_unreadable_identity_is_refused_and_left_alone(tmp_path: Path, name: str) -> None:
    content = DAMAGED[name].encode("utf-8", "surrogateescape")
    (tmp_path / "identity.json").write_bytes(content)
    refused = refusal(tmp_path)
    assert refused.cause == "its identity.json cannot be read: it is damaged or not Dafka's"
    assert refused.exit_code == 3
    assert (tmp_path / "identity.json").read_bytes() == content


def test_the_undamaged_identity_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "identity.json").write_text(json.dumps(GOOD))
    with DataDirectory(tmp_path, Kind.STORE) as directory:
        assert directory.incarnation == GOOD["incarnation"]


def test_a_newer_format_is_refused_whatever_else_it_has(tmp_path: Path) -> None:
    (tmp_path / "identity.json").write_text('{"format": "dafka-store", "version": 2, "new": []}')
    refused = refusal(tmp_path)
    assert refused.cause == "it has format version 2, and this program knows 1 at most"
    assert "newer version" in refused.next_step


def test_somebody_elses_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("all of it")
    refused = refusal(tmp_path)
    assert "other files (thesis.txt)" in refused.cause
    assert refused.exit_code == 3
    assert not (tmp_path / "identity.json").exists()


def test_a_first_start_that_was_killed_is_begun_again(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("1\n")
    (tmp_path / "identity.json.new").write_text('{"form')
    (tmp_path / "lost+found").mkdir()
    DataDirectory(tmp_path, Kind.STORE).close()
    assert identity(tmp_path)["format"] == "dafka-store"


def test_a_file_is_not_a_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        refused = refusal(path)
        assert (refused.cause, refused.exit_code) == ("it is not a directory", 2)


@pytest.fixture
def nobodys_directory() -> Iterator[Path]:
    """A directory that the user of the test cannot write; root becomes nobody for the time."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        path = Path(name) / "data"
        path.mkdir(mode=0o555)
        path.chmod(0o555)
        root = os.geteuid() == 0
        if root:
            os.seteuid(65534)
        try:
            yield path
        finally:
            if root:
                os.seteuid(0)
            path.chmod(0o755)


def test_a_directory_that_cannot_be_written_is_refused(nobodys_directory: Path) -> None:
    refused = refusal(nobodys_directory)
    assert (refused.cause, refused.exit_code) == ("it cannot be written: Permission denied", 2)
    refused = refusal(nobodys_directory / "below")
    assert (refused.cause, refused.exit_code) == ("it cannot be written: Permission denied", 2)


@pytest.mark.parametrize(("code", "exit_code"), [(errno.ENOSPC, 4), (errno.EIO, 4), (errno.EROFS, 2)])
def test_what_the_disk_says_is_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, exit_code: int
) -> None:
    directory = DataDirectory(tmp_path, Kind.STORE)
    before = directory.incarnation

    def broken(_: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", broken)
    with directory, pytest.raises(DataDirectoryRefused, match=os.strerror(code)) as caught:
        directory.new_incarnation()
    assert caught.value.exit_code == exit_code
    assert (directory.incarnation, identity(tmp_path)["incarnation"]) == (before, before)


def test_replacing_a_file_leaves_the_old_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the file holds when the process ends in an fsync: the new content only once it is on disk."""
    path, seen = tmp_path / "file", []
    path.write_bytes(b"old")

    def fsync(descriptor: int) -> None:
        seen.append((Path(f"/proc/self/fd/{descriptor}").readlink().name, path.read_bytes()))

    monkeypatch.setattr(os, "fsync", fsync)
    replace_file(path, b"new")
    assert seen == [("file.new", b"old"), (tmp_path.name, b"new")]
    assert path.read_bytes() == b"new"


def test_a_refusal_reads_as_one_line_with_the_next_step(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("")
    text = str(refusal(tmp_path))
    assert text.startswith(f"{tmp_path}: it has no identity.json")
    assert text.endswith("put its identity file back from a backup.")
    assert "\n" not in text


@pytest.mark.parametrize("fsync", ["always", "interval", "never"])
@pytest.mark.parametrize("end", ["in order", "killed", "machine restarted", "unknown machine"])
def test_what_was_not_fsynced_may_be_lost_with_the_machine(
    fsync: str, end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    boot = tmp_path / "boot_id"
    boot.write_text("first\n")
    monkeypatch.setattr(data_directory, "BOOT_ID", boot)
    with DataDirectory(tmp_path / "data", Kind.STORE) as directory:
        assert not directory.may_have_lost()
        directory.mark_running(fsync)
        if end == "in order":
            directory.mark_stopped()
    if end == "machine restarted":
        boot.write_text("second\n")
    elif end == "unknown machine":
        boot.unlink()
    with DataDirectory(tmp_path / "data", Kind.STORE) as directory:
        lost = fsync != "always" and end in ("machine restarted", "unknown machine")
        assert directory.may_have_lost() == lost
