"""A standalone Spark cluster out of PySpark's own package: a master and workers as processes of this
machine."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import pyspark

from tests.peers.process import ServerProcess

HOME = Path(pyspark.__file__).parent
WORKER_CORES = 1
WORKER_MEMORY = "1g"


class _Part(ServerProcess):
    """The master, or a worker; `said` waits for a line of its log."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        # What a cluster's machines have is not what this process has.
        super().__init__(directory, {"SPARK_HOME": str(HOME), "SPARK_NO_DAEMONIZE": "1", **environment})

    def run(self, main: str, *arguments: str) -> None:
        name = f"org.apache.spark.deploy.{main}"
        self._spawn([str(HOME / "bin" / "spark-class"), name, "--host", "127.0.0.1", *arguments])

    def said(self, pattern: str) -> re.Match[str]:
        return self._wait_until(lambda: re.search(pattern, self.log))


class SparkCluster:
    """A context manager; `master` is what `--master` takes.

    environment: of the workers, e.g. a PATH without this Python.
    """

    def __init__(self, workers: int = 2, environment: Mapping[str, str] | None = None) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="spark-cluster-"))
        self._master = _Part(self._directory / "master", {})
        self.workers = [
            _Part(self._directory / f"worker-{n}", {"SPARK_LOCAL_IP": "127.0.0.1", **(environment or {})})
            for n in range(workers)
        ]
        self.master = ""

    def __enter__(self) -> Self:
        try:
            self._master.run("master.Master", "--port", "0", "--webui-port", "0")
            self.master = self._master.said(r"Starting Spark master at (spark://\S+)")[1]
            for worker in self.workers:
                sizes = ("--cores", str(WORKER_CORES), "--memory", WORKER_MEMORY)
                place = ("--work-dir", str(worker.directory / "work"), "--port", "0", "--webui-port", "0")
                worker.run("worker.Worker", *sizes, *place, self.master)
            for worker in self.workers:
                worker.said("Successfully registered with master")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        # A worker that is asked to ends its executors.
        for part in (*self.workers, self._master):
            if part.returncode is None and part._process is not None:
                part.terminate()
        shutil.rmtree(self._directory, ignore_errors=True)

    @property
    def executors(self) -> list[int]:
        """The process ids of executors of this cluster that run now."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    command = (entry / "cmdline").read_bytes()
                except OSError:
                    continue
                if b"CoarseGrainedExecutorBackend" in command and self._directory.name.encode() in (
                    os.fsencode((entry / "cwd").readlink())
                ):
                    found.append(int(entry.name))
        return found
