"""What cannot be read at all of a store's own state: refused, with what to do."""

from pathlib import Path

import pytest

from mesh.data_directory import EXIT_DATA_REFUSED, DataDirectoryRefused
from mesh.links import Context
from mesh.protocol.commit import Commit
from mesh.store.db import Database
from mesh.store.opening import open_store
from mesh.store.store import StoreSettings


def test_a_damaged_table_file_with_the_stores_own_state_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "db"
    database = Database(path)
    commit = Commit()
    commit.cluster_id = "whose-cluster-it-is"
    database.write(commit)
    database.flush()
    database.close()
    Database(path).close()  # moves what is in the write-ahead log to a table file
    table, at = next(
        (table, at) for table in path.glob("*.sst") if (at := table.read_bytes().find(b"whose-cluster")) >= 0
    )
    content = bytearray(table.read_bytes())
    content[at] ^= 0x10
    table.write_bytes(content)
    context = Context()
    try:
        with pytest.raises(DataDirectoryRefused) as refused:
            open_store(context, StoreSettings(path, "A" * 32))
    finally:
        context.close()
    assert refused.value.exit_code == EXIT_DATA_REFUSED
    assert table.name in str(refused.value)
    assert "dafka store replace" in str(refused.value)
    assert table.read_bytes() == bytes(content)
