"""The settings of each process, with their units and defaults: nothing else says what a default is.

`--help` and the tables of `docs/configuration.md` show what stands here. How a setting is written (flag,
environment variable, configuration file) is in `dafka.commands.options`; what it means to people in
`docs/configuration.md`. Limits that nobody should have to set are constants beside the code that they bound,
listed in `docs/constants.md`.

A setting that several processes have is in a class of its own below, and means the same in all of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.common.settings import LogSettings
from gateway.front.listeners import DEFAULT_LISTENER_NAME, ListenerSpec
from mesh.protocol.endpoints import MeshListen, TowerAddress

TOWER_PORT_IN = 5556
"""Where nodes publish their beacons to a tower, by default; as the C tower's."""

TOWER_PORT_OUT = 5557
"""Where nodes hear a tower, by default."""

LOCAL_MESH = MeshListen("127.0.0.1")
LOCAL_TOWER = TowerAddress("127.0.0.1", TOWER_PORT_IN, TOWER_PORT_OUT)


# what processes share --------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class LoggingSettings:
    """What can be set of every process."""

    log_level: str = "info"
    """"debug", "info", "warning" or "error"."""

    log_format: str = "text"
    """"text" for people, "json" (one object a line) for machines."""


@dataclass(frozen=True, kw_only=True)
class ServerSettings(LoggingSettings):
    """What can be set of every process that serves."""

    metrics: ListenerSpec | None = None
    """Where to serve metrics and health over HTTP; None: nowhere."""

    metrics_token_file: Path | None = None
    """The file with the token that who asks for metrics has to show; None: nobody has to."""

    metrics_tls: bool = False
    """Serve them over TLS."""

    tls_certificate: Path | None = None
    """File with the certificate, and its chain, of what is served over TLS: PEM, or a PKCS#12 store; None:
    there is none."""

    tls_key: Path | None = None
    """PEM file with its private key; None: that is in the same file."""

    tls_certificate_password_file: Path | None = None
    """The file with the password of `tls_certificate`, a PKCS#12 store, or of `tls_key`; None: there is none.
    """


@dataclass(frozen=True, kw_only=True)
class MeshSettings:
    """What can be set of every process that is on a mesh: who else may be there."""

    mesh_keys: Path | None = None
    """Directory of this process's key and of the certificates of the others; None: nobody has a key."""

    insecure_mesh: bool = False
    """Without keys other machines may reach the mesh all the same."""


@dataclass(frozen=True, kw_only=True)
class NodeSettings(MeshSettings):
    """What can be set of every node that is found through a tower."""

    tower: tuple[TowerAddress, ...] = (LOCAL_TOWER,)
    """The towers that introduce it to the other nodes; at least one."""

    mesh_listen: MeshListen = LOCAL_MESH
    """Where the other nodes of the mesh reach this one."""

    mesh_advertise: str = ""
    """The host that they are told; empty: the address that the tower sees."""


@dataclass(frozen=True, kw_only=True)
class FsyncSettings:
    """What can be set of every process that has a store."""

    fsync: str = "always"
    """When the store forces records to disk: "always" (before it acknowledges), "interval" or "never"."""

    fsync_interval_ms: int = 1000
    """Milliseconds between two fsyncs when `fsync` is "interval"."""


@dataclass(frozen=True, kw_only=True)
class ServingSettings(ServerSettings, LogSettings):
    """What can be set of every process that serves Kafka."""

    listen: tuple[ListenerSpec, ...] = (ListenerSpec(DEFAULT_LISTENER_NAME, "127.0.0.1", 9092),)
    """Where Kafka clients connect; at least one."""

    tls_client_ca: Path | None = None
    """File with those who sign the certificates of clients: PEM, or a PKCS#12 store."""

    tls_client_auth: str = "none"
    """Whether clients have to show one: "none", "requested" or "required"."""

    tls_principal_rules: str = "DEFAULT"
    """What the names of their subjects become, as `gateway.front.principal_rules` reads it."""

    tls_gateway_ca: Path | None = None
    """File with those who sign the certificates of other gateways, as `tls_client_ca`; None: whom the system
    trusts."""

    tls_ca_password_file: Path | None = None
    """The file with the password of `tls_client_ca` and `tls_gateway_ca` where these are PKCS#12 stores."""

    sasl_enabled_mechanism: tuple[str, ...] = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN")
    """By which users of the cluster may show who they are; Kafka's `sasl.enabled.mechanisms`. OAUTHBEARER is
    offered besides where `oauth_keys` says whose tokens count."""

    oauth_keys: str = ""
    """The public keys of who signs tokens (a JWKS): a file or a URL; Kafka's
    `sasl.oauthbearer.jwks.endpoint.url`. "": tokens do not count."""

    oauth_audience: tuple[str, ...] = ()
    """Of these a token has to name one; without them it must name none. Kafka's
    `sasl.oauthbearer.expected.audience`."""

    oauth_issuer: str = ""
    """Who has to have signed it; "": anybody whose key it is. Kafka's `sasl.oauthbearer.expected.issuer`."""

    oauth_subject_claim: str = "sub"
    """Which claim names the user; Kafka's `sasl.oauthbearer.sub.claim.name`."""

    oauth_clock_skew_seconds: int = 30
    """How far clocks may differ; Kafka's `sasl.oauthbearer.clock.skew.seconds`."""

    delegation_token_secret_file: Path | None = None
    """File with the secret that delegation tokens are made with; None: there are none."""

    audit: str = ""
    """Where lines go of what was denied and of administration: a file, or "-", standard output; "": nowhere.
    """

    audit_required: bool = False
    """Change nothing while those lines cannot be written."""

    http: ListenerSpec | None = None
    """Where to serve the status page and its JSON over HTTP; None: nowhere."""

    http_token_file: Path | None = None
    """The file with the token that who asks there has to show; None: nobody has to."""

    http_tls: bool = False
    """Serve it over TLS."""

    http_no_values: bool = False
    """Show of records' keys, values and headers only how large they are."""

    http_data: bool = False
    """Let programs append and read records over HTTP."""

    metrics_by_partition: bool = False
    """Show the lag of groups by partition, too."""

    topics: tuple[tuple[str, int], ...] = ()
    """Topics (name, partitions) to create at the start if they are not there."""

    rebuild_catalog: bool = False
    """Set the catalog aside and read it back from the stores."""


# the processes ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Settings(ServingSettings, FsyncSettings, MeshSettings):
    """What can be set of `dafka standalone`."""

    data: Path = Path("dafka-data")
    """The directory of all data, made if absent."""

    mesh_listen: MeshListen | None = None
    """Where native Dafka peers reach the store; None: the mesh stays in the process."""

    ephemeral: bool = False
    """For tests: the data goes with the process, and the process with the one that started it. Some other
    defaults are those of `EPHEMERAL` then."""

    ends_with: int | None = None
    """The id of a process: the server ends when that one does; None: with `ephemeral` its parent."""

    port_file: Path | None = None
    """Where HOST:PORT is written when clients can connect; None: nowhere."""

    gateways: int = 0
    """Gateways that are started, with stores and a tower, as processes of their own; 0: one process does it
    all."""

    stores: int = 0
    """Stores beside several gateways; 0: as many as gateways."""

    chaos: Path | None = None
    """The Unix socket through which faults are ordered; None: there are none."""


EPHEMERAL: Mapping[str, Any] = {
    "fsync": "never",
    "group_initial_rebalance_delay_ms": 0,
    "group_min_session_timeout_ms": 0,
}
"""The defaults that differ with `ephemeral`: nothing has to last, and nobody wants to wait."""


@dataclass(frozen=True, kw_only=True)
class CatalogSettings:
    """Where a gateway's catalog is, and who it is there."""

    catalog: str = "sqlite"
    """"sqlite": in the data directory; or an etcd, as `gateway.catalog.etcd.address.EtcdAddress` reads it."""

    gateway_id: int = 1
    """This gateway's number among those that share the catalog: its node id for Kafka clients."""

    catalog_ca: Path | None = None
    catalog_cert: Path | None = None
    catalog_key: Path | None = None
    """Files in PEM: what etcd's certificates are signed by, and this gateway's own."""

    catalog_user: str = ""
    catalog_password_file: Path | None = None
    """etcd's user; the file holds the password and nothing else."""


@dataclass(frozen=True, kw_only=True)
class InitSettings(CatalogSettings):
    """What can be set of `dafka init`."""

    data: Path = Path("dafka-data")
    """The data directory of a standalone or gateway, made if absent."""


@dataclass(frozen=True, kw_only=True)
class GatewaySettings(ServingSettings, NodeSettings, CatalogSettings):
    """What can be set of `dafka gateway`."""

    data: Path = Path("dafka-gateway-data")
    """The directory of the catalog, made if absent."""

    stores: int = 1
    """Stores that are waited for, and become members, at the very first start."""


@dataclass(frozen=True, kw_only=True)
class MeshStoreSettings(ServerSettings, NodeSettings, FsyncSettings):
    """What can be set of `dafka store`; those of the store itself default to what `mesh.store` has."""

    data: Path = Path("dafka-store-data")
    """The directory of the records, made if absent."""

    name: str = ""
    """What people call it; empty: its incarnation's first characters."""

    catch_up_bytes_per_second: int = 1024**3
    """Bytes of records a second that are fetched from other stores at most."""

    scrub_bytes_per_second: int = 4 * 1024**2
    scrub_interval_seconds: int = 3600
    """How fast closed segments are read again and checked, and how long it rests between two passes."""

    native_bytes: int = 10 * 1024**3
    native_seconds: int = 7 * 24 * 3600
    """Quota and retention of native records, which are no Kafka topic's."""

    accept_loss: bool = False
    """Go on with what can be read where the data directory has lost something."""


@dataclass(frozen=True, kw_only=True)
class TowerSettings(ServerSettings, MeshSettings):
    """What can be set of `dafka tower`."""

    listen: str = "127.0.0.1"
    """The host that it binds."""

    port_in: int = TOWER_PORT_IN
    port_out: int = TOWER_PORT_OUT
    """Ports; 0 picks a free one."""


@dataclass(frozen=True, kw_only=True)
class NativeSettings(LoggingSettings, NodeSettings):
    """What can be set of `dafka produce` and `dafka consume`."""

    log_level: str = "warning"
