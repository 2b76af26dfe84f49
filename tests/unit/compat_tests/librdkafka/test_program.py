"""What the program that runs librdkafka's tests makes of its runner's report."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from librdkafka import program

RUNNER = """#!/bin/sh
echo '[0061_consumer_lag / 9.126s] [ do_test_consumer_lag:192: without transactions: PASS (9.13s) ]'
echo '{"tests": {"0061_consumer_lag": {"state": "PASSED"}}}' > "$TEST_REPORT"
"""


@pytest.mark.parametrize(
    ("what", "status"), [("0061", 0), ("0061/without transactions", 0), ("0061/with no such piece", 1)]
)
def test_a_piece_that_the_runner_does_not_have_has_not_passed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    what: str,
    status: int,
) -> None:
    """To the runner itself a test of which nothing was chosen has passed."""
    runner = tmp_path / "librdkafka" / "tests" / "test-runner"
    runner.parent.mkdir(parents=True)
    runner.write_text(RUNNER)
    runner.chmod(0o755)
    report = tmp_path / "report.json"
    monkeypatch.setenv("COMPAT_HOME", str(tmp_path))
    monkeypatch.setenv("COMPAT_AUTO_CREATE", "1")
    monkeypatch.setattr(sys, "argv", ["run", what, "127.0.0.1:1", str(report)])
    assert program.main() == status
    if status:
        assert not report.exists()
        assert "test 0061 has no piece with 'with no such piece' in its name" in capsys.readouterr().err
    else:
        assert json.loads(report.read_text())["tests"]["0061_consumer_lag"] == {"state": "PASSED"}
