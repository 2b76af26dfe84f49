"""What the program that runs franz-go's tests makes of their words."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from franz_go_tests import program

LOG = """=== RUN   TestTxnEtl
--- FAIL: TestTxnEtl (8.32s)
    --- SKIP: TestTxnEtl/sticky/848 (0.00s)
    --- FAIL: TestTxnEtl/range (6.96s)
        txn_test.go:21: saw double offset
--- SKIP: TestTxnEtl_Other (0.00s)
--- PASS: TestTxnEtl_Third (0.00s)
FAIL
"""


def test_a_report_has_the_tests_and_not_their_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "log").write_text(LOG)
    tests = tmp_path / "kgo.test"
    tests.write_text(f'#!/bin/sh\n[ "$KGO_SEEDS" = 127.0.0.1:1 ] && cat {tmp_path / "log"}\nexit 1\n')
    tests.chmod(0o755)
    report = tmp_path / "report.json"
    monkeypatch.setenv("COMPAT_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["run", "TestTxnEtl", "127.0.0.1:1", str(report)])
    assert program.main() == 1
    assert json.loads(report.read_text())["tests"] == {
        "TestTxnEtl": {"state": "FAILED"},
        "TestTxnEtl_Other": {"state": "SKIPPED"},
        "TestTxnEtl_Third": {"state": "PASSED"},
    }
    assert (
        capsys.readouterr().err == "--- FAIL: TestTxnEtl/range (6.96s)\ntxn_test.go:21: saw double offset\n"
    )
