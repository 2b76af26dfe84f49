"""Commits as files: what is written is what is read, by us and by Delta's rules."""

from __future__ import annotations

import errno
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from dafka_pipeline.failures import Refused
from dafka_pipeline.table.data_files import DataFile
from dafka_pipeline.table.location import Files, Location
from dafka_pipeline.table.log import Commit, DeltaLog, appending, creating, parse_commit
from dafka_pipeline.table.numbered import newest_in

FILE = DataFile("batch-1/topic=a%20b/x.parquet", {"topic": "a b"}, 7, 8, 3, {"numRecords": 3})


def files(folder: Path) -> Files:
    nobody: Any = None  # a session, which files of this machine do not need
    return Files(nobody, Location(str(folder)))


def written(actions: list[dict[str, Any]]) -> list[str]:
    return [json.dumps(action) for action in actions]


def test_is_read_as_it_was_written(tmp_path: Path) -> None:
    log = DeltaLog(files(tmp_path))
    assert log.add(0, creating({"type": "struct", "fields": []}, ("topic",), {"a": "b"}))
    assert log.add(1, appending([FILE, FILE], 0, "what it says", ("app", 5)))
    assert log.add(2, appending([], 1, None, None))
    expected = [
        Commit(2, None, 0),
        Commit(1, "what it says", 6, numbers={"app": 5}, files=2),
        Commit(0, None, 0, writer=2, reshaped=True),
    ]
    assert list(log.commits()) == expected
    assert list(log.after(0)) == expected[1::-1]
    assert log.newest_version() == 2


def test_a_file_as_the_protocol_names_it() -> None:
    added = appending([FILE], 0, "one", ("app", 1))[-1]["add"]
    assert added == {
        "path": "batch-1/topic=a%20b/x.parquet",
        "partitionValues": {"topic": "a b"},
        "size": 7,
        "modificationTime": 8,
        "dataChange": True,
        "stats": '{"numRecords":3}',
    }


def test_of_two_at_once_one_has_the_version(tmp_path: Path) -> None:
    won: list[str] = []
    gate = threading.Barrier(8)

    def commit(name: str) -> None:
        gate.wait()
        if DeltaLog(files(tmp_path)).add(0, appending([], 0, name, None)):
            won.append(name)

    threads = [threading.Thread(target=commit, args=(str(n),)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [one.said for one in DeltaLog(files(tmp_path)).commits()] == won
    assert len(won) == 1
    assert [path.name for path in (tmp_path / "_delta_log").iterdir()] == [f"{0:020d}.json"]


def test_a_log_that_was_cleaned_goes_back_as_far_as_it_does(tmp_path: Path) -> None:
    log = DeltaLog(files(tmp_path))
    for version in range(4):
        log.add(version, appending([], version - 1, str(version), None))
    (tmp_path / "_delta_log" / f"{1:020d}.json").unlink()
    assert [one.version for one in log.commits()] == [3, 2]


@pytest.mark.parametrize(
    ("operation", "parameters", "restored"),
    [("RESTORE", {"version": 4, "timestamp": None}, 4), ("OPTIMIZE", {"version": 4}, None)],
)
def test_a_restore(operation: str, parameters: dict[str, Any], restored: int | None) -> None:
    info = {"commitInfo": {"operation": operation, "operationParameters": parameters}}
    assert parse_commit(9, written([info])) == Commit(9, None, 0, restored)


def test_a_restore_to_a_time_is_refused_while_it_is_in_force() -> None:
    info = {"commitInfo": {"operation": "RESTORE", "operationParameters": {"version": "null"}}}
    restored = parse_commit(9, written([info]))
    older = [Commit(8, "eight", 0), Commit(7, "seven", 0)]
    with pytest.raises(Refused, match="TO VERSION AS OF"):
        newest_in([restored, *older], lambda said: said)
    repaired = newest_in([Commit(10, None, 0, restored=7), restored, *older], lambda said: said)
    assert repaired is not None
    assert repaired.said == "seven"


def test_words_in_a_file_or_in_what_is_said_are_no_actions() -> None:
    file = FILE._replace(path='{"txn"', statistics={"minValues": {"x": '{"protocol"'}})
    found = parse_commit(1, written(appending([file], 0, '{"txn":{"appId":"a","version":9}}', ("app", 2))))
    assert (found.numbers, found.writer, found.rows) == ({"app": 2}, None, 3)


def test_somebody_elses_commit() -> None:
    lines = ['{"protocol":{"minReaderVersion":3,"minWriterVersion":7}}', '{"add":{"path":"x"}}']
    assert parse_commit(3, lines) == Commit(3, None, 0, writer=7, files=1)


def test_no_log(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="no Delta table"):
        DeltaLog(files(tmp_path)).newest_version()


def test_lines_end_where_json_ends_them(tmp_path: Path) -> None:
    """Some writers leave characters as they are that Python takes for ends of lines."""
    log = DeltaLog(files(tmp_path))
    log.add(0, appending([], -1, "first", None))
    path = tmp_path / "_delta_log" / f"{1:020d}.json"
    info = {"operation": "DELETE", "operationParameters": {"predicate": "a = '\u2028\u0085'"}}
    path.write_text(json.dumps({"commitInfo": info}, ensure_ascii=False) + "\n")
    assert [one.said for one in log.commits()] == [None, "first"]


def test_whoever_may_read_the_folder_may_read_the_log(tmp_path: Path) -> None:
    DeltaLog(files(tmp_path)).add(0, appending([], -1, None, None))
    files(tmp_path).write("state.json", "{}")
    usual = tmp_path / "usual"
    usual.touch()
    for path in (tmp_path / "_delta_log" / f"{0:020d}.json", tmp_path / "state.json"):
        assert path.stat().st_mode == usual.stat().st_mode


def test_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on FAT: a look and a rename, and still no commit in another one's place."""

    def link(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", link)
    log = DeltaLog(files(tmp_path))
    assert log.add(0, appending([], -1, "first", None))
    assert not log.add(0, appending([], -1, "second", None))
    assert [one.said for one in log.commits()] == ["first"]
    assert len(list((tmp_path / "_delta_log").iterdir())) == 1
