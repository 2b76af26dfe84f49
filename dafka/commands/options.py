"""How each setting is written: one name for the flag, the environment variable and the configuration
file's key.

`fsync_interval_ms` is `--fsync-interval-ms`, `DAFKA_FSYNC_INTERVAL_MS` and `fsync-interval-ms = 1000`. The
defaults are those of the classes in `dafka.settings`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from dafka.commands import parsing
from mesh.protocol.endpoints import MeshListen, in_brackets

MAX_FSYNC_INTERVAL_MS: Final = 3_600_000
"""Milliseconds: an hour. More is `never`."""

MAX_CHECK_INTERVAL_MS: Final = 7 * 24 * 3_600_000
"""Milliseconds: a week. More is as good as never."""

MAX_MILLISECONDS: Final = 2**31 - 1
"""Milliseconds: the largest that Kafka's settings of this kind may be, 24 days."""

MAX_TOKEN_MILLISECONDS: Final = 366 * 24 * 3_600_000
"""Milliseconds: a year. Who needs something for longer is a user."""

MAX_MINUTES: Final = 2**31 - 1
"""Minutes: as many as Kafka's `offsets.retention.minutes` can say."""

MAX_GROUP_SIZE: Final = 2**31 - 1
"""Members: as many as Kafka's `group.max.size` can say."""

MAX_QUOTA_WINDOWS: Final = 60
"""Samples of one quota: each is kept for each of the 10,000 meters that there may be."""

MAX_QUOTA_WINDOW_SECONDS: Final = 60
"""Seconds of a sample: with so many of them it is an hour, after which a meter may be forgotten."""

MAX_FETCH_SESSION_SLOTS: Final = 2**31 - 1
"""Fetch sessions: as many as Kafka's `max.incremental.fetch.session.cache.slots` can say. Their memory is
bounded apart."""

MAX_CLIENT_CONNECTIONS: Final = 10_000
"""Connections: as many as all clients together may have (`gateway.front.limits`, which help does not
load)."""

MAX_TAIL_CACHE_BYTES: Final = 2**40
"""Bytes: more memory than machines have; the setting is then a slip of the finger."""

MAX_GATEWAYS: Final = 64
"""Processes of one machine: more is a slip of the finger."""

MAX_PID: Final = 2**31 - 1
"""Process ids: as many as a kernel's type for them has."""

FSYNC_MODES: Final = ("always", "interval", "never")
LOG_LEVELS: Final = ("debug", "info", "warning", "error")
LOG_FORMATS: Final = ("text", "json")


@dataclass(frozen=True, slots=True)
class Option:
    """How a setting is written and read.

    `parse` turns a text into the value (a sequence of texts where `repeatable`). `metavar` is what help
    shows for the text. A `switch` takes none on the command line; one with `off` has a `--no-...` flag
    too.
    """

    help: str
    parse: Callable[[Any], Any]
    metavar: str = ""
    repeatable: bool = False
    switch: bool = False
    off: bool = False


MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN")
"""As in `gateway.front.sessions`, which takes long to import."""

MAX_CLOCK_SKEW_SECONDS: Final = 3600
"""Seconds: a clock that is further off is wrong."""

AUTHORIZERS: Final = ("none", "acl")
"""As in `gateway.common.settings`."""

CLIENT_AUTH: Final = ("none", "requested", "required")
"""As in `gateway.front.certificates`, which takes long to import."""

OPTIONS: Final[dict[str, Option]] = {
    "listen": Option(
        "Where Kafka clients connect; may be given several times. A host name binds every address it has, "
        "port 0 picks a free one. What follows @ is the address that clients are told to use: needed behind "
        "NAT, in containers, and wherever clients do not reach the bound address.",
        parsing.parse_listeners,
        metavar="[NAME=][PROTOCOL://]HOST:PORT[@HOST:PORT]",
        repeatable=True,
    ),
    "tls_certificate": Option(
        "File with the certificate of listeners with TLS (SSL:// and SASL_SSL://) and of pages with TLS, its "
        "chain, and the key unless --tls-key names another file: PEM, or a PKCS#12 store. It is read again "
        "when it changes.",
        parsing.parse_file,
        metavar="FILE",
    ),
    "tls_key": Option(
        "File with the private key of --tls-certificate: PEM.",
        parsing.parse_file,
        metavar="FILE",
    ),
    "tls_certificate_password_file": Option(
        "File with the password of the PKCS#12 store of --tls-certificate, or of the key, if it has one.",
        parsing.parse_file,
        metavar="FILE",
    ),
    "tls_client_ca": Option(
        "File with the certificates of those who sign the certificates of clients: PEM, or a PKCS#12 store.",
        parsing.parse_file,
        metavar="FILE",
    ),
    "tls_client_auth": Option(
        "Whether clients of listeners with TLS have to show a certificate: 'none', 'requested' (one that is "
        "shown has to be good) or 'required'.",
        parsing.parse_choice(CLIENT_AUTH),
        metavar="|".join(CLIENT_AUTH),
    ),
    "tls_principal_rules": Option(
        "Who it is that shows a certificate on a listener SSL://, by the name of its subject: DEFAULT takes "
        "that as it is, of rules with a regular expression the first one counts that matches all of it. Whom "
        "none matches is not served. As Kafka's ssl.principal.mapping.rules.",
        parsing.parse_principal_rules,
        metavar="RULE:REGEX/REPLACEMENT/[L|U],...",
    ),
    "tls_gateway_ca": Option(
        "File with the certificates of those who sign the certificates of gateways, where gateways ask each "
        "other over TLS: PEM, or a PKCS#12 store. Without it those count whom the system trusts.",
        parsing.parse_file,
        metavar="FILE",
    ),
    "tls_ca_password_file": Option(
        "File with the password of --tls-client-ca and --tls-gateway-ca where these are PKCS#12 stores.",
        parsing.parse_file,
        metavar="FILE",
    ),
    "sasl_enabled_mechanism": Option(
        "A mechanism by which users of the cluster come in over listeners with SASL; may be given several "
        "times. PLAIN sends passwords as they are: leave it out where SASL_PLAINTEXT:// can be overheard.",
        parsing.parse_choices(MECHANISMS),
        metavar="|".join(MECHANISMS),
        repeatable=True,
    ),
    "oauth_keys": Option(
        "Let clients come in by OAUTHBEARER, with tokens (JWT) that were signed by one of these keys: a file "
        "with a JWKS, or its https:// URL.",
        parsing.parse_key_set,
        metavar="FILE|URL",
    ),
    "oauth_audience": Option(
        "An audience that tokens may be for; may be given several times. Without it those count that are for "
        "none.",
        parsing.parse_names,
        metavar="NAME",
        repeatable=True,
    ),
    "oauth_issuer": Option(
        "The issuer that tokens have to be from; without it any.", parsing.parse_name, metavar="NAME"
    ),
    "oauth_subject_claim": Option(
        "The claim of tokens that names the user.", parsing.parse_name, metavar="NAME"
    ),
    "oauth_clock_skew_seconds": Option(
        "How many seconds the clock of who signs tokens may differ from this one.",
        parsing.parse_number(0, MAX_CLOCK_SKEW_SECONDS),
        metavar="N",
    ),
    "audit": Option(
        "File for JSON lines of requests that were denied, of clients that could not show who they are, and "
        "of all administration; '-' is standard output. It is made anew when it was moved away.",
        parsing.parse_audit,
        metavar="FILE|-",
    ),
    "audit_required": Option(
        "Change nothing in the cluster while --audit cannot be written.", parsing.parse_switch, switch=True
    ),
    "data": Option(
        "Directory of all data, made if absent. One process uses it at a time.",
        parsing.parse_directory,
        metavar="DIR",
    ),
    "fsync": Option(
        "When records are forced to disk: 'always' before they are acknowledged, 'interval' every "
        "--fsync-interval-ms, 'never' when the system likes (as Kafka by default). It matters when the "
        "machine loses power; a killed process loses nothing with any of them.",
        parsing.parse_choice(FSYNC_MODES),
        metavar="|".join(FSYNC_MODES),
    ),
    "fsync_interval_ms": Option(
        "Milliseconds between two fsyncs with '--fsync interval'.",
        parsing.parse_number(1, MAX_FSYNC_INTERVAL_MS),
        metavar="N",
    ),
    "partitions": Option(
        "Partitions of a topic that is created without saying how many.",
        parsing.parse_number(1, parsing.MAX_PARTITIONS),
        metavar="N",
    ),
    "topics": Option(
        "Topics to create at the start if they are not there.",
        parsing.parse_topics,
        metavar="NAME[:PARTITIONS],...",
    ),
    "rack": Option(
        "Where this gateway stands, a zone or a machine: clients are told so, and of gateways that are as "
        "good as each other the one leads that is in the rack with the fewest leaders of the topic.",
        parsing.parse_name,
        metavar="NAME",
    ),
    "gateway_listener": Option(
        "The name of the listener by which gateways ask each other; without it the first one of --listen "
        "whose name the other one has, too.",
        parsing.parse_name,
        metavar="NAME",
    ),
    "auto_create_topics": Option(
        "Create a topic when a client that allows it asks for one that is not there. Spark's source never "
        "does: create its topics first.",
        parsing.parse_switch,
        switch=True,
        off=True,
    ),
    "relax_replication_factor": Option(
        "Accept a replication factor above the number of stores (there are still no more copies than stores) "
        "instead of answering INVALID_REPLICATION_FACTOR.",
        parsing.parse_switch,
        switch=True,
    ),
    "trust_batches": Option(
        "Append what producers send without looking at its records: less work, and whoever may produce to a "
        "topic can make it unreadable for its consumers. Batches for compacted topics, for those with a "
        "compression.type of their own, and for internal ones are looked through all the same.",
        parsing.parse_switch,
        switch=True,
    ),
    "authorizer": Option(
        "Who may do what: 'none' (everybody everything) or 'acl' (what the cluster's ACLs allow, which "
        "kafka-acls shows and changes, and the super users everything).",
        parsing.parse_choice(AUTHORIZERS),
        metavar="|".join(AUTHORIZERS),
    ),
    "super_user": Option(
        "A principal to whom nothing is denied, as User:NAME; may be given several times.",
        parsing.parse_principals,
        metavar="User:NAME",
        repeatable=True,
    ),
    "connections_max_reauth_ms": Option(
        "Milliseconds after which clients of listeners with SASL have to say again who they are; their "
        "connections are closed otherwise. 0 asks them once.",
        parsing.parse_number(0, MAX_MILLISECONDS),
        metavar="N",
    ),
    "quota_window_num": Option(
        "Samples over which the rates of quotas are measured: all of them but one are what may be used at "
        "once.",
        parsing.parse_number(2, MAX_QUOTA_WINDOWS),
        metavar="N",
    ),
    "quota_window_size_seconds": Option(
        "Seconds of each of these samples, and the longest time for which request_percentage throttles.",
        parsing.parse_number(1, MAX_QUOTA_WINDOW_SECONDS),
        metavar="N",
    ),
    "controller_quota_window_num": Option(
        "Windows whose changes of topics (controller_mutation_rate) may be made at once.",
        parsing.parse_number(1, MAX_QUOTA_WINDOWS),
        metavar="N",
    ),
    "controller_quota_window_size_seconds": Option(
        "Seconds of each of these windows.",
        parsing.parse_number(1, MAX_QUOTA_WINDOW_SECONDS),
        metavar="N",
    ),
    "delegation_token_secret_file": Option(
        "File with the secret that delegation tokens are made with: 32 bytes or more, which nobody but its "
        "owner may read, and the same for all gateways of a cluster. Without it there are no tokens.",
        parsing.parse_file,
        metavar="FILE",
    ),
    "delegation_token_max_lifetime_ms": Option(
        "Milliseconds after which a delegation token ends for good, or less if that was asked for.",
        parsing.parse_number(1, MAX_TOKEN_MILLISECONDS),
        metavar="N",
    ),
    "delegation_token_expiry_time_ms": Option(
        "Milliseconds after which a delegation token ends unless it is renewed.",
        parsing.parse_number(1, MAX_TOKEN_MILLISECONDS),
        metavar="N",
    ),
    "allow_everyone_if_no_acl_found": Option(
        "Let everybody do everything with what no ACL is about.",
        parsing.parse_switch,
        switch=True,
    ),
    "admin_client_writes": Option(
        "Let a client that calls itself __admin_client append to internal topics, for repairs. Anybody can "
        "call himself so.",
        parsing.parse_switch,
        switch=True,
    ),
    "retention_check_interval_ms": Option(
        "Milliseconds between two looks for records that retention deletes.",
        parsing.parse_number(1, MAX_CHECK_INTERVAL_MS),
        metavar="N",
    ),
    "compaction_backoff_ms": Option(
        "Milliseconds between two looks for topics to compact, when there was nothing to do.",
        parsing.parse_number(1, MAX_CHECK_INTERVAL_MS),
        metavar="N",
    ),
    "delete_delay_ms": Option(
        "Milliseconds that the stores keep what has left the logs (by retention, compaction, deletion), so "
        "that a mistake can be stopped before they delete it. 0 gives the room back at once.",
        parsing.parse_number(0, MAX_MILLISECONDS),
        metavar="N",
    ),
    "group_initial_rebalance_delay_ms": Option(
        "Milliseconds that the first rebalance of an empty consumer group waits for more members. 0 is "
        "pleasant where consumers come one at a time, as in tests.",
        parsing.parse_number(0, MAX_MILLISECONDS),
        metavar="N",
    ),
    "group_min_session_timeout_ms": Option(
        "Shortest session timeout, in milliseconds, that a member of a consumer group may ask for.",
        parsing.parse_number(0, MAX_MILLISECONDS),
        metavar="N",
    ),
    "group_max_session_timeout_ms": Option(
        "Longest session timeout, in milliseconds, that a member of a consumer group may ask for.",
        parsing.parse_number(1, MAX_MILLISECONDS),
        metavar="N",
    ),
    "group_max_size": Option(
        "Members that one consumer group may have.",
        parsing.parse_number(1, MAX_GROUP_SIZE),
        metavar="N",
    ),
    "offsets_retention_minutes": Option(
        "Minutes after which a committed offset of a consumer group is forgotten: since its last member "
        "left, or, of a topic that it does not read, since the commit. Kafka's default is seven days.",
        parsing.parse_number(1, MAX_MINUTES),
        metavar="N",
    ),
    "fetch_session_slots": Option(
        "Fetch sessions that are kept, so that consumers need not name all of their partitions in each "
        "request; 0 keeps none.",
        parsing.parse_number(0, MAX_FETCH_SESSION_SLOTS),
        metavar="N",
    ),
    "tail_cache_bytes": Option(
        "Bytes of memory for the newest records of all partitions, for consumers that keep up.",
        parsing.parse_number(0, MAX_TAIL_CACHE_BYTES),
        metavar="BYTES",
    ),
    "max_client_connections": Option(
        "Connections that one client may have at once: an address, so all that is behind one NAT or proxy. "
        "Half of all by default.",
        parsing.parse_number(1, MAX_CLIENT_CONNECTIONS),
        metavar="N",
    ),
    "metrics": Option(
        "Where to serve Prometheus metrics (/metrics) and health (/health) over HTTP.",
        parsing.parse_metrics,
        metavar="HOST:PORT",
    ),
    "metrics_token_file": Option(
        "File with a token, alone in it, that who asks for /metrics has to show: as a bearer token, or as "
        "the password of any user name. Health needs none.",
        parsing.parse_file,
        metavar="FILE",
    ),
    "metrics_tls": Option(
        "Serve metrics and health over TLS, with the certificate of --tls-certificate.",
        parsing.parse_switch,
        switch=True,
    ),
    "http": Option(
        "Where to serve the status page and its JSON over HTTP. Without --http-token-file whoever reaches it "
        "sees topics, records and groups: give it 127.0.0.1 then, unless a proxy with a login, or a network, "
        "keeps others away. What follows @ is the name that browsers know it by, if that is neither an "
        "address nor this machine's name.",
        parsing.parse_http,
        metavar="HOST:PORT[@HOST:PORT]",
    ),
    "http_token_file": Option(
        "File with a token, alone in it, that who asks at --http has to show: as a bearer token, or as the "
        "password of any user name, for which browsers ask by themselves.",
        parsing.parse_file,
        metavar="FILE",
    ),
    "http_tls": Option(
        "Serve the status page over TLS, with the certificate of --tls-certificate.",
        parsing.parse_switch,
        switch=True,
    ),
    "http_no_values": Option(
        "Show on the status page how large records' keys, values and headers are, and not what is in them.",
        parsing.parse_switch,
        switch=True,
    ),
    "http_data": Option(
        "Let programs append and read records over HTTP, too, where the status page is. Whoever reaches it, "
        "and has the token if there is one, may write.",
        parsing.parse_switch,
        switch=True,
    ),
    "metrics_by_partition": Option(
        "Show the lag of consumer groups by partition in the metrics, too.",
        parsing.parse_switch,
        switch=True,
    ),
    "mesh_listen": Option(
        "Let native Dafka peers reach the store over TCP. Beyond this machine it needs --mesh-keys, or "
        "--insecure-mesh. Of a range the first free port is taken, without a port any.",
        parsing.parse_mesh_listen,
        metavar="HOST[:PORT[-PORT]]",
    ),
    "mesh_keys": Option(
        "Directory of this process's key for the mesh, and of the certificates of those that may be there "
        "(dafka keys). All links are encrypted then, and everybody else gets nothing.",
        parsing.parse_keys,
        metavar="DIR",
    ),
    "insecure_mesh": Option(
        "Let other machines reach the mesh without keys. Whoever does may read, write and delete everything, "
        "so a network has to keep them away.",
        parsing.parse_switch,
        switch=True,
    ),
    "ephemeral": Option(
        "For tests: keep the data in a temporary directory that is removed at the end, end when the process "
        "ends that started this one, and wait for nothing that a test need not wait for (--fsync never, "
        "--group-initial-rebalance-delay-ms 0, --group-min-session-timeout-ms 0, unless they are given).",
        parsing.parse_switch,
        switch=True,
    ),
    "ends_with": Option(
        "End when the process of this id ends. With --ephemeral that is the parent, unless this says "
        "otherwise.",
        parsing.parse_number(1, MAX_PID),
        metavar="PID",
    ),
    "port_file": Option(
        "Write HOST:PORT, where clients connect, to this file as soon as they can. It appears whole, and is "
        "removed at the end.",
        parsing.parse_file,
        metavar="FILE",
    ),
    "gateways": Option(
        "Start so many gateways, stores and a tower as processes of their own, and keep them running: a "
        "cluster on one machine, which uses several cores. Each gateway listens one port above the one "
        "before (--listen, --metrics, --http; the stores' metrics follow), or on a free one. 0 starts one "
        "process.",
        parsing.parse_number(0, MAX_GATEWAYS),
        metavar="N",
    ),
    "stores": Option(
        "Stores beside several gateways. 0 starts as many as gateways; those that were there before are "
        "always started.",
        parsing.parse_number(0, MAX_GATEWAYS),
        metavar="N",
    ),
    "chaos": Option(
        "For tests: let 'dafka chaos' order faults (errors, delays, cut connections, expired members) "
        "through a Unix socket of this path. Whoever may write it may make clients fail.",
        parsing.parse_file,
        metavar="SOCKET",
    ),
    "rebuild_catalog": Option(
        "Set the catalog aside and read it back from the store: for one start, after the catalog was lost or "
        "refused.",
        parsing.parse_switch,
        switch=True,
    ),
    "accept_loss": Option(
        "Go on with what can be read: cut a damaged write-ahead log at its first bad byte, and believe the "
        "store where the catalog knows more. For one start, when the data was refused and no copy is left; "
        "what is given up is said in the log.",
        parsing.parse_switch,
        switch=True,
    ),
    "log_level": Option(
        "How much is logged to standard error; 'debug' also shows the traceback of an error.",
        parsing.parse_choice(LOG_LEVELS),
        metavar="|".join(LOG_LEVELS),
    ),
    "log_format": Option(
        "Log lines for people, or one JSON object a line for machines.",
        parsing.parse_choice(LOG_FORMATS),
        metavar="|".join(LOG_FORMATS),
    ),
}
"""Every field of `Settings`, in the order in which help and documentation show them."""


def flag_of(name: str) -> str:
    """The command-line flag of a setting."""
    return "--" + key_of(name)


def variable_of(name: str) -> str:
    """The environment variable of a setting."""
    return "DAFKA_" + name.upper()


def key_of(name: str) -> str:
    """The key of a setting in the configuration file."""
    return name.replace("_", "-")


def shown_default(settings: type[Any], name: str) -> str:
    """The default of a setting, in the words that help and documentation have for it."""
    return _shown(getattr(settings(), name))


def _shown(value: Any) -> str:
    """A value as its flag takes it; for no value "off" or "none"."""
    if value is None:
        return "off"
    if value in {"", ()}:
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, MeshListen):
        return _shown_listen(value)
    if type(value) is tuple:
        return " ".join(map(_shown, value))
    return str(value)


def _shown_listen(where: MeshListen) -> str:
    host = in_brackets(where.host)
    if not where.first_port:
        return host
    last = f"-{where.last_port}" if where.last_port != where.first_port else ""
    return f"{host}:{where.first_port}{last}"
