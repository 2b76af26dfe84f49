"""What is set of `dafka store` reaches the store."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dafka.commands.configuration import load
from dafka.commands.mesh_options import STORE_OPTIONS
from dafka.processes import store as store_process
from dafka.processes.store import StoreProcess
from dafka.settings import MeshStoreSettings
from mesh.data_directory import DataDirectory, Kind
from mesh.store.store import StoreSettings


def opened_with(monkeypatch: pytest.MonkeyPatch, path: Path, **flags: str) -> StoreSettings:
    found: list[StoreSettings] = []

    def open_store(
        _context: Any, settings: StoreSettings, identity: DataDirectory, *, accept_loss: bool
    ) -> Any:
        assert identity.path == path
        assert accept_loss is False
        found.append(settings)
        return SimpleNamespace(settings=settings)

    monkeypatch.setattr(store_process, "open_store", open_store)
    settings = load(MeshStoreSettings, STORE_OPTIONS, {"data": str(path), **flags}, environment={})
    with DataDirectory(path, Kind.STORE) as directory:
        StoreProcess(settings, directory, cast(Any, None))
    return found[0]


def test_rates_and_rests(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told = opened_with(
        monkeypatch,
        tmp_path / "told",
        catch_up_bytes_per_second="1000",
        scrub_bytes_per_second="2000",
        scrub_interval_seconds="30",
    )
    assert told.catch_up_bytes_per_second == 1000
    assert (told.scrub_bytes_per_second, told.scrub_interval_seconds) == (2000, 30)


def test_a_store_that_fetches_what_it_missed_is_not_ready(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store = SimpleNamespace(settings=StoreSettings(Path(), ""), catch_up=SimpleNamespace(lacking=0))
    monkeypatch.setattr(store_process, "open_store", lambda *_args, **_keywords: store)
    settings = load(MeshStoreSettings, STORE_OPTIONS, {"data": str(tmp_path / "data")}, environment={})
    with DataDirectory(tmp_path / "data", Kind.STORE) as directory:
        health = StoreProcess(settings, directory, cast(Any, None)).health
    assert health.not_ready_because == "starting"
    health.ready()
    assert health.is_ready
    store.catch_up.lacking = 3
    assert (health.is_ready, health.not_ready_because) == (False, "fetching what it missed, of 3 addresses")
    store.catch_up.lacking = 0
    assert health.is_ready
    health.not_ready("stopping")
    assert health.not_ready_because == "stopping"


def test_what_is_not_set_is_as_the_store_has_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    untold, own = opened_with(monkeypatch, tmp_path / "untold"), StoreSettings(Path(), "")
    for name in (
        "catch_up_bytes_per_second",
        "scrub_bytes_per_second",
        "scrub_interval_seconds",
        "native_bytes",
        "native_seconds",
        "fsync",
        "fsync_interval_seconds",
    ):
        assert getattr(untold, name) == getattr(own, name), name
