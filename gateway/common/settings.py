"""The settings that what serves Kafka goes by, with their units and defaults.

How each is written, and what else a process has, is `dafka`'s business (`dafka.settings`).
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class LogSettings:
    """What can be set of a gateway, whichever process it is in. Immutable: a change is a restart."""

    partitions: int = 1
    """Partitions of a topic that is created without a number of them; Kafka's `num.partitions`."""

    rack: str = ""
    """Where the gateway stands: a zone, a machine, a rack; Kafka's `broker.rack`. "": nobody has said."""

    gateway_listener: str = ""
    """The name of the listener by which other gateways are asked; Kafka's `inter.broker.listener.name`. "":
    the first one whose name both have."""

    auto_create_topics: bool = True
    """Create a topic that a client asks for and allows to create; Kafka's `auto.create.topics.enable`."""

    relax_replication_factor: bool = False
    """Keep a replication factor above the number of stores instead of INVALID_REPLICATION_FACTOR."""

    trust_batches: bool = False
    """Append what producers send without looking at its records. Internal topics are never trusted to it."""

    authorizer: str = "none"
    """Who may do what: "none" (everybody everything) or "acl" (what ACLs allow); Kafka's
    `authorizer.class.name`."""

    super_user: tuple[str, ...] = ()
    """Principals, as "User:name", to whom nothing is denied; Kafka's `super.users`."""

    allow_everyone_if_no_acl_found: bool = False
    """Everybody may do everything with resources that no ACL is about; Kafka's
    `allow.everyone.if.no.acl.found`."""

    connections_max_reauth_ms: int = 0
    """Milliseconds after which a client of a listener with SASL has to say again who it is; 0: never. Kafka's
    `connections.max.reauth.ms`."""

    quota_window_num: int = 11
    """Samples over which rates of quotas are measured; Kafka's `quota.window.num`."""

    quota_window_size_seconds: int = 1
    """Seconds of each; Kafka's `quota.window.size.seconds`."""

    controller_quota_window_num: int = 11
    """Windows whose changes of topics may be made at once; Kafka's `controller.quota.window.num`."""

    controller_quota_window_size_seconds: int = 1
    """Seconds of each; Kafka's `controller.quota.window.size.seconds`."""

    delegation_token_max_lifetime_ms: int = 7 * 24 * 3600 * 1000
    """Milliseconds after which a delegation token ends for good; Kafka's
    `delegation.token.max.lifetime.ms`."""

    delegation_token_expiry_time_ms: int = 24 * 3600 * 1000
    """Milliseconds after which one ends unless it is renewed; Kafka's `delegation.token.expiry.time.ms`."""

    admin_client_writes: bool = False
    """Let a client that calls itself `__admin_client` append to internal topics."""

    retention_check_interval_ms: int = 300_000
    """Milliseconds between two looks for what retention drops; Kafka's `log.retention.check.interval.ms`."""

    compaction_backoff_ms: int = 15_000
    """Milliseconds between two looks for something to compact, when there was nothing; Kafka's
    `log.cleaner.backoff.ms`."""

    delete_delay_ms: int = 60_000
    """Milliseconds that stores keep what has left the logs, by retention, compaction, DeleteRecords or
    DeleteTopics, before they delete it."""

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

    tail_cache_bytes: int = 48 * 1024 * 1024
    """Bytes of the newest batches kept in memory, all partitions together, so that consumers that keep up
    never reach a disk: half a second of a log that gets 100 MB each second. With 64 MiB a process under full
    load has a little more than a fifth of the memory that Apache Kafka has."""

    max_client_connections: int = 5_000
    """Connections of one client at once, which is an address here: half of all that there may be. Kafka's
    `max.connections.per.ip` is unlimited."""

    accept_loss: bool = False
    """Go on with what can be read where the data directory has lost something."""
