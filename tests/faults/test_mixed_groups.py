"""Members of several clients in one group over a SIGKILL of the server; `make groups` does it for longer."""

from __future__ import annotations

from pathlib import Path

import pytest
from mixed_groups.checker import check, seen
from mixed_groups.members import programs
from mixed_groups.run import Run, Settings

from tests.faults.checker import check as check_records

CLIENTS = ["franz_go", "java_clients_4_3", "python_confluent", "python_kafka_2"]


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_members_of_four_clients_in_one_group(seed: int, tmp_path: Path) -> None:
    run = Run(programs(CLIENTS), Settings(30.0, 1, seed, ("range", "roundrobin")), tmp_path)
    run.run()
    run.events.save(tmp_path / "events.jsonl")
    assert [*check(run.events, run.history), *check_records(run.history)] == []
    assert run.acked > 500
    assert seen(run.events).generations > 3
