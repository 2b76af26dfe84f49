"""`dafka init` with a catalog in an etcd: a new one, and one that a gateway uses at that moment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from dafka.cli import run
from gateway.catalog import keys
from gateway.catalog.etcd.address import EtcdAddress
from gateway.catalog.etcd.catalog import EtcdCatalog
from gateway.catalog.etcd.client import Credentials
from gateway.cluster.identity import cluster_in
from gateway.cluster.scram_users import ScramUsers
from gateway.security.scram import Hash, is_password

PATIENCE_SECONDS = 30.0


def init(address: EtcdAddress, folder: Path, name: str) -> int:
    (folder / "password").write_text("secret")
    file = str(folder / "password")
    return run(["init", "--catalog", str(address), "--admin", name, "--password-file", file])


def test_a_new_catalog_has_the_user_and_no_cluster(
    new_address: Callable[[], EtcdAddress], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = new_address()
    assert init(address, tmp_path, "admin") == 0
    assert init(address, tmp_path, "admin") == 2
    assert "there is a user admin already" in capsys.readouterr().err
    catalog = trio.run(EtcdCatalog.open, address, Credentials())
    known = ScramUsers(catalog).of("admin") or {}
    assert known.keys() == set(Hash)
    assert all(is_password(kind, one, "secret") for kind, one in known.items())
    assert cluster_in(catalog) is None, "the first start makes it"
    trio.run(catalog.aclose)


def test_who_uses_the_catalog_sees_the_user(new_address: Callable[[], EtcdAddress], tmp_path: Path) -> None:
    address = new_address()

    async def main() -> None:
        catalog = await EtcdCatalog.open(address, Credentials())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(catalog.run)
            assert await trio.to_thread.run_sync(init, address, tmp_path, "admin") == 0
            with trio.fail_after(PATIENCE_SECONDS):
                while catalog.get(keys.scram_key("admin")) is None:
                    async for _ in catalog.watch(keys.SCRAM, 1):
                        break
            nursery.cancel_scope.cancel()
        await catalog.aclose()

    trio.run(main)
