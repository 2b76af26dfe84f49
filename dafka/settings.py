"""The settings of a process, with their units and defaults.

How each is written (flag, environment variable, configuration file) is in `dafka.commands.options`;
what it means to people in `docs/configuration.md`, which a test compares with the code. Limits that
nobody should have to set are constants beside the code that they bound, listed in `docs/constants.md`.
"""

from dataclasses import dataclass
from pathlib import Path

from gateway.common.settings import LogSettings
from gateway.front.listeners import DEFAULT_LISTENER_NAME, ListenerSpec
from mesh.protocol.endpoints import MeshListen, TowerAddress

TOWER_PORT_IN = 5556
"""Where nodes publish their beacons to a tower, by default; as the C tower's."""

TOWER_PORT_OUT = 5557
"""Where nodes hear a tower, by default."""


LOCAL_MESH = MeshListen("127.0.0.1")
LOCAL_TOWER = TowerAddress("127.0.0.1", TOWER_PORT_IN, TOWER_PORT_OUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingSettings(LogSettings):
    """What the two processes that serve Kafka have in common."""

    listen: tuple[ListenerSpec, ...] = (ListenerSpec(DEFAULT_LISTENER_NAME, "127.0.0.1", 9092),)
    """Where Kafka clients connect; at least one."""

    topics: tuple[tuple[str, int], ...] = ()
    """Topics (name, partitions) to create at the start if they are not there."""

    metrics: ListenerSpec | None = None
    """Where to serve metrics and health over HTTP; None: nowhere."""

    rebuild_catalog: bool = False
    """Set the catalog aside and read it back from the store."""

    log_level: str = "info"
    """"debug", "info", "warning" or "error"."""

    log_format: str = "text"
    """"text" for people, "json" (one object a line) for machines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(ServingSettings):
    """What can be set of `dafka standalone`."""

    data: Path = Path("dafka-data")
    """The directory of all data, made if absent."""

    fsync: str = "always"
    """When the store forces records to disk: "always" (before it acknowledges), "interval" or "never"."""

    fsync_interval_ms: int = 1000
    """Milliseconds between two fsyncs when `fsync` is "interval"."""

    mesh_listen: MeshListen | None = None
    """Where native Dafka peers reach the store; None: the mesh stays in the process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings(ServingSettings):
    """What can be set of `dafka gateway`."""

    data: Path = Path("dafka-gateway-data")

    tower: tuple[TowerAddress, ...] = (LOCAL_TOWER,)
    """The towers that introduce it to the stores; at least one."""

    stores: int = 1
    """Stores that are waited for, and become members, at the very first start."""

    mesh_listen: MeshListen = LOCAL_MESH
    """Where the other nodes of the mesh reach this one."""

    mesh_advertise: str = ""
    """The host that they are told; empty: the address that the tower sees."""


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
