"""Which directories `dafka standalone` takes for its data."""

from pathlib import Path

import pytest

from dafka.processes.standalone import open_directories
from mesh.data_directory import DataDirectoryRefused


def test_a_directory_with_other_files_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(DataDirectoryRefused, match=r"thesis\.txt"):
        open_directories(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("present", [[], ["lost+found"]], ids=["empty", "a new file system"])
def test_an_empty_directory_becomes_ours_and_is_taken_again(tmp_path: Path, present: list[str]) -> None:
    for name in present:
        (tmp_path / name).mkdir()
    for _ in range(2):
        open_directories(tmp_path).close()
    assert {"gateway", "store"} <= {entry.name for entry in tmp_path.iterdir()}


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")
    with pytest.raises(DataDirectoryRefused):
        open_directories(path)
