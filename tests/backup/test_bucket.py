"""Backups in a bucket of a real S3 server (versitygw, built from its source)."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.backup import scene
from tests.backup.scene import dafka
from tests.peers.cache import cached_folder
from tests.peers.process import ServerProcess
from tests.peers.requirements import unavailable
from tests.peers.standalone import Standalone

VERSITYGW = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"

BUILD_SECONDS = 1200

pytestmark = pytest.mark.long  # the server takes minutes to build, once

USER, PASSWORD = "backup-user", "backup-password"


class S3Server(ServerProcess):
    """A running versitygw, on files in its directory."""

    def __init__(self, directory: Path, program: Path) -> None:
        super().__init__(directory, {"ROOT_ACCESS_KEY": USER, "ROOT_SECRET_KEY": PASSWORD})
        self.files = directory / "files"
        self._program = program
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]

    def start(self) -> S3Server:
        (self.files / "backups").mkdir(parents=True, exist_ok=True)
        at = f"127.0.0.1:{self.port}"
        self._spawn([str(self._program), "--port", at, "posix", "--nometa", str(self.files)])
        self._wait_until(self._answers)
        return self

    def _answers(self) -> bool | None:
        with socket.socket() as connection:
            return True if connection.connect_ex(("127.0.0.1", self.port)) == 0 else None


def _build(go: str, folder: Path) -> None:
    environment = {**os.environ, "GOBIN": str(folder), "GOFLAGS": "-mod=mod"}
    subprocess.run([go, "install", VERSITYGW], check=True, timeout=BUILD_SECONDS, env=environment)


@pytest.fixture(scope="module")
def program() -> Path:
    go = shutil.which("go")
    if go is None:
        unavailable("go is not installed")
    return cached_folder("versitygw-1.8.0", partial(_build, go)) / "versitygw"


@pytest.fixture
def bucket(tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    server = S3Server(tmp_path / "s3", program)
    settings = {
        "AWS_ACCESS_KEY_ID": USER,
        "AWS_SECRET_ACCESS_KEY": PASSWORD,
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.port}",
        "AWS_ALLOW_HTTP": "true",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    try:
        server.start()
        yield "s3://backups/prod"
    finally:
        server.kill9()


def test_a_backup_in_a_bucket_is_taken_pruned_and_restored(
    tmp_path: Path, bucket: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with Standalone(tmp_path / "data", directory=tmp_path / "old") as old:
        at = old.bootstrap
        scene.create(at, "orders", 2, segment_bytes=scene.SEGMENT_BYTES)
        scene.produce(scene.producer(at), "orders", range(500))
        scene.commit(at, "g", "orders", (500,))
        assert dafka("backup", "take", bucket, "--data", old.data) == 0
        scene.produce(scene.producer(at), "orders", range(5), 1)
        before = scene.everything(at)
        capsys.readouterr()
        assert dafka("backup", "take", bucket, "--data", old.data, "--json") == 0
        told = json.loads(capsys.readouterr().out)
        assert 0 < told["copied_bytes"] < 100_000 < told["bytes"]
        assert dafka("backup", "verify", bucket, "--all") == 0
        assert dafka("backup", "prune", bucket, "--keep", "1") == 0
        assert dafka("backup", "verify", bucket, "--all") == 0
    assert dafka("restore", bucket, "--data", tmp_path / "new-data") == 0
    with Standalone(tmp_path / "new-data", directory=tmp_path / "new") as new:
        assert scene.everything(new.bootstrap) == before
        assert scene.committed(new.bootstrap, "g") == {("orders", 0): 500}
