"""The native load generator in `go/`: built once, run with options, its one line of JSON as values."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tests.peers.go import built

SOURCES = Path(__file__).parent / "go"
GO_MOD = SOURCES / "go.mod"
# Beside the time that it is told to run: to connect, to finish, to read what there is.
RUN_SECONDS = 1_800.0


@dataclass(frozen=True)
class Load:
    """What a run has measured after its warm-up; the fields are those of `type result` in go/main.go."""

    seconds: float
    records: int
    bytes: int
    """Of values, before compression."""
    requests: int
    batches: int
    server_seconds: float
    client_seconds: float
    p50: float
    """Microseconds, as the other two: of records or requests that are timed one by one."""
    p99: float
    p999: float
    followed_bytes: int
    replayed_bytes: int
    all_records: int
    """All that was acknowledged, in the warm-up too."""


def program() -> Path:
    """The generator's program, built if its sources are new."""
    return built(SOURCES, "bench-generator")


def run(role: str, **options: Any) -> Load:
    """Run a role of the generator to its end; options are those of `type options` in go/main.go.

    Raises AssertionError with what it said when it failed: an answer was an error, a batch was damaged.
    """
    answer = json.loads(_output([str(program()), role, json.dumps(options)], RUN_SECONDS))
    values = {name.lower(): value for name, value in answer.items()}
    return Load(**{field.name: values[field.name.replace("_", "")] for field in fields(Load)})


def _output(command: list[str], timeout: float) -> str:
    result = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    if result.returncode != 0:
        words = " ".join(command)
        raise AssertionError(f"{words} ended with {result.returncode}:\n{result.stderr[-4000:]}")
    return result.stdout
