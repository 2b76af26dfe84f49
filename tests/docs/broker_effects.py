"""What each broker config does here: the same table for the documentation and for the tests that see it.

A broker config is one of these:

* the default of a topic config (`broker_validation.TOPIC_DEFAULTS`): it does what that config does;
* set by an option of the gateway (`BY_OPTION`), and read-only while it runs, as in Kafka, but for those of
  `broker_validation.OWN_EFFECT`;
* set while it runs, and by no option (`WHILE_IT_RUNS`);
* told (`TOLD`): what it says is so, and there is nothing to set;
* held (`HELD`): Kafka's default holds here, too, as a constant;
* anything else has no effect: given back as Kafka's default; some of what Kafka can change while it runs is
  accepted (`broker_validation.NO_EFFECT`).
"""

from __future__ import annotations

from typing import Final

from gateway.configs.broker_configs import broker_configs
from gateway.configs.broker_validation import NO_EFFECT as DYNAMIC_WITHOUT_EFFECT
from gateway.configs.broker_validation import OWN_EFFECT, TOPIC_DEFAULTS

BY_OPTION: Final[dict[str, str]] = {
    "auto.create.topics.enable": "--auto-create-topics",
    "broker.rack": "--rack",
    "delegation.token.expiry.time.ms": "--delegation-token-expiry-time-ms",
    "delegation.token.max.lifetime.ms": "--delegation-token-max-lifetime-ms",
    "group.initial.rebalance.delay.ms": "--group-initial-rebalance-delay-ms",
    "group.max.session.timeout.ms": "--group-max-session-timeout-ms",
    "group.max.size": "--group-max-size",
    "group.min.session.timeout.ms": "--group-min-session-timeout-ms",
    "inter.broker.listener.name": "--gateway-listener",
    "listeners": "--listen",
    "log.cleaner.backoff.ms": "--compaction-backoff-ms",
    "log.retention.check.interval.ms": "--retention-check-interval-ms",
    "max.incremental.fetch.session.cache.slots": "--fetch-session-slots",
    "num.partitions": "--partitions",
    "offsets.retention.minutes": "--offsets-retention-minutes",
}
"""Broker config -> the option of `dafka standalone` and `dafka gateway` that sets it."""

WHILE_IT_RUNS: Final = frozenset(OWN_EFFECT) - BY_OPTION.keys()
"""They are set while the gateway runs (`kafka-configs --entity-type brokers`)."""

TOLD: Final = frozenset(
    {
        "advertised.listeners",
        "broker.id",
        "controller.listener.names",
        "default.replication.factor",
        "node.id",
        "offsets.topic.replication.factor",
        "process.roles",
    }
)
"""They say what this gateway is: its address, its id, how many copies its stores allow."""

HELD: Final[dict[str, str]] = {
    "connections.max.idle.ms": "A connection without a request for so long is closed.",
    "controller.quota.window.num": "Seconds' worth of changes of topics that may be made at once.",
    "controller.quota.window.size.seconds": "The same, in windows of a second.",
    "delegation.token.expiry.check.interval.ms": "So often delegation tokens that are over are looked for.",
    "delete.topic.enable": "Topics can be deleted.",
    "fetch.max.bytes": "A Fetch gets no more bytes of records, but for a first batch that is larger.",
    "offset.metadata.max.bytes": "Longer metadata of an offset is OFFSET_METADATA_TOO_LARGE.",
    "offsets.commit.timeout.ms": "A commit that is not durable by then is COORDINATOR_NOT_AVAILABLE.",
    "offsets.retention.check.interval.ms": "So often all groups are looked at for offsets to forget.",
    "offsets.topic.num.partitions": "Partitions of __consumer_offsets.",
    "offsets.topic.segment.bytes": "The topic config segment.bytes of __consumer_offsets.",
    "quota.window.num": "Samples by which rates of quotas are measured.",
    "quota.window.size.seconds": "How long each is, and most that a `request_percentage` throttles.",
    "socket.request.max.bytes": "A larger request ends the connection.",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": (
        "So often transactions are looked at that are open for too long."
    ),
    "transaction.max.timeout.ms": "A longer timeout of a producer is INVALID_TRANSACTION_TIMEOUT.",
    "transaction.remove.expired.transaction.cleanup.interval.ms": (
        "So often idle transactional ids are looked for."
    ),
    "transaction.state.log.num.partitions": "Partitions of __transaction_state.",
    "transaction.state.log.segment.bytes": "The topic config segment.bytes of __transaction_state.",
    "transactional.id.expiration.ms": "A transactional id that nobody uses for so long is forgotten.",
}
"""Broker config -> what it means here; its value is Kafka's default and cannot be changed."""

NO_EFFECT: Final = "accepted, no effect"
NOTHING_TO_SET: Final = "no effect; cannot be set"


def effect_of(name: str) -> str:
    """What a broker config does here, in a few words. Raises KeyError: there is none of that name."""
    config = broker_configs()[name]
    if (topic_config := TOPIC_DEFAULTS.get(name)) is not None:
        does = f"default of {topic_config.name}"
        return does if topic_config.effect else f"{does}: {NO_EFFECT}"
    if name in BY_OPTION:
        return f"set by {BY_OPTION[name]}" + (", and while it runs" if name in OWN_EFFECT else "")
    if name in WHILE_IT_RUNS:
        return "set while it runs"
    if name in TOLD:
        return "says what is so"
    if name in HELD:
        return f"{HELD[name]} Kafka's default holds; cannot be set"
    return NO_EFFECT if config.name in DYNAMIC_WITHOUT_EFFECT else NOTHING_TO_SET
