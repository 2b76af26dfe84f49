"""What tests of a gateway and several stores share."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from tests.in_process.several_stores import Body, WithStores, cluster

PATIENCE_SECONDS = 60


@pytest.fixture
def roomy_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """How full the machine's disk is does not decide what a gateway says of its stores."""
    usage = SimpleNamespace(free=900_000_000, total=1_000_000_000)
    monkeypatch.setattr("mesh.store.store.shutil.disk_usage", lambda _path: usage)


@pytest.fixture
def stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WithStores:
    """Runs a body with three stores, or so many."""

    def start(body: Body, **options: Any) -> None:
        async def main() -> None:
            with trio.fail_after(PATIENCE_SECONDS):
                async with cluster(tmp_path, monkeypatch, **options) as made:
                    await body(made)

        trio.run(main)

    return start
