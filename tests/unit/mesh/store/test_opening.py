"""A store whose files are damaged where it needs them to open is refused, with the next step."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from mesh.data_directory import DataDirectoryRefused
from mesh.protocol.ingest import Ingest
from mesh.store.db import Database
from mesh.store.opening import open_store
from mesh.store.store import StoreSettings
from mesh.zmq_trio import Context
from tests.unit.mesh.store.sample import ADDRESS, STORE, batch, fill


def test_a_file_that_is_damaged_where_the_store_looks_first(tmp_path: Path) -> None:
    database = Database(tmp_path / "db")
    fill(Ingest(STORE, database), database, ADDRESS)
    database.close()
    (table,) = (tmp_path / "db").glob("*.sst")
    content = bytearray(table.read_bytes())
    content[content.index(batch(3))] ^= 1  # the file is one block: with it the store's cluster is gone
    table.write_bytes(content)

    async def main() -> None:
        context = Context()
        try:
            with pytest.raises(DataDirectoryRefused, match=r"checksum mismatch.*dafka store replace"):
                open_store(context, StoreSettings(tmp_path / "db", STORE))
        finally:
            context.close()

    trio.run(main)
