"""A mesh with keys as it is run: `dafka keys`, processes with --mesh-keys, clients that notice nothing."""

from __future__ import annotations

import urllib.request
from contextlib import ExitStack
from pathlib import Path

import pytest

from dafka.cli import run
from mesh.keys.directory import MEMBERS, OWN, OWN_SECRET, read_own
from tests.clients.stored import create_replicated_topic, stored_records
from tests.mesh.keyed_processes import PATIENCE_SECONDS, issue, native
from tests.peers.mesh import GatewayProcess, MeshCluster, StoreProcess
from tests.peers.process import ServerEnded
from tests.peers.standalone import Standalone
from tests.peers.tower import TowerProcess

NODES = {"tower": "tower", "s1": "store", "s2": "store", "gateway": "gateway"}

pytestmark = pytest.mark.slow


def values(bootstrap: str) -> list[bytes | None]:
    return [record.value for _, record in stored_records(bootstrap, "orders", 0)]


def counter(page: str, name: str) -> float:
    """The figure of this name, on a page of metrics."""
    return float(next(line.split()[-1] for line in page.splitlines() if line.startswith(f"{name} ")))


def served(page: str) -> str:
    with urllib.request.urlopen(page, timeout=5) as answer:
        return str(answer.read().decode())


def test_kafka_and_native_clients_write_and_read(tmp_path: Path) -> None:
    from confluent_kafka import Producer

    keys = tmp_path / "keys"
    issue(keys, NODES | {"sensors": "producer", "screen": "reader"})
    mesh = MeshCluster(tmp_path, 2, ("--mesh-keys", str(keys / "gateway")))
    mesh.tower.arguments = ("--mesh-keys", str(keys / "tower"))
    for store in mesh.stores:
        store.arguments += ["--mesh-keys", str(keys / store.name)]
    with mesh:
        create_replicated_topic(mesh.bootstrap, "orders", 1, 2)
        producer = Producer({"bootstrap.servers": mesh.bootstrap, "acks": "all"})
        written = [b"order %d" % number for number in range(200)]
        for value in written:
            producer.produce("orders", value, partition=0)
        assert producer.flush(PATIENCE_SECONDS) == 0
        assert values(mesh.bootstrap) == written

        produced = native("produce", keys / "sensors", mesh.tower)
        assert produced.returncode == 0, produced.stderr
        consumed = native("consume", keys / "screen", mesh.tower, "--from-beginning", "--max-records=2")
        assert (consumed.returncode, consumed.stdout) == (0, b"one\ntwo\n"), consumed.stderr

        create_replicated_topic(mesh.bootstrap, "prices", 1, 2, **{"dafka.publish": "values"})
        for price in (b"7", b"9"):
            producer.produce("prices", price, partition=0)
        assert producer.flush(PATIENCE_SECONDS) == 0
        read = ("--from-beginning", "--max-records=2")
        consumed = native("consume", keys / "screen", mesh.tower, *read, subject="prices.values")
        assert (consumed.returncode, consumed.stdout) == (0, b"7\n9\n"), consumed.stderr

        logs = "".join(process.log for process in (mesh.tower, *mesh.stores, mesh.gateway))
        assert "dropped a message" not in logs
        assert "a tower tells of" not in logs
        secrets = [read_own(keys / name).secret for name in NODES]
        assert not any(secret in logs for secret in secrets)
        mesh.stop()


def test_a_plain_store_finds_nobody_on_a_mesh_with_keys(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    issue(keys, {"tower": "tower", "s1": "store"})
    with TowerProcess(
        tmp_path / "tower", "--mesh-keys", str(keys / "tower"), "--metrics", "127.0.0.1:0"
    ) as tower:
        stores = [
            StoreProcess(tmp_path / "s1", "s1", tower, "--mesh-keys", str(keys / "s1")),
            StoreProcess(tmp_path / "s2", "s2", tower),
        ]
        try:
            for store in stores:
                store.start()
            page = tower.log.split("metrics and health are on ")[1].split()[0]
            nodes = 0.0
            while not nodes:
                text = served(f"{page}/metrics")
                nodes = counter(text, "dafka_tower_nodes")
            assert nodes == 1
            text = served(f"{page}/metrics")
            assert counter(text, "dafka_mesh_known_keys") == 2
            assert counter(text, "dafka_mesh_stale_keys") == 0
            (keys / "tower" / MEMBERS / "broken.key").write_text("nothing")
            while counter(text, "dafka_mesh_stale_keys") == 0:
                text = served(f"{page}/metrics")
            assert counter(text, "dafka_mesh_stale_keys") == 1
        finally:
            for store in stores:
                store.kill9()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--mesh-listen", "0.0.0.0"], "or say --insecure-mesh where a network keeps everybody else away"),
        (["--mesh-keys", "{}/none"], "dafka keys init {}/none --name NAME --role ROLE"),
        (["--mesh-keys", "{}/tower"], "has the key of a tower, and this is a store"),
        (["--mesh-keys", "{}/wide"], "chmod 600 {}/wide/own.key_secret"),
        (["--mesh-keys", "{}/mixed"], "do not belong together"),
        (["--mesh-keys", "{}/other"], "--name s, and {}/other has the key of other"),
    ],
)
def test_what_a_store_refuses(tmp_path: Path, arguments: list[str], text: str) -> None:
    issue(tmp_path, {"tower": "tower", "wide": "store", "mixed": "store", "other": "store"})
    (tmp_path / "wide" / OWN_SECRET).chmod(0o640)
    secrets = [read_own(tmp_path / name).secret for name in ("tower", "mixed")]
    mixed = tmp_path / "mixed" / OWN_SECRET
    mixed.write_text(mixed.read_text().replace(secrets[1], secrets[0]))
    with TowerProcess(tmp_path / "t") as tower:
        given = [each.replace("{}", str(tmp_path)) for each in arguments]
        store = StoreProcess(tmp_path / "s", "s", tower, *given)
        with pytest.raises(ServerEnded):
            store.start()
        assert store.returncode == 2
        assert text.replace("{}", str(tmp_path)) in store.log
        assert not any(secret in store.log for secret in secrets)


def test_a_mesh_for_all_machines_without_keys_says_so_at_each_start(tmp_path: Path) -> None:
    with TowerProcess(tmp_path / "tower") as tower:
        open_to_all = ("--mesh-listen", "0.0.0.0", "--insecure-mesh")
        store = StoreProcess(tmp_path / "s1", "s1", tower, *open_to_all)
        gateway = GatewayProcess(tmp_path / "gateway", tower, 1, *open_to_all)
        try:
            store.launch()
            store.wait_for_log("--insecure-mesh: the mesh listens on 0.0.0.0 without keys")
            gateway.launch()
            gateway.wait_for_log("--insecure-mesh: the mesh listens on 0.0.0.0 without keys")
        finally:
            gateway.kill9()
            store.kill9()


def test_standalone_serves_with_a_key_for_its_mesh(tmp_path: Path) -> None:
    issue(tmp_path, {"alone": "store"})
    with Standalone(None, "--mesh-listen", "127.0.0.1", "--mesh-keys", str(tmp_path / "alone")) as server:
        create_replicated_topic(server.bootstrap, "orders", 1, 1)
        assert values(server.bootstrap) == []


def test_each_process_says_what_is_wrong_with_its_keys(tmp_path: Path) -> None:
    """The wrong one says it, and the next step, within ten seconds of its start."""
    keys = tmp_path / "keys"
    issue(keys, NODES | {"old-tower": "tower", "unknown": "store", "misled": "store", "alone": "store"})
    for name in ("tower", "s1"):
        assert run(["keys", "remove", str(keys / name), "unknown"]) == 0
    for folder, gone in (("misled", "tower"), ("alone", "tower"), ("alone", "old-tower"), ("s1", "gateway")):
        assert run(["keys", "remove", str(keys / folder), gone]) == 0
    closed = TowerProcess(tmp_path / "closed")
    with (
        TowerProcess(tmp_path / "keyed", "--mesh-keys", str(keys / "tower")) as keyed,
        TowerProcess(tmp_path / "plain") as plain,
        closed,
        ExitStack() as ended,
    ):
        closed.kill9()

        def store(name: str, tower: TowerProcess, *, has_keys: bool = True) -> StoreProcess:
            given = ("--mesh-keys", str(keys / name)) if has_keys else ()
            made = StoreProcess(tmp_path / name, name, tower, *given)
            made.launch()
            ended.callback(made.kill9)
            return made

        plain_store = store("plain-store", keyed, has_keys=False)
        waiting = store("waiting", closed, has_keys=False)
        s2, unknown, misled = store("s2", plain), store("unknown", keyed), store("misled", keyed)
        alone, s1 = store("alone", keyed), store("s1", keyed)
        gateway = GatewayProcess(tmp_path / "gateway", keyed, 1, "--mesh-keys", str(keys / "gateway"))
        gateway.launch()
        ended.callback(gateway.kill9)

        unreached = f"{keyed.address} is not reached for 8 s: "
        plain_store.wait_for_log(f"{unreached}it has keys, and this process has none: give this one --mesh")
        s2.wait_for_log(f"{plain.address} is not reached for 8 s: it has no keys, and this process has: give")
        plain.wait_for_log(", and has keys; this process has none. Give this one --mesh-keys DIR")
        own, another = keys / "unknown" / OWN, keys / "gateway" / OWN
        unknown.wait_for_log(f"{unreached}it does not know this process's key: there 'dafka keys add DIR own")
        assert str(own) in unknown.log
        refused = "refused the link of key {} at 127.0.0.1: it is no member here. 'dafka keys add "
        keyed.wait_for_log(refused.format(read_own(keys / "unknown").public))
        misled.wait_for_log(
            f"{unreached}it has another key than its certificate here: 'dafka keys add {keys}"
        )
        alone.wait_for_log(f"{unreached}no certificate of a tower is known here: 'dafka keys add {keys}")
        waiting.wait_for_log(f"{closed.address} is not reached for 8 s: nothing answers there")
        gateway.wait_for_log("no link to s1, a store, at tcp://127.0.0.1:")
        why = f"it does not know this process's key: there 'dafka keys add DIR own.key', with {another}"
        assert why in gateway.log
        public = read_own(keys / "gateway").public
        s1.wait_for_log(refused.format(public))
        s1.wait_for_log(f"a tower tells of a node with key {public} at tcp://127.0.0.1:")
        assert "is not reached" not in gateway.log + s1.log

        assert run(["keys", "add", str(keys / "tower"), str(own)]) == 0
        unknown.wait_for_log(f"the tower at {keyed.address} is reached")
