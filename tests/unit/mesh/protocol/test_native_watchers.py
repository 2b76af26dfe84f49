"""Gateways that a store tells of native heads."""

import pytest

from mesh.protocol import native_watchers
from mesh.protocol.native_watchers import WATCH_SECONDS, NativeWatchers


def test_who_has_asked_is_told_for_a_while() -> None:
    watchers = NativeWatchers()
    assert not watchers
    watchers.asked("heat", "G1", 10.0)
    watchers.asked("heat", "G2", 20.0)
    assert watchers
    assert watchers.of("heat", 20.0) == ["G1", "G2"]
    assert watchers.of("heat", 10.0 + WATCH_SECONDS) == ["G2"]
    assert watchers.of("cold", 20.0) == []
    watchers.asked("heat", "G1", 24.0)
    assert watchers.of("heat", 10.0 + WATCH_SECONDS) == ["G1", "G2"]


def test_there_are_so_many_and_old_ones_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_watchers, "MAX_WATCHERS", 2)
    watchers = NativeWatchers()
    watchers.asked("a", "G1", 0.0)
    watchers.asked("b", "G1", 5.0)
    watchers.asked("c", "G1", 6.0)
    assert watchers.of("c", 6.0) == []
    watchers.asked("a", "G1", 7.0)
    assert watchers.of("a", 7.0 + WATCH_SECONDS - 1) == ["G1"]
    watchers.asked("c", "G1", 5.0 + WATCH_SECONDS)
    assert watchers.of("c", 5.0 + WATCH_SECONDS) == ["G1"]
    assert watchers.of("b", 5.0 + WATCH_SECONDS) == []
