"""`dafka catalog export` and `import`, with a standalone and with a gateway that runs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner

from dafka.cli import run
from dafka.operators.catalog import CatalogRequestHandlers, export_catalog
from dafka.operators.socket import serve_admin
from gateway.catalog import keys
from gateway.catalog.sqlite import SqliteCatalog
from gateway.cluster.exported import read_export
from mesh.data_directory import DataDirectoryRefused
from tests.in_process.several_stores import batch, produce
from tests.in_process.test_older_catalogs import TRANSACTION_SECONDS, a_topic, leaves, serving


def write(data: Path, monkeypatch: pytest.MonkeyPatch, *, newer: bool = False) -> None:
    async def main() -> None:
        async with serving(data, monkeypatch, topics=(("orders", 1),)) as (server, client):
            assert (await produce(client, batch()))[0] == 0
            if newer:
                await a_topic(server, client)
            assert await server.remembering.keep(TRANSACTION_SECONDS)

    trio.run(main)


def command(*arguments: str | Path) -> int:
    return run(["catalog", *map(str, arguments)])


def test_the_present_export_serves_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, file = tmp_path / "data", tmp_path / "catalog.jsonl"
    write(data, monkeypatch)
    assert command("export", "--data", data, file) == 0
    assert read_export(file.read_text().splitlines(keepends=True)).entries
    shutil.rmtree(data / "gateway")
    assert command("import", "--data", data, file) == 0

    async def main() -> None:
        for number in range(2):
            async with serving(data, monkeypatch) as (server, client):
                assert await produce(client, batch()) == (0, 1 + number)
                (lineage,) = server.catalog.range(keys.LINEAGE)
                assert keys.unpack(lineage.value)["settled"]

    trio.run(main)


def test_an_older_export_needs_a_word_and_partitions_are_looked_at_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, file = tmp_path / "data", tmp_path / "catalog.jsonl"
    write(data, monkeypatch)
    assert command("export", "--data", data / "gateway", file) == 0
    write(data, monkeypatch, newer=True)
    shutil.rmtree(data / "gateway")
    assert command("import", "--data", data, file) == 0

    async def refused() -> None:
        expected = pytest.RaisesExc(DataDirectoryRefused, match="imported from sequence .*without --older")
        with pytest.RaisesGroup(expected, flatten_subgroups=True) as raised:
            async with serving(data, monkeypatch):
                raise AssertionError("it serves")
        assert leaves(raised.value)[0].exit_code == 3

    trio.run(refused)
    assert command("import", "--data", data, "--older", file) == 3  # it has a catalog already
    shutil.rmtree(data / "gateway")
    assert command("import", "--data", data, "--older", file) == 0

    async def served() -> None:
        async with serving(data, monkeypatch) as (server, client):
            assert server.broker.topics.get("newer") is None
            orders = server.broker.topics.get("orders")
            assert orders is not None
            assert "the catalog is older than store" in orders.partitions[0].reason
            assert (await produce(client, batch()))[0] != 0
            await server.broker.create_topic("another", 1, {}, 1)
            assert await produce(client, batch(), topic="another") == (0, 0)

    trio.run(served)


def test_a_running_gateway_is_asked(tmp_path: Path) -> None:
    directory = tmp_path / "gateway"
    directory.mkdir()

    async def main() -> None:
        catalog = SqliteCatalog(directory / "catalog.sqlite")
        async with trio.open_nursery() as nursery:
            await nursery.start(serve_admin, directory, CatalogRequestHandlers(catalog).handlers)
            code = await trio.to_thread.run_sync(command, "export", "--data", directory, "-")
            assert code == 2  # it is empty yet
            await catalog.transact([], {keys.CLUSTER: keys.pack({"id": "C1", "format": 1})})
            text = await trio.to_thread.run_sync(export_catalog, directory)
            assert read_export(text.splitlines(keepends=True)).cluster == "C1"
            nursery.cancel_scope.cancel()
        await catalog.aclose()

    trio.run(main)


def test_what_cannot_be_exported_or_imported_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "catalog.jsonl"
    assert command("export", "--data", tmp_path / "nothing", file) == 3
    assert "there is no catalog" in capsys.readouterr().err
    assert not (tmp_path / "nothing").exists()
    file.write_text("{}\n")
    assert command("import", "--data", tmp_path / "new", file) == 3
    assert "no export of a catalog" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
    file.write_bytes(b"\xff\xfe")
    assert command("import", "--data", tmp_path / "new", file) == 2
    assert command("import", "--data", tmp_path / "new", tmp_path / "absent") == 2


def test_the_help_says_what_to_do() -> None:
    from dafka.commands.catalog import catalog

    text = CliRunner().invoke(catalog, ["import", "--help"]).output
    assert "rebuild-catalog" in text
