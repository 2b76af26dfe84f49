"""Whose cluster a catalog is of."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from gateway.catalog import keys
from gateway.cluster.feature_levels import LEVELS_BEFORE, OF_THIS_RELEASE, highest_levels
from gateway.cluster.identity import cluster_entry, cluster_in
from gateway.leadership.records import pack_features
from mesh.data_directory import DataDirectoryRefused
from tests.unit.gateway.catalog.memory import MemoryCatalog

DATA = Path("/data")


def catalog_with(entries: dict[str, bytes]) -> MemoryCatalog:
    catalog = MemoryCatalog()
    trio.run(catalog.transact, [], entries)
    return catalog


def test_a_new_catalog_is_of_none() -> None:
    assert cluster_in(MemoryCatalog()) is None


def test_what_was_written_is_read() -> None:
    assert cluster_in(catalog_with(cluster_entry("c"))) == "c"
    before = pack_features(LEVELS_BEFORE)
    assert cluster_entry("c", before) == cluster_entry("c") | {keys.FEATURES: before}
    newer = cluster_entry("c", pack_features(highest_levels(OF_THIS_RELEASE, "2")))
    assert cluster_in(catalog_with(newer)) == "c"
    assert keys.unpack(newer[keys.CLUSTER])["format"] == keys.FORMAT


def test_a_format_of_a_newer_version_is_refused() -> None:
    newer = {keys.CLUSTER: keys.pack({"id": "c", "format": keys.FORMAT + 1})}
    with pytest.raises(DataDirectoryRefused, match=f"knows none above {keys.FORMAT}") as refused:
        cluster_in(catalog_with(newer))
    assert "newer" in str(refused.value)
