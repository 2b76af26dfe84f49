import os
from pathlib import Path

import pytest

from dafka.backup.target import DirectoryTarget, NotThere, TargetFailed, open_target


def test_files_are_there_whole_and_once(tmp_path: Path) -> None:
    target = DirectoryTarget(tmp_path / "a" / "b", make=True)
    assert target.put_new("objects/ab/abc", b"first")
    assert not target.put_new("objects/ab/abc", b"second")
    assert target.get("objects/ab/abc") == b"first"
    target.put("objects/ab/abc", b"third")
    assert target.get("objects/ab/abc") == b"third"
    assert target.put_new("objects/cd/cde", b"")
    assert target.sizes("objects/") == {"objects/ab/abc": 5, "objects/cd/cde": 0}
    assert target.sizes("manifests/") == {}
    target.delete("objects/ab/abc")
    target.delete("objects/ab/abc")
    with pytest.raises(NotThere, match="objects/ab/abc"):
        target.get("objects/ab/abc")
    assert list((target.path / "writing").iterdir()) == []


def test_one_at_a_time(tmp_path: Path) -> None:
    one, other = DirectoryTarget(tmp_path), open_target(str(tmp_path))
    (tmp_path / "writing").mkdir()
    (tmp_path / "writing" / "left").write_bytes(b"by a killed one")
    with one.alone():
        assert not (tmp_path / "writing" / "left").exists()
        with pytest.raises(TargetFailed, match="another process takes or prunes"), other.alone():
            raise AssertionError("both are alone")
    with other.alone():
        pass


def test_failures_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(TargetFailed, match="there is no such directory"):
        open_target(str(tmp_path / "nothing"))
    (tmp_path / "objects").write_bytes(b"a file")
    with pytest.raises(TargetFailed, match=r"objects.*Check the path"):
        DirectoryTarget(tmp_path).put_new("objects/ab/abc", b"")


def test_backups_are_their_owners_alone_and_a_link_is_not_followed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = os.umask(0o022)
    try:
        target = open_target(str(tmp_path / "backups"), make=True)
        with target.alone():
            target.put("objects/ab/cd", b"x")
    finally:
        os.umask(before)
    rights = {
        str(path.relative_to(tmp_path)): path.stat().st_mode & 0o777
        for path in tmp_path.rglob("*")
        if path.is_file() or path.name == "backups"
    }
    assert rights == {"backups": 0o700, "backups/lock": 0o600, "backups/objects/ab/cd": 0o600}
    assert caplog.messages == []
    (tmp_path / "backups" / "lock").unlink()
    (tmp_path / "backups" / "lock").symlink_to(tmp_path / "made")
    with pytest.raises(TargetFailed, match=r"lock.*Check the path"), target.alone():
        pass
    assert not (tmp_path / "made").exists()
    (tmp_path / "backups").chmod(0o755)
    open_target(str(tmp_path / "backups"), make=True)
    told = f"{tmp_path / 'backups'}: other users can enter it, and read backups: chmod o-rwx it"
    assert caplog.messages == [told]
