"""What a process has committed, read from its file as that grows."""

from __future__ import annotations

from pathlib import Path

from tests.faults.transactions.commits import Commits
from tests.faults.transactions.history import Begun, Ended, Event, Operation, written


def test_a_worker_has_committed_what_it_has_begun(tmp_path: Path) -> None:
    path = tmp_path / "java-1.jsonl"
    path.write_text("")
    commits = Commits(path, ["java-0", "java-1"])

    def tell(*operations: Operation) -> None:
        with path.open("a") as file:
            file.write("".join(map(written, operations)))

    assert commits.left() == {"java-0", "java-1"}
    tell(
        Begun("java-0/1.1/1", 1),
        Begun("java-1/1.1/1", 2),
        Ended("java-0/1.1/1", commit=True, outcome="ok", at=3),
    )
    assert commits.left() == {"java-1"}
    assert commits.left_since_drain() == {"java-0", "java-1"}
    tell(Ended("java-1/1.1/1", commit=False, outcome="ok", at=4), Begun("java-1/1.1/2", 5))
    tell(Event("draining", 6), Ended("java-1/1.1/2", commit=True, outcome="ok", at=7))
    assert commits.left() == set()
    assert commits.left_since_drain() == {"java-0", "java-1"}, "begun before"
    tell(Begun("java-1/1.1/3", 8), Ended("java-1/1.1/3", commit=True, outcome="unknown", at=9))
    line = written(Ended("java-1/1.1/4", commit=True, outcome="ok", at=11))
    tell(Begun("java-1/1.1/4", 10))
    with path.open("a") as file:
        file.write(line[:20])
    assert commits.left_since_drain() == {"java-0", "java-1"}
    with path.open("a") as file:
        file.write(line[20:])
    assert commits.left_since_drain() == {"java-0"}
