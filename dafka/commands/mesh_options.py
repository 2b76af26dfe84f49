"""How the settings of the mesh's processes are written: `dafka tower`, `dafka store`, `dafka gateway`.

A name has one meaning in all of them, but for `listen`: Kafka clients' address at a gateway, a host at a
tower.
"""

from dataclasses import replace
from typing import Final

from dafka.commands import parsing
from dafka.commands.options import OPTIONS, Option

MAX_GATEWAY_ID: Final = 999
"""Stores have the ids from 1000 on."""

MAX_STORES: Final = 100
"""Stores of one mesh, as a setting: more is more often a slip of the finger than a wish."""

MAX_NATIVE_BYTES: Final = 2**50
"""Bytes: larger than disks are; the setting is then a slip of the finger."""

MAX_NATIVE_SECONDS: Final = 100 * 365 * 24 * 3600
"""Seconds: a hundred years. Longer than that is for ever."""

MAX_BYTES_PER_SECOND: Final = 2**40
"""Bytes a second: faster than disks and networks are."""

MAX_SCRUB_INTERVAL_SECONDS: Final = 365 * 24 * 3600
"""Seconds: a year. Nobody wants to know of a bad disk later than that."""

_TOWER: Final = Option(
    "The tower that introduces this node to the others; may be given several times, for towers that stand "
    "in for each other.",
    parsing.parse_towers,
    metavar="HOST[:IN:OUT]",
    repeatable=True,
)
_MESH_LISTEN: Final = Option(
    "Where the other nodes of the mesh reach this one. Of a range the first free port is taken, without a "
    "port any. Beyond this machine it needs --mesh-keys, or --insecure-mesh.",
    parsing.parse_mesh_listen,
    metavar="HOST[:PORT[-PORT]]",
)
_MESH_ADVERTISE: Final = Option(
    "The host that other nodes are told to use: needed in containers and behind NAT. Without it they are "
    "told the address that the tower sees.",
    parsing.parse_advertised_host,
    metavar="HOST",
)

_OF_METRICS: Final[dict[str, Option]] = {
    "metrics": OPTIONS["metrics"],
    "metrics_token_file": OPTIONS["metrics_token_file"],
    "metrics_tls": OPTIONS["metrics_tls"],
    "tls_certificate": replace(
        OPTIONS["tls_certificate"],
        help="File with the certificate of --metrics-tls, its chain, and the key unless --tls-key names "
        "another file: PEM, or a PKCS#12 store. It is read again when it changes.",
    ),
    "tls_key": OPTIONS["tls_key"],
    "tls_certificate_password_file": OPTIONS["tls_certificate_password_file"],
}

GATEWAY_OPTIONS: Final[dict[str, Option]] = {
    "listen": OPTIONS["listen"],
    "tls_certificate": OPTIONS["tls_certificate"],
    "tls_key": OPTIONS["tls_key"],
    "tls_certificate_password_file": OPTIONS["tls_certificate_password_file"],
    "tls_client_ca": OPTIONS["tls_client_ca"],
    "tls_client_auth": OPTIONS["tls_client_auth"],
    "tls_principal_rules": OPTIONS["tls_principal_rules"],
    "tls_gateway_ca": OPTIONS["tls_gateway_ca"],
    "tls_ca_password_file": OPTIONS["tls_ca_password_file"],
    "sasl_enabled_mechanism": OPTIONS["sasl_enabled_mechanism"],
    "oauth_keys": OPTIONS["oauth_keys"],
    "oauth_audience": OPTIONS["oauth_audience"],
    "oauth_issuer": OPTIONS["oauth_issuer"],
    "oauth_subject_claim": OPTIONS["oauth_subject_claim"],
    "oauth_clock_skew_seconds": OPTIONS["oauth_clock_skew_seconds"],
    "audit": OPTIONS["audit"],
    "audit_required": OPTIONS["audit_required"],
    "data": replace(
        OPTIONS["data"],
        help="Directory of the catalog, made if absent. One process uses it at a time.",
    ),
    "catalog": Option(
        "Where the catalog is: 'sqlite' in the data directory; or in an etcd (3.4 or newer), of which "
        "several members may be named: then a gateway may be started on another machine when one is lost. "
        "Its keys begin with /dafka unless another prefix is given.",
        parsing.parse_catalog,
        metavar="sqlite|etcd://HOST:PORT,...[/PREFIX]",
    ),
    "gateway_id": Option(
        "This gateway's number, another one for each gateway that shares the catalog in an etcd: Kafka "
        "clients know it by that. Several processes may have the same one: the first serves, the others "
        "stand by to take its place.",
        parsing.parse_number(1, MAX_GATEWAY_ID),
        metavar="N",
    ),
    "catalog_ca": Option(
        "Certificates that etcd's are signed by, in PEM; the connection is encrypted then.",
        parsing.parse_file,
        metavar="FILE",
    ),
    "catalog_cert": Option(
        "This gateway's certificate for etcd, in PEM; the connection is encrypted then.",
        parsing.parse_file,
        metavar="FILE",
    ),
    "catalog_key": Option("The key of that certificate, in PEM.", parsing.parse_file, metavar="FILE"),
    "catalog_user": Option("The user of etcd that this gateway is.", parsing.parse_name, metavar="NAME"),
    "catalog_password_file": Option(
        "File with that user's password and nothing else.", parsing.parse_file, metavar="FILE"
    ),
    "tower": _TOWER,
    "stores": Option(
        "Stores that are waited for at the very first start; all of them become members. Later ones are "
        "admitted by 'dafka store admit'.",
        parsing.parse_number(1, MAX_STORES),
        metavar="N",
    ),
    "mesh_listen": _MESH_LISTEN,
    "mesh_advertise": _MESH_ADVERTISE,
    "mesh_keys": OPTIONS["mesh_keys"],
    "insecure_mesh": OPTIONS["insecure_mesh"],
    "partitions": OPTIONS["partitions"],
    "topics": OPTIONS["topics"],
    "rack": OPTIONS["rack"],
    "gateway_listener": OPTIONS["gateway_listener"],
    "auto_create_topics": OPTIONS["auto_create_topics"],
    "relax_replication_factor": OPTIONS["relax_replication_factor"],
    "trust_batches": OPTIONS["trust_batches"],
    "authorizer": OPTIONS["authorizer"],
    "super_user": OPTIONS["super_user"],
    "connections_max_reauth_ms": OPTIONS["connections_max_reauth_ms"],
    "quota_window_num": OPTIONS["quota_window_num"],
    "quota_window_size_seconds": OPTIONS["quota_window_size_seconds"],
    "controller_quota_window_num": OPTIONS["controller_quota_window_num"],
    "controller_quota_window_size_seconds": OPTIONS["controller_quota_window_size_seconds"],
    "delegation_token_secret_file": OPTIONS["delegation_token_secret_file"],
    "delegation_token_max_lifetime_ms": OPTIONS["delegation_token_max_lifetime_ms"],
    "delegation_token_expiry_time_ms": OPTIONS["delegation_token_expiry_time_ms"],
    "allow_everyone_if_no_acl_found": OPTIONS["allow_everyone_if_no_acl_found"],
    "admin_client_writes": OPTIONS["admin_client_writes"],
    "retention_check_interval_ms": OPTIONS["retention_check_interval_ms"],
    "compaction_backoff_ms": OPTIONS["compaction_backoff_ms"],
    "delete_delay_ms": OPTIONS["delete_delay_ms"],
    "group_initial_rebalance_delay_ms": OPTIONS["group_initial_rebalance_delay_ms"],
    "group_min_session_timeout_ms": OPTIONS["group_min_session_timeout_ms"],
    "group_max_session_timeout_ms": OPTIONS["group_max_session_timeout_ms"],
    "group_max_size": OPTIONS["group_max_size"],
    "offsets_retention_minutes": OPTIONS["offsets_retention_minutes"],
    "fetch_session_slots": OPTIONS["fetch_session_slots"],
    "tail_cache_bytes": OPTIONS["tail_cache_bytes"],
    "max_client_connections": OPTIONS["max_client_connections"],
    "metrics": OPTIONS["metrics"],
    "metrics_token_file": OPTIONS["metrics_token_file"],
    "metrics_tls": OPTIONS["metrics_tls"],
    "http": OPTIONS["http"],
    "http_token_file": OPTIONS["http_token_file"],
    "http_tls": OPTIONS["http_tls"],
    "http_no_values": OPTIONS["http_no_values"],
    "http_data": OPTIONS["http_data"],
    "metrics_by_partition": OPTIONS["metrics_by_partition"],
    "rebuild_catalog": replace(
        OPTIONS["rebuild_catalog"],
        help="Set the catalog aside and read it back from the stores: for one start, after the catalog was "
        "lost or refused. Waits for --stores of them.",
    ),
    "accept_loss": replace(
        OPTIONS["accept_loss"],
        help="Believe the stores where the catalog knows more. For one start, when no copy is left; what is "
        "given up is said in the log.",
    ),
    "log_level": OPTIONS["log_level"],
    "log_format": OPTIONS["log_format"],
}
"""Every field of `GatewaySettings`."""

ON_THE_MESH: Final = ("tower", "mesh_listen", "mesh_advertise", "mesh_keys", "insecure_mesh")
"""How a process comes onto a mesh: all that do so have these."""

_OF_A_REBUILD: Final = (
    "data",
    "catalog",
    "catalog_ca",
    "catalog_cert",
    "catalog_key",
    "catalog_user",
    "catalog_password_file",
    "stores",
    *ON_THE_MESH,
    "accept_loss",
    "log_level",
    "log_format",
)

REBUILD_OPTIONS: Final = {name: GATEWAY_OPTIONS[name] for name in _OF_A_REBUILD}
"""Those that `dafka gateway rebuild-catalog` has a use for."""

STORE_OPTIONS: Final[dict[str, Option]] = {
    "data": replace(
        OPTIONS["data"],
        help="Directory of the records, made if absent. One process uses it at a time.",
    ),
    "name": Option(
        "What people call this store. With --mesh-keys it is the name of its key, and need not be given.",
        parsing.parse_name,
        metavar="NAME",
    ),
    "tower": _TOWER,
    "mesh_listen": _MESH_LISTEN,
    "mesh_advertise": _MESH_ADVERTISE,
    "mesh_keys": OPTIONS["mesh_keys"],
    "insecure_mesh": OPTIONS["insecure_mesh"],
    "fsync": OPTIONS["fsync"],
    "fsync_interval_ms": OPTIONS["fsync_interval_ms"],
    "catch_up_bytes_per_second": Option(
        "Most bytes of records a second that this store fetches from others, when it comes late, empty or "
        "back. Lower, where a network or the others' disks must have room for producers.",
        parsing.parse_number(1, MAX_BYTES_PER_SECOND),
        metavar="BYTES",
    ),
    "scrub_bytes_per_second": Option(
        "Bytes a second at which closed segments are read again, checked, compared with other stores and "
        "repaired from them.",
        parsing.parse_number(1, MAX_BYTES_PER_SECOND),
        metavar="BYTES",
    ),
    "scrub_interval_seconds": Option(
        "Seconds of rest between two such passes. The first one begins so long after the start, or after "
        "300 if that is less.",
        parsing.parse_number(1, MAX_SCRUB_INTERVAL_SECONDS),
        metavar="S",
    ),
    "native_bytes": Option(
        "Most bytes of native Dafka records (those of 'dafka produce' and C producers): beyond it the oldest "
        "go. Kafka's topics are not touched by it.",
        parsing.parse_number(1, MAX_NATIVE_BYTES),
        metavar="BYTES",
    ),
    "native_seconds": Option(
        "How long native Dafka records are kept; those that a topic takes up at least until it has them. "
        "Kafka's topics are not touched by it.",
        parsing.parse_number(1, MAX_NATIVE_SECONDS),
        metavar="S",
    ),
    **_OF_METRICS,
    "accept_loss": replace(
        OPTIONS["accept_loss"],
        help="Cut a damaged write-ahead log at its first bad byte and go on, as a new incarnation. For one "
        "start, when no copy is left; what is given up is said in the log.",
    ),
    "log_level": OPTIONS["log_level"],
    "log_format": OPTIONS["log_format"],
}
"""Every field of `MeshStoreSettings`."""

NATIVE_OPTIONS: Final[dict[str, Option]] = {
    "tower": _TOWER,
    "mesh_listen": _MESH_LISTEN,
    "mesh_advertise": _MESH_ADVERTISE,
    "mesh_keys": OPTIONS["mesh_keys"],
    "insecure_mesh": OPTIONS["insecure_mesh"],
    "log_level": OPTIONS["log_level"],
    "log_format": OPTIONS["log_format"],
}
"""Every field of `NativeSettings`: `dafka produce` and `dafka consume`."""

TOWER_OPTIONS: Final[dict[str, Option]] = {
    "listen": Option(
        "The host or address that nodes reach the tower at. Beyond this machine it needs --mesh-keys, or "
        "--insecure-mesh.",
        parsing.parse_host,
        metavar="HOST",
    ),
    "port_in": Option(
        "The port that nodes send their beacons to.", parsing.parse_number(0, 65535), metavar="PORT"
    ),
    "port_out": Option(
        "The port that nodes hear the tower at.", parsing.parse_number(0, 65535), metavar="PORT"
    ),
    "mesh_keys": OPTIONS["mesh_keys"],
    "insecure_mesh": OPTIONS["insecure_mesh"],
    **_OF_METRICS,
    "log_level": OPTIONS["log_level"],
    "log_format": OPTIONS["log_format"],
}
"""Every field of `TowerSettings`."""
