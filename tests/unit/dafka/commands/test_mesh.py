"""`dafka mesh status`: what it shows of each store."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from dafka.commands.mesh import mesh


def entry(name: str, *, live: bool, refused: str | None = None) -> dict[str, Any]:
    return {
        "id": 1000,
        "name": name,
        "state": "admitted",
        "live": live,
        "refused": refused,
        "free_bytes": 1024,
        "silent_seconds": 0.3,
        "unconfirmed_segments": 0,
    }


def test_a_store_that_is_refused_is_not_shown_as_one_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    stores = [
        entry("here", live=True),
        entry("set-back", live=False, refused="never had that start"),
        entry("away", live=False),
    ]
    status = {"cluster": "c", "ready": 1, "partitions": 1, "stores": stores, "peers": [], "troubled": []}
    monkeypatch.setattr("dafka.operators.socket.ask", lambda *_: status)
    shown = CliRunner().invoke(mesh, ["status"]).output.splitlines()
    rows = {row[1]: row[3] for row in (line.split() for line in shown[3:6])}
    assert rows == {"here": "yes", "set-back": "refused", "away": "no"}
