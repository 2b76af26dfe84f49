"""`dafka store accept-loss` asked for nothing, or for what it cannot do, says so and changes nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

USAGE = 2


def accept_loss(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dafka.cli", "store", "accept-loss", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


def test_a_command_that_is_wrong(tmp_path: Path) -> None:
    for arguments in ((), (tmp_path, "--gone", "s1")):
        wrong = accept_loss(*arguments)
        assert wrong.returncode == USAGE
        assert "name either DIR" in wrong.stderr
    nothing = accept_loss(tmp_path / "nothing")
    assert nothing.returncode == USAGE
    assert "there is no store in it" in nothing.stderr
    nobody = accept_loss("--gone", "s1", "--data", tmp_path)
    assert nobody.returncode == USAGE
    assert "no gateway answers" in nobody.stderr
