"""What is put in a file's place looks different, however it is put there."""

from __future__ import annotations

import os
from pathlib import Path

from gateway.common.file_looks import looks_of, looks_of_all


def test_another_file_looks_different(tmp_path: Path) -> None:
    file, other = tmp_path / "file", tmp_path / "other"
    seen = [looks_of(file)]
    file.write_bytes(b"one")
    seen.append(looks_of(file))
    assert looks_of(file) == seen[-1]
    file.write_bytes(b"longer")
    seen.append(looks_of(file))
    other.write_bytes(b"second")
    os.utime(other, ns=(0, file.stat().st_mtime_ns))
    other.replace(file)
    seen.append(looks_of(file))
    os.utime(file, ns=(0, 0))
    seen.append(looks_of(file))
    assert seen[0] == (0, 0, 0)
    assert len(set(seen)) == len(seen)


def test_those_that_are_not_named_are_left_out(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"one")
    assert looks_of_all([None, file, None]) == (looks_of(file),)
