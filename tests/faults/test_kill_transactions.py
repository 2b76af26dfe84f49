"""A short round of transactions under faults, drawn by a seed that stays the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.kill_transactions import Round
from tests.faults.transactions.clients import CLIENTS

WORKERS = 2
"""Of each client: one in each group."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("clients", "faults"),
    [(("librdkafka",), 3), pytest.param(CLIENTS, 8, marks=pytest.mark.long)],
    ids=["one client", "all clients"],
)
def test_some_faults(tmp_path: Path, clients: tuple[str, ...], faults: int) -> None:
    some = Round(tmp_path, 1, faults, clients=clients, workers=WORKERS)
    problems = some.run()
    some.history.save(tmp_path / "history.jsonl")
    assert problems == [], f"all of it: {tmp_path / 'history.jsonl'}"
    assert some.acked > 0
    assert some.killed.total() == faults
