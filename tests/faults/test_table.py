"""The table of faults names every fault test of a mesh, and counts what a run reported."""

from __future__ import annotations

import ast
import json
from pathlib import Path

from tests.faults.report import Phase
from tests.faults.table import ROWS, table


def test_every_fault_test_of_a_mesh_has_a_row() -> None:
    tests = {
        node.name
        for path in Path(__file__).parent.glob("test_mesh_*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }
    named = [name for row in ROWS for name in row.tests]
    assert set(named) == tests
    assert len(named) == len(tests)


def test_operations_are_counted_by_what_became_of_them() -> None:
    phase = Phase("links flap", healed=False, load="p", first=2, end=6, acked_meanwhile=1, seconds=1.5)
    assert phase.counts({0: "fail", 2: "ok", 3: "fail", 4: "ok", 6: "ok"}) == {
        "healed": False,
        "seconds": 1.5,
        "begun": 4,
        "acked meanwhile": 1,
        "ok": 2,
        "failed": 1,
        "unknown": 1,
    }


def test_a_row_adds_up_its_faults_and_not_what_was_healed() -> None:
    fault = Phase("links flap", healed=False, load="p", first=0, end=1200, acked_meanwhile=1, seconds=1.5)
    healed = Phase("healed", healed=True, load="p", first=1200, end=1300, acked_meanwhile=1, seconds=1.5)
    outcomes = dict.fromkeys(range(1300), "ok") | {5: "fail"}
    test = "tests/faults/test_mesh_network.py::test_links_that_flap[x]"
    lines = [
        json.dumps({"test": test, "what": phase.what, **phase.counts(outcomes)})
        for phase in (fault, fault, healed)
    ]
    lines.append(json.dumps({"test": test, "what": "codes", "of_all": 3}))
    (row,) = (line for line in table(lines).splitlines() if line.startswith("| 18 |"))
    assert row.endswith("| 2,400 | 2,398 | 2 | 0 | codes: of all 3 |")
