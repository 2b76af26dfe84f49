"""Distributed workers of one Connect cluster, and its REST interface."""

from __future__ import annotations

import json
import random
import socket
import time
import urllib.error
import urllib.request
from typing import Any

from frameworks.checks import SECONDS, until
from frameworks.java import JavaProcess
from frameworks.main import Stage

# Below the ports that systems hand out by themselves: a worker that is started again finds its port free.
PORTS = range(20_000, 30_000)
CONFLICT, NOT_FOUND = 409, 404
AGAIN_SECONDS = 0.2

WORKER = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    # As in the file that Kafka ships for a single broker.
    "config.storage.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    # Shorter than the defaults, so that a test sees what users see after a while.
    "offset.flush.interval.ms": "1000",
    "scheduled.rebalance.max.delay.ms": "0",
    # A retry after an answer that was lost writes nothing twice.
    "producer.enable.idempotence": "true",
    # Its manifests name the connectors: reading every class of the class path takes seconds.
    "plugin.discovery": "service_load",
}

# A worker that was killed is missed soon.
SHORT_SESSIONS = {
    f"{prefix}{name}": value
    for prefix in ("", "consumer.")
    for name, value in (("session.timeout.ms", "6000"), ("heartbeat.interval.ms", "1000"))
}
# A sink's consumer that could not say goodbye, on a busy machine, is missed sooner than after Connect's 45 s.
PROMPT_SINK = {"consumer.session.timeout.ms": "15000"}
# A worker that hears nothing of the server for a heartbeat's interval stops its tasks by itself.
PATIENT = {"session.timeout.ms": "180000", "heartbeat.interval.ms": "60000"}
# Longer than a group is away while another gateway takes it. Of two workers the first one hears with its next
# heartbeat that the second one has come.
OVER_KILLS = {"session.timeout.ms": "120000", "heartbeat.interval.ms": "20000"}
READY_SECONDS = 180.0
# Connect hands what stands behind the prefix to the topics it makes.
COMPACTED_SOON = {
    f"{what}.storage.{name}": value
    for what in ("config", "offset", "status")
    for name, value in (("segment.ms", "1000"), ("min.cleanable.dirty.ratio", "0.01"))
}


class Cluster:
    """`workers` are not started yet. `more` are settings of theirs."""

    def __init__(self, stage: Stage, workers: int, **more: str) -> None:
        self.settings = {**WORKER, **more}
        self.group = stage.name("connect")
        self.internal = {what: f"{self.group}-{what}" for what in ("config", "offset", "status")}
        self.server = stage.server
        self._stage = stage
        self.workers = [self._worker(f"worker-{n}") for n in range(workers)]

    def start(self) -> None:
        for worker in self.workers:
            worker.process.start()
        for worker in self.workers:
            worker.await_ready()

    def worker_of(self, connector: str) -> Worker:
        """The one that runs its only task."""
        self.await_state(connector, "RUNNING")
        (task,) = self.ask("GET", f"/connectors/{connector}/status")["tasks"]
        return next(worker for worker in self.workers if worker.address == task["worker_id"])

    def other(self, worker: Worker) -> Worker:
        (other,) = (one for one in self.workers if one is not worker)
        return other

    def create(self, name: str, config: dict[str, str]) -> None:
        """Its task runs once this returns."""
        self.ask("PUT", f"/connectors/{name}/config", config)
        self.await_state(name, "RUNNING")

    def await_state(self, name: str, state: str) -> None:
        """Of the connector and its one task; a stopped connector has none."""
        tasks = [] if state == "STOPPED" else [state]
        until(lambda: self._states(name) == (state, tasks), f"{name} to be {state}")

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Of whichever worker runs; again while the cluster rebalances."""
        deadline = time.monotonic() + SECONDS
        while True:
            worker = next(one for one in self.workers if one.process.runs)
            try:
                return worker.ask(method, path, body)
            except urllib.error.HTTPError as error:
                words = error.read().decode(errors="replace")
                if error.code != CONFLICT or time.monotonic() > deadline:
                    raise AssertionError(f"{method} {path}: {error.code} {words}") from error
            time.sleep(AGAIN_SECONDS)

    def _states(self, name: str) -> tuple[str, list[str]] | None:
        try:
            status = self.ask("GET", f"/connectors/{name}/status")
        except (AssertionError, OSError):
            return None  # not there yet, or its worker is going
        return status["connector"]["state"], [task["state"] for task in status["tasks"]]

    def _worker(self, name: str) -> Worker:
        address = f"127.0.0.1:{free_port()}"
        storage = {f"{what}.storage.topic": topic for what, topic in self.internal.items()}
        settings = {
            "bootstrap.servers": self._stage.bootstrap,
            "group.id": self.group,
            "listeners": f"http://{address}",
            **storage,
            **self.settings,
        }
        path = self._stage.directory / f"{name}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        main_class = "org.apache.kafka.connect.cli.ConnectDistributed"
        return Worker(address, self._stage.java(name, main_class, str(path)))


class Worker:
    """`address` is that of its REST interface, and its name in the cluster."""

    def __init__(self, address: str, process: JavaProcess) -> None:
        self.address = address
        self.process = process

    def await_ready(self) -> None:
        """It has joined the group and read the cluster's topics: before, it lists nothing."""
        until(self._answers, f"{self.process.name} to be ready", READY_SECONDS)

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Raises urllib.error.HTTPError for a status that is an error."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        url = f"http://{self.address}{path}"
        request = urllib.request.Request(url, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def _answers(self) -> bool:
        assert self.process.runs, f"{self.process.name} has ended"
        try:
            return bool(self.ask("GET", "/health")["status"] == "healthy")
        except OSError:
            return False  # nobody listens, or 503 while it starts


def free_port() -> int:
    """One that nobody listens on."""
    while True:
        port = random.choice(PORTS)
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
