"""The user that `dafka init` makes is there after the first start, and after those that follow; and one that
is made between two lives is told to the store, and refutes nothing.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from dafka import cli
from gateway.catalog import keys
from gateway.cluster.kept_copy import recall
from tests.in_process.several_stores import batch, produce
from tests.in_process.test_older_catalogs import TRANSACTION_SECONDS, serving


def init(data: Path, name: str) -> int:
    (data.parent / "password").write_text("secret")
    path = str(data.parent / "password")
    return cli.run(["init", "--data", str(data), "--admin", name, "--password-file", path])


def test_users_are_there_after_each_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "data"

    async def life(number: int, users: list[str]) -> None:
        async with serving(data, monkeypatch, topics=(("orders", 1),)) as (server, client):
            assert [user for user, _ in server.broker.scram_users.all()] == users
            assert await produce(client, batch()) == (0, number)
            assert await server.remembering.keep(TRANSACTION_SECONDS)
            copy = await recall(server.reader, [server.directories.store.incarnation], accept_loss=False)
            assert {key for key in copy.entries if key.startswith(keys.SCRAM)} == {
                keys.scram_key(user) for user in users
            }

    assert init(data, "admin") == 0
    trio.run(life, 0, ["admin"])
    trio.run(life, 1, ["admin"])
    assert init(data, "second") == 0
    trio.run(life, 2, ["admin", "second"])
    trio.run(life, 3, ["admin", "second"])
