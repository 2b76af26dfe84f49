"""A catalog as a file: whole or refused, and what of it an import takes."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import pytest
import trio

from gateway.catalog import keys
from gateway.catalog.interface import MAX_KEY_BYTES, MAX_VALUE_BYTES
from gateway.catalog.snapshot import snapshot
from gateway.cluster.acls import key_of, unpack
from gateway.cluster.exported import (
    Exported,
    NotAnExport,
    exported,
    imported_entries,
    lines_of,
    read_export,
)
from gateway.cluster.identity import cluster_entry
from gateway.cluster.lineage import CatalogHistory, Life, Lineage
from gateway.cluster.rebuild import SPARE_EPOCHS
from tests.unit.gateway.catalog.memory import MemoryCatalog

ACL = [2, "t", 3, "User:a", "*", 3, 3]
ENTRIES: dict[str, Any] = {
    keys.topic_key("orders"): {
        "id": "0" * 32,
        "partitions": 1,
        "replication_factor": 1,
        "configs": {"a": "\u00e9"},
    },
    key_of(unpack(keys.pack(ACL))): ACL,
    keys.PRODUCER_IDS: 5000,
    keys.LEADER_EPOCH: 70,
    keys.closing_key("A"): {"end": 1},
    keys.compacting_key("B"): {"members": []},
    keys.segment_tombstone_key("C"): {"members": []},
    keys.tombstone_key(bytes(16)): {"name": "gone"},
}
SNAPSHOT = {
    keys.producers_key(bytes(16), 0): b"\0\xff snapshot",
    keys.producers_key(bytes(16), 1): b'{"a": 1}',
}


def catalog() -> MemoryCatalog:
    made = MemoryCatalog()

    async def fill() -> None:
        await made.transact([], cluster_entry("C1"))
        await made.transact([], {key: keys.pack(value) for key, value in ENTRIES.items()} | SNAPSHOT)
        for life in ("G1", "G2"):
            begun = CatalogHistory(made).begin(life)
            await made.transact(begun.compares, begun.puts, begun.deletes)

    trio.run(fill)
    return made


def file(made: MemoryCatalog | None = None) -> list[str]:
    return list(lines_of(exported(trio.run(snapshot, made or catalog(), ("",)))))


def test_what_was_exported_is_read_back_byte_by_byte() -> None:
    made = catalog()
    found = read_export(file(made))
    assert found.entries == {entry.key: entry.value for entry in made.range("")}
    assert (found.cluster, found.life, found.sequence) == ("C1", "G2", 4)
    assert found.lineage == Lineage.unpack(found.entries[keys.LINEAGE]).name


def test_the_lines_are_for_people_too() -> None:
    lines = file()
    assert json.loads(lines[0])["cluster"] == "C1"
    assert '{"key":"/producer-ids","value":5000}\n' in lines
    assert json.loads(lines[-1])["entries"] == len(lines) - 2


def test_an_empty_catalog_has_nothing_to_export() -> None:
    with pytest.raises(NotAnExport, match="nothing to export"):
        exported(trio.run(snapshot, MemoryCatalog(), ("",)))


def changed(lines: list[str], number: int, **values: Any) -> list[str]:
    return [*lines[:number], json.dumps(json.loads(lines[number]) | values) + "\n", *lines[number + 1 :]]


GOOD = file()
BAD = {
    "nothing": ([], "no export"),
    "other lines": (["{}\n", "{}\n"], "no export"),
    "no JSON": (["dafka\n", *GOOD[1:]], "line 1 .* no JSON object"),
    "a list": (["[1]\n", *GOOD[1:]], "line 1 .* no JSON object"),
    "no end": (GOOD[:-1], "cut off or was changed"),
    "a line less": (GOOD[:3] + GOOD[4:], "cut off or was changed"),
    "a line twice": (GOOD[:3] + GOOD[2:], "cut off or was changed"),
    "another value": (changed(GOOD, 3, value=7), "cut off or was changed"),
    "a newer version": (changed(GOOD, 0, version=2), "has version 2, and this program knows none above 1"),
    "a newer catalog": (changed(GOOD, 0, catalog_format=9), "has catalog_format 9"),
    "no version": (changed(GOOD, 0, version="1"), "has version 1"),
}


@pytest.mark.parametrize(("lines", "why"), BAD.values(), ids=BAD)
def test_what_is_not_whole_is_refused(lines: list[str], why: str) -> None:
    with pytest.raises(NotAnExport, match=why):
        read_export(lines)


def whole(*entries: Any, **header: Any) -> list[str]:
    """A file with these lines, whose end fits: as nobody but a broken program, or a vandal, makes it."""
    lines = [json.dumps(one) + "\n" for one in (json.loads(GOOD[0]) | header, *entries)]
    digest = hashlib.sha256("".join(lines).encode()).hexdigest()
    return [*lines, json.dumps({"entries": len(lines) - 1, "sha256": digest}) + "\n"]


HASH = base64.b64encode(bytes(32)).decode()
A_USER: dict[str, Any] = {
    "SCRAM-SHA-256": {"salt": "AAAA", "stored_key": HASH, "server_key": HASH, "iterations": 4096}
}
HALF_A_USER = {"SCRAM-SHA-256": A_USER["SCRAM-SHA-256"] | {"server_key": "AAAA"}}
CLUSTER_LINE: dict[str, Any] = {"key": keys.CLUSTER, "value": {"id": "C1", "format": 1}}
UNREADABLE = {
    "a key twice": whole(CLUSTER_LINE, {"key": "/a", "value": 1}, {"key": "/a", "value": 2}),
    "a key that is a number": whole(CLUSTER_LINE, {"key": 1, "value": 1}),
    "a key that is too long": whole(CLUSTER_LINE, {"key": "/" + "a" * MAX_KEY_BYTES, "value": 1}),
    "a value that is too long": whole(CLUSTER_LINE, {"key": "/a", "value": "a" * MAX_VALUE_BYTES}),
    "no value": whole(CLUSTER_LINE, {"key": "/a"}),
    "base64 that is none": whole(CLUSTER_LINE, {"key": "/a", "base64": "a\u00e9"}),
    "base64 of a number": whole(CLUSTER_LINE, {"key": "/a", "base64": 7}),
    "half a character": whole(CLUSTER_LINE, {"key": "/\ud800", "value": 1}),
    "no cluster": whole({"key": "/a", "value": 1}),
    "another cluster": whole(CLUSTER_LINE, cluster="C2"),
    "a sequence without end": whole(CLUSTER_LINE, sequence=float("inf")),
    "a sequence below 0": whole(CLUSTER_LINE, sequence=-1),
    "a life that cannot be read": whole(CLUSTER_LINE, {"key": keys.LIVES + "G1", "value": []}),
    "a lineage that cannot be read": whole(CLUSTER_LINE, {"key": keys.LINEAGE, "value": {}}),
    "a topic that cannot be read": whole(CLUSTER_LINE, {"key": keys.topic_key("orders"), "value": {}}),
    "a delegation token that cannot be read": whole(
        CLUSTER_LINE, {"key": keys.token_key("A" * 22), "value": {"owner": ["User", "alice"]}}
    ),
    "an ACL that cannot be read": whole(CLUSTER_LINE, {"key": keys.ACLS + "0" * 32, "value": [2, "t", 3]}),
    "an ACL at another key": whole(CLUSTER_LINE, {"key": keys.ACLS + "0" * 32, "value": ACL}),
    "a segment that cannot be read": whole(CLUSTER_LINE, {"key": keys.SEGMENTS + "x", "value": []}),
    "a topic without end": whole(CLUSTER_LINE, {"key": keys.topic_key("a"), "base64": "W1tb" * 50_000}),
    "producer ids that are none": whole(CLUSTER_LINE, {"key": keys.PRODUCER_IDS, "value": "x"}),
    "a user with nothing": whole(CLUSTER_LINE, {"key": keys.scram_key("u"), "value": {}}),
    "a user with half a hash": whole(CLUSTER_LINE, {"key": keys.scram_key("u"), "value": HALF_A_USER}),
    "a user who is written otherwise": whole(CLUSTER_LINE, {"key": keys.SCRAM + "%75", "value": A_USER}),
    "a secret that is short": whole(CLUSTER_LINE, {"key": keys.SCRAM_SECRET, "base64": "AAAA"}),
    "another secret": whole(CLUSTER_LINE, {"key": keys.SCRAM_SECRET + "s", "base64": "AAAA"}),
    "a leader epoch that is none": whole(CLUSTER_LINE, {"key": keys.LEADER_EPOCH, "value": 1 << 31}),
}


@pytest.mark.parametrize("lines", UNREADABLE.values(), ids=UNREADABLE)
def test_what_no_export_says_is_refused_before_anything_is_written(lines: list[str]) -> None:
    with pytest.raises(NotAnExport, match="cannot be read"):
        read_export(lines)


def test_a_file_that_is_whole_is_taken_whoever_made_it() -> None:
    assert read_export(whole(CLUSTER_LINE, {"key": "/a", "value": 1})).entries["/a"] == b"1"
    user = {"key": keys.scram_key("u"), "value": A_USER}
    secret = {"key": keys.SCRAM_SECRET, "base64": HASH}
    taken = imported_entries(read_export(whole(CLUSTER_LINE, user, secret)), older=False)
    assert taken[keys.scram_key("u")] == keys.pack(A_USER)
    assert taken[keys.SCRAM_SECRET] == bytes(32)


def test_an_import_begins_a_new_lineage_and_takes_no_notes() -> None:
    found = read_export(GOOD)
    entries = imported_entries(found, older=False)
    lineage = Lineage.unpack(entries[keys.LINEAGE])
    assert (lineage.parent, lineage.parent_sequence, lineage.settled) == (found.lineage, 4, False)
    assert lineage.name != found.lineage
    assert Life.unpack(entries[keys.LIVES + "G1"]) == Life(found.lineage, 2, 3)
    assert Life.unpack(entries[keys.LIVES + "G2"]) == Life(found.lineage, 3, 4)
    assert sorted(key for key in entries if not key.startswith(keys.LIVES)) == sorted(
        [
            *(keys.LINEAGE, keys.topic_key("orders"), keys.PRODUCER_IDS, keys.LEADER_EPOCH, *SNAPSHOT),
            key_of(unpack(keys.pack(ACL))),
            *(keys.left_over_key(address) for address in "BC"),
        ]
    )
    assert keys.unpack(entries[keys.PRODUCER_IDS]) > 5000
    assert keys.unpack(entries[keys.LEADER_EPOCH]) == 70 + SPARE_EPOCHS
    assert Lineage.unpack(imported_entries(found, older=True)[keys.LINEAGE]).settled


@pytest.mark.parametrize("counter", [None, 3, 12])
def test_leader_epochs_go_on_above_all_that_an_export_tells_of(counter: int | None) -> None:
    entries = cluster_entry("C1") | {
        keys.partition_key(bytes(16), 0): keys.pack({"next_epoch": 8, "epochs": [], "log_start": 0}),
        keys.segment_key(bytes(16), 1, 0, "A"): keys.pack({"address": "A", "epoch": 9}),
    }
    if counter is not None:
        entries[keys.LEADER_EPOCH] = keys.pack(counter)
    imported = imported_entries(Exported("C1", "", "", 7, entries), older=True)
    assert keys.unpack(imported[keys.LEADER_EPOCH]) == max(9, counter or 0) + SPARE_EPOCHS


def test_an_export_of_before_lineages_gets_one_at_its_start() -> None:
    entries = cluster_entry("C1") | {keys.topic_key("orders"): b"{}"}
    imported = imported_entries(Exported("C1", "", "", 7, entries), older=False)
    assert keys.LINEAGE not in imported
    assert imported[keys.topic_key("orders")] == b"{}"
