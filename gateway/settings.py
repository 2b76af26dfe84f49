"""The settings of a process, with their units and defaults.

How each is written (flag, environment variable, configuration file) is in `gateway.commands.options`;
what it means to people in `docs/configuration.md`, which a test compares with the code. Limits that
nobody should have to set are constants beside the code that they bound, listed in `docs/limits.md`.
"""

from dataclasses import dataclass
from pathlib import Path

from gateway.listeners import DEFAULT_LISTENER_NAME, ListenerSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What can be set. Immutable: a change is a restart."""

    listen: tuple[ListenerSpec, ...] = (ListenerSpec(DEFAULT_LISTENER_NAME, "127.0.0.1", 9092),)
    """Where Kafka clients connect; at least one."""

    data: Path = Path("dafka-data")
    """The directory of all data, made if absent."""

    fsync: str = "always"
    """When the store forces records to disk: "always" (before it acknowledges), "interval" or "never"."""

    fsync_interval_ms: int = 1000
    """Milliseconds between two fsyncs when `fsync` is "interval"."""

    partitions: int = 1
    """Partitions of a topic that is created without a number of them; Kafka's `num.partitions`."""

    topics: tuple[tuple[str, int], ...] = ()
    """Topics (name, partitions) to create at the start if they are not there."""

    auto_create_topics: bool = True
    """Create a topic that a client asks for and allows to create; Kafka's `auto.create.topics.enable`."""

    relax_replication_factor: bool = False
    """Keep a replication factor above the number of stores instead of INVALID_REPLICATION_FACTOR."""

    tail_cache_bytes: int = 64 * 1024 * 1024
    """Bytes of the newest batches kept in memory, all partitions together. 64 MiB: a few seconds of a
    busy log, and an idle process stays below 100 MB."""

    metrics: ListenerSpec | None = None
    """Where to serve metrics and health over HTTP; None: nowhere."""

    mesh_listen: str | None = None
    """HOST:PORT as ZeroMQ binds it (port `*` picks one) for native Dafka peers; None: the mesh stays in
    the process."""

    rebuild_catalog: bool = False
    """Set the catalog aside and read it back from the store."""

    accept_loss: bool = False
    """Go on with what can be read where the data directory has lost something."""

    log_level: str = "info"
    """"debug", "info", "warning" or "error"."""

    log_format: str = "text"
    """"text" for people, "json" (one object a line) for machines."""
