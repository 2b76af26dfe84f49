"""Apache Kafka itself: one KRaft node, broker and controller in one, on free ports of 127.0.0.1."""

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from tests.peers.java import SHORT_LIVED, java_command, java_tool
from tests.peers.maven import KAFKA_VERSION, kafka_jars
from tests.peers.ports import free_ports
from tests.peers.probe import broker_count
from tests.peers.process import ServerEnded, ServerProcess

# Kafka's own start script gives these: for those who measure it.
KAFKAS_JVM_OPTIONS = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
)
# A free port may be taken by another process before Kafka binds it.
START_ATTEMPTS = 3


class ApacheKafka(ServerProcess):
    """A context manager around a running broker; `bootstrap` is its HOST:PORT.

    Args:
        directory: where data and logs go; a temporary one that goes with it by default.
        flush_every_message: fsync before each acknowledgement (`flush.messages=1`), as `--fsync always` does.
            Kafka's default, False, acknowledges from the page cache: the peer of `--fsync never`.
        properties: more server.properties.
        listeners: more listeners on ports of their own, name -> security protocol; see `address`. What they
        need
            besides goes into `properties` as `listener.name.NAME...`.
        heap: of the JVM. Kafka's own default is 1g; tests need less.
        jvm_options: more for the JVM. By default it compiles little, as suits a few requests.
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        version: str = KAFKA_VERSION,
        flush_every_message: bool = False,
        properties: Mapping[str, str] | None = None,
        listeners: Mapping[str, str] | None = None,
        heap: str = "512m",
        jvm_options: Sequence[str] = SHORT_LIVED,
    ) -> None:
        self._temporary = directory is None
        super().__init__(directory or Path(tempfile.mkdtemp(prefix="apache-kafka-")))
        self.jars = kafka_jars(version)
        self._jvm_options = (f"-Xms{heap}", *jvm_options)
        self._heap = heap
        self._extra = {"log.flush.interval.messages": "1"} if flush_every_message else {}
        self._extra |= properties or {}
        self._listeners = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", **(listeners or {})}
        self._ports = [0] * len(self._listeners)

    @property
    def port(self) -> int:
        return self._ports[0]

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def address(self, listener: str) -> str:
        """HOST:PORT of a listener."""
        return f"127.0.0.1:{self._ports[list(self._listeners).index(listener)]}"

    def __enter__(self) -> Self:
        for attempt in range(1, START_ATTEMPTS + 1):
            self._ports = free_ports(len(self._listeners))
            self._format()
            try:
                return self.start()
            except ServerEnded as failure:
                if "Address already in use" not in str(failure) or attempt == START_ATTEMPTS:
                    self.__exit__()
                    raise
            except BaseException:
                self.__exit__()
                raise
        raise AssertionError("unreachable")

    def start(self) -> Self:
        """Start it (again) on the same ports and data, and wait until it names itself in Metadata."""
        self._spawn([
            *java_command("kafka.Kafka", self.jars, heap=self._heap, options=self._jvm_options),
            str(self._properties_file),
        ])  # fmt: skip
        self._wait_until(lambda: broker_count("127.0.0.1", self.port) or None)
        return self

    def restart(self) -> Self:
        """SIGKILL if it still runs, and start it again on the same ports and data."""
        self.kill9()
        return self.start()

    def __exit__(self, *_exc: object) -> None:
        self.kill9()
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def _properties_file(self) -> Path:
        return self.directory / "server.properties"

    def _format(self) -> None:
        data = self.directory / "data"
        shutil.rmtree(data, ignore_errors=True)
        text = "".join(f"{name}={value}\n" for name, value in self._properties(data).items())
        self._properties_file.write_text(text)
        cluster_id = "dGVzdHNwZWVyc2FwYWNoZQ"
        java_tool(
            "kafka.tools.StorageTool",
            "format",
            "-t",
            cluster_id,
            "-c",
            str(self._properties_file),
            jars=self.jars,
        )

    def _properties(self, data: Path) -> dict[str, str]:
        served = [f"{name}://{self.address(name)}" for name in self._listeners]
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{self.address('CONTROLLER')}",
            "listeners": ",".join(served),
            "advertised.listeners": ",".join(one for one in served if not one.startswith("CONTROLLER")),
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": ",".join(":".join(one) for one in self._listeners.items()),
            "log.dirs": str(data),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "2",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **self._extra,
        }
