"""The settings of a process, with their units and defaults.

How each is written (flag, environment variable, configuration file) is in `gateway.commands.options`;
what it means to people in `docs/configuration.md`, which a test compares with the code. Limits that
nobody should have to set are constants beside the code that they bound, listed in `docs/limits.md`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

from gateway.listeners import DEFAULT_LISTENER_NAME, ListenerSpec

TOWER_PORT_IN = 5556
"""Where nodes publish their beacons to a tower, by default; as the C tower's."""

TOWER_PORT_OUT = 5557
"""Where nodes hear a tower, by default."""


class TowerAddress(NamedTuple):
    """A tower as nodes reach it."""

    host: str
    port_in: int
    port_out: int


class MeshListen(NamedTuple):
    """Where a node's publisher binds: the first free port from `first_port` to `last_port`; 0: any."""

    host: str
    first_port: int = 0
    last_port: int = 0


LOCAL_MESH = MeshListen("127.0.0.1")
LOCAL_TOWER = TowerAddress("127.0.0.1", TOWER_PORT_IN, TOWER_PORT_OUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What can be set of `dafka standalone`. Immutable: a change is a restart."""

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

    retention_check_interval_ms: int = 300_000
    """Milliseconds between two looks for what retention drops; Kafka's `log.retention.check.interval.ms`."""

    compaction_backoff_ms: int = 15_000
    """Milliseconds between two looks for something to compact, when there was nothing; Kafka's
    `log.cleaner.backoff.ms`."""

    group_initial_rebalance_delay_ms: int = 3000
    """Milliseconds that the first rebalance of an empty group waits for more members; Kafka's
    `group.initial.rebalance.delay.ms`."""

    group_min_session_timeout_ms: int = 6000
    """Milliseconds: the shortest session timeout that a member may ask for; Kafka's
    `group.min.session.timeout.ms`."""

    group_max_session_timeout_ms: int = 30 * 60 * 1000
    """Milliseconds: the longest one; Kafka's `group.max.session.timeout.ms`."""

    group_max_size: int = 2**31 - 1
    """Members of one group; Kafka's `group.max.size`."""

    offsets_retention_minutes: int = 7 * 24 * 60
    """Minutes that a committed offset is kept when nobody needs it any more; Kafka's
    `offsets.retention.minutes`."""

    fetch_session_slots: int = 1000
    """Fetch sessions that are kept; Kafka's `max.incremental.fetch.session.cache.slots`."""

    tail_cache_bytes: int = 64 * 1024 * 1024
    """Bytes of the newest batches kept in memory, all partitions together. 64 MiB: a few seconds of a
    busy log, and an idle process stays below 100 MB."""

    metrics: ListenerSpec | None = None
    """Where to serve metrics and health over HTTP; None: nowhere."""

    mesh_listen: MeshListen | None = None
    """Where native Dafka peers reach the store; None: the mesh stays in the process."""

    rebuild_catalog: bool = False
    """Set the catalog aside and read it back from the store."""

    accept_loss: bool = False
    """Go on with what can be read where the data directory has lost something."""

    log_level: str = "info"
    """"debug", "info", "warning" or "error"."""

    log_format: str = "text"
    """"text" for people, "json" (one object a line) for machines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """What can be set of `dafka gateway`. What `Settings` has too means the same."""

    listen: tuple[ListenerSpec, ...] = (ListenerSpec(DEFAULT_LISTENER_NAME, "127.0.0.1", 9092),)
    data: Path = Path("dafka-gateway-data")

    tower: tuple[TowerAddress, ...] = (LOCAL_TOWER,)
    """The towers that introduce it to the stores; at least one."""

    stores: int = 1
    """Stores that are waited for, and become members, at the very first start."""

    mesh_listen: MeshListen = LOCAL_MESH
    """Where the other nodes of the mesh reach this one."""

    mesh_advertise: str = ""
    """The host that they are told; empty: the address that the tower sees."""

    partitions: int = 1
    topics: tuple[tuple[str, int], ...] = ()
    auto_create_topics: bool = True
    relax_replication_factor: bool = False
    retention_check_interval_ms: int = 300_000
    compaction_backoff_ms: int = 15_000
    group_initial_rebalance_delay_ms: int = 3000
    group_min_session_timeout_ms: int = 6000
    group_max_session_timeout_ms: int = 30 * 60 * 1000
    group_max_size: int = 2**31 - 1
    offsets_retention_minutes: int = 7 * 24 * 60
    fetch_session_slots: int = 1000
    tail_cache_bytes: int = 64 * 1024 * 1024
    metrics: ListenerSpec | None = None
    rebuild_catalog: bool = False
    accept_loss: bool = False
    log_level: str = "info"
    log_format: str = "text"


LogSettings: TypeAlias = Settings | GatewaySettings
"""Either process that serves Kafka."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshStoreSettings:
    """What can be set of `dafka store`. What `Settings` and `GatewaySettings` have too means the same."""

    data: Path = Path("dafka-store-data")

    name: str = ""
    """What people call it; empty: its incarnation's first characters."""

    tower: tuple[TowerAddress, ...] = (LOCAL_TOWER,)
    mesh_listen: MeshListen = LOCAL_MESH
    mesh_advertise: str = ""
    fsync: str = "always"
    fsync_interval_ms: int = 1000
    catch_up_bytes_per_second: int = 1024**3
    """Bytes of records a second that are fetched from other stores at most."""

    scrub_bytes_per_second: int = 4 * 1024**2
    scrub_interval_seconds: int = 3600
    """How fast closed segments are read again and checked, and how long it rests between two passes."""

    native_bytes: int = 10 * 1024**3
    native_seconds: int = 7 * 24 * 3600
    """Quota and retention of native records, which are no Kafka topic's."""

    metrics: ListenerSpec | None = None
    accept_loss: bool = False
    log_level: str = "info"
    log_format: str = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class TowerSettings:
    """What can be set of `dafka tower`."""

    listen: str = "127.0.0.1"
    """The host that it binds."""

    port_in: int = TOWER_PORT_IN
    port_out: int = TOWER_PORT_OUT
    """Ports; 0 picks a free one."""

    metrics: ListenerSpec | None = None
    log_level: str = "info"
    log_format: str = "text"
