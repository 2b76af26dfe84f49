"""Logs under a clock that jumps: what a gateway does in threads is done at once."""

import pytest
import trio

from tests.unit.at_once import at_once


@pytest.fixture(autouse=True)
def threads_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trio.to_thread, "run_sync", at_once)
