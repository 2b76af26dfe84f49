"""Backups of `dafka standalone`: everything lost, restored, and compared record by record."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka.admin import AclPermissionType
from kafka.protocol.admin import AlterClientQuotasRequest

from gateway.catalog import keys
from gateway.cluster.exported import read_export
from gateway.cluster.quotas import key_of
from tests.backup import scene
from tests.backup.scene import dafka
from tests.differential.wire import ask
from tests.peers.standalone import Standalone

ARGUMENTS = (
    "--compaction-backoff-ms",
    "200",
    "--retention-check-interval-ms",
    "200",
    "--delete-delay-ms",
    "0",
)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Standalone]:
    with Standalone(tmp_path / "data", *ARGUMENTS, directory=tmp_path / "old") as server:
        yield server


def restored(tmp_path: Path, old: Standalone, *arguments: str) -> Standalone:
    """A standalone on what a restore has made, on the port of the old one, which is lost with its data."""
    if old.returncode is None:
        old.kill9()
    shutil.rmtree(old.data, ignore_errors=True)
    data = tmp_path / "new-data"
    assert dafka("restore", tmp_path / "target", "--data", data, *arguments) == 0
    new = Standalone(data, *ARGUMENTS, directory=tmp_path / "new")
    new.port = old.port
    return new


def test_every_state_of_a_partition_comes_back(
    tmp_path: Path, server: Standalone, capfd: pytest.CaptureFixture[str]
) -> None:
    at, target = server.bootstrap, tmp_path / "target"
    to = scene.producer(at)
    scene.create(at, "orders", 3, segment_bytes=scene.SEGMENT_BYTES, retention_ms="-1")
    scene.create(at, "never-written", 2)
    scene.create(at, "trimmed", segment_bytes=scene.SEGMENT_BYTES)
    scene.create(at, "emptied", segment_bytes=scene.SEGMENT_BYTES)
    scene.create(
        at,
        "compacted",
        cleanup_policy="compact",
        segment_bytes=scene.SEGMENT_BYTES,
        min_cleanable_dirty_ratio="0.01",
    )
    for partition in range(2):  # nothing is ever written to the third
        scene.produce(to, "orders", range(1000), partition)
    scene.produce(to, "compacted", range(1000), keys=7)
    for topic in ("trimmed", "emptied"):
        scene.produce(to, topic, range(500))
    scene.trim(at, "trimmed", 333)
    scene.trim(at, "emptied", -1)
    scene.commit(at, "g", "orders", (400, 1000))
    scene.settle(lambda: len(scene.read_log(at, "compacted").records) < 500, "compaction")
    assert dafka("backup", "take", target, "--data", server.data) == 0
    scene.produce(to, "orders", range(1000, 1100))
    # The next one has what is new, and all that is there.
    before, identities = scene.everything(at), scene.identities(at)
    assert dafka("backup", "take", target, "--data", server.data) == 0
    assert dafka("backup", "verify", target, "--all") == 0
    capfd.readouterr()
    with restored(tmp_path, server) as new:
        # Nobody else is there whose changes there could be.
        assert "another gateway" not in capfd.readouterr().err
        assert new.bootstrap == at
        after = scene.everything(at)
        assert after.keys() == before.keys()
        for name, log in before.items():
            if name[0] != "compacted":  # which may have been compacted once more since
                assert after[name] == log, name
        newest = {record[1]: record for record in before["compacted", 0].records}
        assert newest == {record[1]: record for record in after["compacted", 0].records}
        assert scene.identities(at) == identities
        assert scene.committed(at, "g") == {("orders", 0): 400, ("orders", 1): 1000}
        # An idempotent producer goes on with its sequence numbers, and everybody can write everywhere.
        scene.produce(to, "orders", range(1100, 1200))
        for topic in ("never-written", "trimmed", "emptied", "compacted"):
            scene.produce(scene.producer(at), topic, range(500, 510))
        numbers = [int(record[1] or b"") for record in scene.read_log(at, "orders").records]
        assert numbers == list(range(1200))
        assert scene.read_log(at, "emptied").start == 500
        new.restart()
        assert scene.end_of(at, "orders") == 1200
        assert new.terminate() == 0


def test_more_topics_come_back_than_a_transaction_may_put(tmp_path: Path, server: Standalone) -> None:
    at = server.bootstrap
    scene.create_all(at, [f"t{number}" for number in range(150)])
    assert dafka("backup", "take", tmp_path / "target", "--data", server.data) == 0
    before = scene.identities(at)
    assert len(before) >= 150
    with restored(tmp_path, server):
        assert scene.identities(at) == before


def test_acls_come_back(tmp_path: Path) -> None:
    acls = ("--authorizer", "acl", "--super-user", "User:ANONYMOUS")
    lines = {
        scene.acl("orders", AclPermissionType.DENY),
        *(scene.acl(f"t\u00e4{number}", AclPermissionType.ALLOW) for number in range(300)),
    }
    with Standalone(tmp_path / "data", *acls, directory=tmp_path / "old") as server:
        scene.make_acls(server.bootstrap, lines)
        assert dafka("backup", "take", tmp_path / "target", "--data", server.data) == 0
    with restored(tmp_path, server) as new:
        assert new.terminate() == 0
    with Standalone(new.data, *acls, directory=tmp_path / "newest") as newest:
        assert scene.all_acls(newest.bootstrap) == lines


def test_a_restore_to_an_earlier_time_sets_commits_to_the_ends(
    tmp_path: Path, server: Standalone, capsys: pytest.CaptureFixture[str]
) -> None:
    at, target = server.bootstrap, tmp_path / "target"
    to = scene.producer(at)
    scene.create(at, "orders", 2, segment_bytes=scene.SEGMENT_BYTES)
    scene.produce(to, "orders", range(500))
    scene.produce(to, "orders", range(10), 1)
    scene.commit(at, "g", "orders", (499, 10))
    scene.commit(at, "h", "orders", (7,))
    then = datetime.now(UTC).isoformat()
    scene.produce(to, "orders", range(500, 1000))
    assert dafka("backup", "take", target, "--data", server.data) == 0
    before = scene.read_log(at, "orders")
    with restored(tmp_path, server, "--before", then):
        assert "orders-1: offsets 0 to 0, 10 offsets left out" in capsys.readouterr().out
        after = scene.read_log(at, "orders")
        assert 100 < after.end < 499
        assert after.records == before.records[: after.end]
        assert scene.committed(at, "g") == {("orders", 0): after.end, ("orders", 1): 0}
        assert scene.committed(at, "h") == {("orders", 0): 7}
        scene.produce(scene.producer(at), "orders", range(5))
        assert scene.end_of(at, "orders") == after.end + 5
        scene.commit(at, "g", "orders", (3, 0))
        assert scene.committed(at, "g")["orders", 0] == 3


def test_damaged_and_missing_objects_are_named_and_copied_again(
    tmp_path: Path, server: Standalone, capsys: pytest.CaptureFixture[str]
) -> None:
    at, target = server.bootstrap, tmp_path / "target"
    scene.create(at, "orders", segment_bytes=scene.SEGMENT_BYTES)
    scene.produce(scene.producer(at), "orders", range(500))
    assert dafka("backup", "take", target, "--data", server.data) == 0
    first, second, *_ = sorted(
        (one for one in target.glob("objects/*/*")), key=lambda one: -one.stat().st_size
    )
    content = bytearray(first.read_bytes())
    content[len(content) // 2] ^= 1
    first.write_bytes(content)
    second.unlink()
    capsys.readouterr()
    assert dafka("backup", "verify", target) == 3
    said = capsys.readouterr().err
    assert f"{first.name} is damaged" in said
    assert f"{second.name} is missing" in said
    assert "orders-0, offsets" in said
    assert dafka("restore", target, "--data", tmp_path / "not-this") == 3
    assert "dafka backup verify" in capsys.readouterr().err
    first.unlink()
    assert dafka("backup", "take", target, "--data", server.data) == 0
    assert dafka("backup", "verify", target, "--all") == 0
    # What is cut off is no backup; and what nobody needs goes with a prune.
    newest = max((target / "manifests").iterdir())
    newest.write_bytes(newest.read_bytes()[:-10])
    assert dafka("backup", "verify", target) == 3
    assert dafka("backup", "prune", target, "--keep", "1") == 3
    newest.unlink()
    scene.trim(at, "orders", -1)
    assert dafka("backup", "take", target, "--data", server.data) == 0
    before = scene.everything(at)
    assert dafka("backup", "prune", target, "--keep", "1") == 0
    assert dafka("backup", "verify", target, "--all") == 0
    assert len(list(target.glob("manifests/*"))) == 1
    with restored(tmp_path, server):
        assert scene.everything(at) == before


def kept_users(data: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, bytes]:
    """What the catalog of a standalone that runs has of users and quotas."""
    capsys.readouterr()
    assert dafka("catalog", "export", "--data", data, "-") == 0
    entries = read_export(capsys.readouterr().out.splitlines(keepends=True)).entries
    return {key: value for key, value in entries.items() if key.startswith(keys.OF_SECURITY)}


def limit_alice(bootstrap: str) -> None:
    of = AlterClientQuotasRequest.EntryData
    op = of.OpData(key="producer_byte_rate", value=1e6, remove=False)
    entry = of(entity=[of.EntityData(entity_type="user", entity_name="alice")], ops=[op])
    answer = ask(bootstrap, AlterClientQuotasRequest(version=1, entries=[entry], validate_only=False))
    assert [one.error_code for one in answer.entries] == [0]


def test_users_and_quotas_come_back(
    tmp_path: Path, server: Standalone, capsys: pytest.CaptureFixture[str]
) -> None:
    password = tmp_path / "password"
    password.write_text("secret")
    scene.create(server.bootstrap, "orders")
    for name in ("alice", "b/o=b"):
        where = ("--password-file", password, "--bootstrap", server.bootstrap)
        assert dafka("users", "create", name, *where) == 0
    limit_alice(server.bootstrap)
    before = kept_users(server.data, capsys)
    alice = key_of(frozenset({("user", "alice")}))
    assert before.keys() == {keys.scram_key("alice"), keys.scram_key("b/o=b"), alice}
    assert dafka("backup", "take", tmp_path / "target", "--data", server.data) == 0
    with restored(tmp_path, server) as new:
        assert kept_users(new.data, capsys) == before
