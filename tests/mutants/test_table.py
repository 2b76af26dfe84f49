"""The table fits the source and the tests as they are: `make mutants` itself takes minutes."""

from __future__ import annotations

import ast
import contextlib
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.mutants.__main__ import part_of
from tests.mutants.copy_of_tree import PACKAGES, ROOT, CopyOfTree
from tests.mutants.mutant import Mutant
from tests.mutants.table import MUTANTS


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_what_is_to_be_changed_is_there_once(mutant: Mutant) -> None:
    source = (ROOT / mutant.file).read_text()
    changed = mutant.apply(source)
    assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source))
    assert mutant.file.partition("/")[0] in PACKAGES
    assert mutant.checks


def test_every_check_is_there() -> None:
    checks = sorted({check for mutant in MUTANTS for check in mutant.checks})
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *checks],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout[-2000:]


def test_no_two_have_one_name() -> None:
    assert max(Counter(mutant.name for mutant in MUTANTS).values()) == 1


@pytest.mark.parametrize("source", ["", "old old"])
def test_a_change_that_fits_nowhere_or_twice_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match=f"name: {len(source) // 3} times in file"):
        Mutant("name", "", "file", "old", "new", ()).apply(source)


def test_a_file_is_another_for_a_while(tmp_path: Path) -> None:
    (tmp_path / "file.py").write_text("x = 1\n")
    tree, mutant = CopyOfTree(tmp_path), Mutant("name", "", "file.py", "1", "2", ())

    def value() -> str:
        return tree.run(["-c", "import file; print(file.x)"])[1]

    values = [value()]
    with contextlib.suppress(KeyError), tree.mutated(mutant):
        values.append(value())
        raise KeyError
    assert [*values, value()] == ["1\n", "2\n", "1\n"]


def test_what_a_check_has_started_ends_with_it(tmp_path: Path) -> None:
    start = "import subprocess; print(subprocess.Popen(['sleep', '1000']).pid)"
    code, pid = CopyOfTree(tmp_path).run(["-c", start])
    assert code == 0
    stat = Path("/proc", pid.strip(), "stat")
    while stat.exists() and stat.read_text().split()[2] not in {"Z", "X"}:
        time.sleep(0.01)


def test_a_check_that_does_not_end_has_not_failed(tmp_path: Path) -> None:
    assert CopyOfTree(tmp_path, patience=0.0).test([]) == (None, "no end after 0 s")


def test_parts_are_all_of_it() -> None:
    parts = [part_of(MUTANTS, f"{number}/3") for number in (1, 2, 3)]
    assert sorted(one.name for part in parts for one in part) == sorted(one.name for one in MUTANTS)
    assert part_of(MUTANTS, "1/1") == list(MUTANTS)
