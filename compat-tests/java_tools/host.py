"""Kafka's command-line tools as a scenario calls them: all in one JVM, or one as a process of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from frameworks.checks import equal

TOOLS: Final = {
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-client-compatibility-test": "org.apache.kafka.tools.ClientCompatibilityTest",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-e2e-latency": "org.apache.kafka.tools.EndToEndLatency",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-replica-verification": "org.apache.kafka.tools.ReplicaVerificationTool",
    "kafka-streams-application-reset": "org.apache.kafka.tools.StreamsResetter",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "kafka-verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
}
"""The main class behind each script of Kafka's bin folder."""

WITHOUT_ADDRESS: Final = ("kafka-cluster", "kafka-e2e-latency", "kafka-replica-verification")
"""They take it elsewhere than in front: what calls them gives it."""


@dataclass(frozen=True)
class Said:
    """What a tool printed, and its exit status."""

    out: str
    err: str
    status: int

    @property
    def lines(self) -> list[str]:
        """Standard output without empty lines."""
        return [line for line in self.out.splitlines() if line.strip()]


class Tools:
    """Runs tools against one server, in one JVM. A context manager.

    Raises AssertionError with what a tool said, when it does not end as it should.
    """

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self.bootstrap = bootstrap
        self.folder = folder
        """For the files that tools read."""
        self.brokers = {str(number): one for number, one in enumerate(bootstrap.split(","), start=1)}
        """Addresses by id: those of a cluster are told in the order of their ids."""
        self._host = subprocess.Popen(
            _java("ToolHost"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )

    @property
    def several(self) -> bool:
        """Several brokers: then others, the stores, are what Replicas shows."""
        return len(self.brokers) > 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._host.kill()
        self._host.communicate()

    def run(self, tool: str, *arguments: str, stdin: str = "", status: int = 0) -> Said:
        """Run `tool` (a script's name) to its end, which must have this exit status."""
        request = {"main": TOOLS[tool], "arguments": [*self._server(tool), *arguments], "stdin": stdin}
        assert self._host.stdin is not None
        assert self._host.stdout is not None
        self._host.stdin.write(json.dumps(request) + "\n")
        self._host.stdin.flush()
        said = Said(**json.loads(self._host.stdout.readline()))
        assert said.status == status, f"{tool} {arguments} ended with {said.status}:\n{said.out}\n{said.err}"
        return said

    def refused(self, tool: str, *arguments: str, words: str, status: int = 1) -> None:
        """Run it; it must end with this status, and say these words (a regular expression)."""
        said = self.run(tool, *arguments, status=status)
        assert re.search(words, said.out + said.err), f"{tool} {arguments} does not say {words}: {said}"

    def apart(self, tool: str, *arguments: str) -> Said:
        """It as a process of its own, to its end: for a tool whose hooks are the JVM's own."""
        done = subprocess.run(
            [*_java(TOOLS[tool]), *self._server(tool), *arguments],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, encoding="utf-8", check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{tool} {arguments} ended with {done.returncode}: {done.stderr}"
        return Said(done.stdout, done.stderr, done.returncode)

    @contextmanager
    def beside(self, tool: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """It as a process of its own, for as long as the context lasts; its output can be read by lines."""
        command = [*_java(TOOLS[tool]), *self._server(tool), *arguments]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )
        try:
            yield process
        finally:
            process.terminate()
            process.communicate()

    def topic(self, partitions: int = 1, *configs: str) -> str:
        """A new topic, made by kafka-topics with `NAME=VALUE` configs."""
        name = f"tools-{uuid.uuid4().hex[:12]}"
        more = [part for config in configs for part in ("--config", config)]
        made = self.run("kafka-topics", "--create", "--topic", name, "--partitions", str(partitions), *more)
        equal(made.lines, [f"Created topic {name}."], "kafka-topics --create")
        return name

    def produce(self, topic: str, *lines: str) -> None:
        """`KEY:VALUE` each, by kafka-console-producer; the key chooses the partition."""
        how = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
        self.run("kafka-console-producer", "--topic", topic, *how, stdin="".join(f"{one}\n" for one in lines))

    def file(self, name: str, content: object) -> str:
        """The path of a new file with this text, or this as JSON."""
        path = self.folder / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(path)

    def _server(self, tool: str) -> list[str]:
        return [] if tool in WITHOUT_ADDRESS else ["--bootstrap-server", self.bootstrap]


def _java(main: str) -> list[str]:
    home = Path(os.environ["COMPAT_HOME"])
    options = (
        "-Xmx256m",
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
    )
    return ["java", *options, "-cp", f"{home}/classes:{home}/jars/*", main]
