"""Events of mixed groups in a file."""

from __future__ import annotations

from pathlib import Path

from mixed_groups.events import Events

from tests.unit.compat_tests.mixed_groups.test_checker import GOOD


def test_events_are_saved_and_loaded(tmp_path: Path) -> None:
    events = Events()
    events.add(*GOOD)
    events.save(tmp_path / "events.jsonl")
    assert list(Events.load(tmp_path / "events.jsonl")) == GOOD
