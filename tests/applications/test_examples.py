"""The programs in examples/applications, as somebody runs them who copied one.

The Spark one has its test in tests/pipelines/test_examples.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.applications.test_ephemeral import SECONDS, await_that
from tests.clients.stored import stored_batches
from tests.differential.batches import records_of
from tests.docs.constants_page import ROOT
from tests.peers.mesh import StoreProcess
from tests.peers.standalone import Standalone
from tests.peers.tower import TowerProcess

FOLDER = ROOT / "examples" / "applications"
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "pytest-dafka")])}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with Standalone(None, "--fsync", "never", directory=tmp_path_factory.mktemp("examples")) as server:
        yield server


def run(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=FOLDER,
        env={name: value for name, value in ENVIRONMENT.items() if not name.startswith("DAFKA_")},
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS * 2,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_all_are_there() -> None:
    assert sorted(file.stem for file in FOLDER.glob("*.py")) == [
        "change_events",
        "native_publisher",
        "orders",
        "spark_archive",
        "test_orders",
    ]


def test_the_service_with_a_consumer(server: Standalone, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("w") as out:
        service = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", "--app-dir", str(FOLDER), "--port", "0", "orders:app"],
            env={**ENVIRONMENT, "KAFKA_BOOTSTRAP": server.bootstrap},
            stdout=out,
            stderr=out,
        )
    try:
        await_that(lambda: service.poll() is not None or "running on http" in log.read_text())
        assert service.poll() is None, log.read_text()
        url = log.read_text().partition("running on ")[2].split()[0]

        def post(order: dict[str, Any]) -> tuple[int, dict[str, Any]]:
            request = urllib.request.Request(
                f"{url}/orders", json.dumps(order).encode(), {"content-type": "application/json"}
            )
            with urllib.request.urlopen(request, timeout=SECONDS) as answer:
                return answer.status, json.load(answer)

        assert [post({"customer": "ada", "cents": n}) for n in (100, 20)] == [
            (201, {"number": 0}),
            (201, {"number": 1}),
        ]
        with pytest.raises(urllib.error.HTTPError, match="422"):
            post({"customer": "ada", "cents": -1})

        def total() -> int:
            with urllib.request.urlopen(f"{url}/totals/ada", timeout=SECONDS) as answer:
                return int(json.load(answer)["cents"])

        await_that(lambda: total() == 120)
        stored = [one for batch in stored_batches(server.bootstrap, "orders") for _, one in records_of(batch)]
        assert [(one.key, json.loads(one.value or b"")["cents"]) for one in stored] == [
            (b"ada", 100),
            (b"ada", 20),
        ]
        service.terminate()
        service.wait(SECONDS)
        assert "Application shutdown complete" in log.read_text()
    finally:
        service.kill()
        service.wait()


def test_the_tests_of_the_service() -> None:
    plugins = ("-p", "pytest_dafka.plugin", "-p", "no:cacheprovider")
    shown = run("-m", "pytest", "-q", *plugins, "-n", "2", "--rootdir", str(FOLDER), "test_orders.py")
    assert "5 passed" in shown


def test_change_events(server: Standalone) -> None:
    shown = run("change_events.py", "--bootstrap", server.bootstrap)
    assert "records:  10 applied: 10" in shown
    assert "found:    {1: 'Basel', 2: 'Thun'}" in shown


def test_the_native_publisher(tmp_path: Path) -> None:
    with TowerProcess(tmp_path / "tower") as tower, ExitStack() as stack:
        store = StoreProcess(tmp_path / "store", "one", tower)
        stack.callback(store.kill9)
        store.start()
        where = f"{tower.address.host}:{tower.address.port_in}:{tower.address.port_out}"
        shown = run("native_publisher.py", "readings", "--count", "3", "--tower", where)
        assert shown.endswith("a store has acknowledged everything\n")
        kept = run(
            "-m", "dafka", "consume", "readings", "--from-beginning", "--max-records", "3", "--tower", where
        )
        assert [json.loads(line)["celsius"] for line in kept.splitlines()] == [20, 20.1, 20.2]


def test_the_native_publisher_of_pyzmq_alone(tmp_path: Path) -> None:
    with TowerProcess(tmp_path / "tower") as tower, ExitStack() as stack:
        where = f"{tower.address.host}:{tower.address.port_in}:{tower.address.port_out}"
        store = StoreProcess(tmp_path / "store", "one", tower)
        stack.callback(store.kill9)
        store.start()
        shown = run("../mesh/native_publisher.py", "heat", "20.5", "", "21.0", "--tower", where)
        assert shown.startswith("a store has 3 records of d")
        consume = ("-m", "dafka", "consume", "heat", "--from-beginning", "--max-records", "3")
        assert run(*consume, "--tower", where) == "20.5\n\n21.0\n"
