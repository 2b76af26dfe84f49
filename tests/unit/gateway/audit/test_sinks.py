"""Where audit lines go."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from gateway.audit.sinks import AuditRefused, OutputSink, sink_of


def test_a_file_is_appended_to_and_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    for line in (b"one\n", b"two\n"):
        sink_of(str(path)).write(line)
    assert path.read_bytes() == b"one\ntwo\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_that_was_moved_away_is_made_anew(tmp_path: Path) -> None:
    path, moved = tmp_path / "audit.jsonl", tmp_path / "audit.1"
    sink = sink_of(str(path))
    sink.write(b"one\n")
    path.rename(moved)
    sink.write(b"two\n")
    assert (moved.read_bytes(), path.read_bytes()) == (b"one\n", b"two\n")
    path.unlink()
    sink.write(b"three\n")
    assert path.read_bytes() == b"three\n"


def test_nothing_is_written_through_a_link_or_into_a_device(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"of somebody")
    link.symlink_to(target)
    with pytest.raises(AuditRefused, match="symbolic link"):
        sink_of(str(link))
    assert target.read_bytes() == b"of somebody"
    for path, why in (
        ("/dev/null", "is no file"),
        (tmp_path, "directory"),
        (tmp_path / "no" / "a", "No such"),
    ):
        with pytest.raises(AuditRefused, match=f"--audit: {path} cannot be written .*{why}"):
            sink_of(str(path))


def test_a_link_that_is_put_there_later_is_not_followed_either(tmp_path: Path) -> None:
    path, target = tmp_path / "audit.jsonl", tmp_path / "target"
    sink = sink_of(str(path))
    sink.write(b"one\n")
    path.unlink()
    path.symlink_to(target)
    with pytest.raises(OSError, match="symbolic link"):
        sink.write(b"two\n")
    assert not target.exists()
    path.unlink()
    sink.write(b"two\n")
    assert path.read_bytes() == b"two\n"


def test_a_file_handle_is_not_left_open(tmp_path: Path) -> None:
    handles = Path("/proc/self/fd")
    before = len(list(handles.iterdir()))
    path = tmp_path / "audit.jsonl"
    sink = sink_of(str(path))
    for _ in range(20):
        sink.write(b"one\n")
        path.unlink()
    assert len(list(handles.iterdir())) <= before + 1


def test_standard_output(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    sink = sink_of("-")
    assert isinstance(sink, OutputSink)
    sink.write(b"one\n")
    assert capfdbinary.readouterr().out == b"one\n"
