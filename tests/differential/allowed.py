"""Every difference from Apache Kafka 4.3.1 that is meant, with its reason. Short, and each line reviewed.

An entry that nothing needs any more is itself reported: the list can only say what is true.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from tests.differential.compare import ABSENT, Difference

UNKNOWN_SERVER_ERROR = -1


def _always(kafka: Any, ours: Any) -> bool:
    return True


def _we_say_why(kafka: Any, ours: Any) -> bool:
    """We have words; Kafka has other words, or none."""
    return isinstance(ours, str) and bool(ours) and isinstance(kafka, str | None)


def _we_close(kafka: Any, ours: Any) -> bool:
    return bool(ours == "closed")


def _kafka_fails(kafka: Any, ours: Any) -> bool:
    """Kafka answers UNKNOWN_SERVER_ERROR, its word for an exception that nobody caught."""
    return bool(kafka == UNKNOWN_SERVER_ERROR)


def _ours_is_stored(kafka: Any, ours: Any) -> bool:
    """Kafka refused the good batch beside a bad one, or has nothing there; here it is stored at offset 0."""
    if ours is None:
        return isinstance(kafka, str)  # Kafka's error message
    return kafka in {2, -1, 0, ABSENT} and (isinstance(ours, dict) or ours in {0, 1})


def _kafka_serves(kafka: Any, ours: Any) -> bool:
    """Kafka has no error there."""
    return bool(kafka == 0)


def _kafka_follows(kafka: Any, ours: Any) -> bool:
    """It refuses a follower that it does not know (NOT_LEADER_OR_FOLLOWER)."""
    return kafka in {6, -1, ABSENT}


@dataclass(frozen=True)
class Allowed:
    """A pattern over `case:path` (as in fnmatch), when it applies, and why the difference is right.

    `but`: patterns where it does not hold, for all that.
    """

    where: str
    reason: str
    when: Callable[[Any, Any], bool] = _always
    sometimes: bool = False
    """It depends on the machine whether it occurs."""
    but: tuple[str, ...] = ()


SAYS_WHY = "English for people: what we say where Kafka says less or other"
PLACES = "a record's offset delta has to be its place, as Kafka wants it in compressed batches alone"
ATTRIBUTES = (
    "Python's clients read a record's attributes of 128 and more as two bytes; no producer writes any"
)
LOG_START = "beside an error: Kafka gives it when the fault is found inside the log, an order that is its own"
NOBODY_LEARNS = "nobody learns who exists: a stranger fails at the second step, as for a wrong password"
WHOLE_REQUEST = "Kafka fails the whole request for this fault; here the other partitions are served"

CONFIGS = (
    "create_topics.*config*:*",
    "alter_configs.*values:*",
    "alter_configs.incremental_lists:*",
    "alter_configs.*faults:*",
    "describe_configs.*:*",
)
"""Where tools and people look for Kafka's own words: what is wrong with a config."""

ALLOWED: list[Allowed] = [
    Allowed("*:*.error_message", SAYS_WHY, _we_say_why, but=CONFIGS),
    Allowed("produce.unusual_batches:*.batch_index_error_message", "says the server's time"),
    # ---- what is not served yet
    Allowed("api_versions.*:*.finalized_features*", "a feature told is used: transactions, new groups"),
    Allowed("api_versions.*:*.supported_features*", "as finalized_features"),
    Allowed("transactions_*:*.log_start_offset", LOG_START),
    Allowed("transactions_markers.nonsense:*.error_code", "a marker is of a producer, with an epoch"),
    Allowed(
        "transactions_partitions.adds_for_several:one twice.*", "each is answered for itself, not by name"
    ),
    Allowed(
        "transactions_produce.odd_batches:*no producer id.*",
        "a transactional batch is of a producer, as for Java",
    ),
    Allowed("transactions_produce.odd_batches:partition 5, *", "as 'no producer id'"),
    Allowed("produce.transactional:*bit without producer.*", "as 'no producer id'"),
    Allowed(
        "transactions_produce.late_and_a_duplicate:*late, in the next.*",
        "the batch is the next one that the log wants; Kafka waits for the duplicate, which it has",
    ),
    Allowed("update_features.levels:*.version *", "all but metadata.version is at level 0, and stays there"),
    Allowed("find_coordinator.share_type:well formed.*", "no share groups yet"),
    Allowed("produce.broken_batches:*.log_start_offset", LOG_START),
    Allowed("produce.old_formats:*.log_start_offset", LOG_START),
    Allowed("fetch.as_a_replica:replica 4711.*", "no followers: whoever asks is a consumer"),
    Allowed("fetch.last_fetched_epoch:epoch [15] at *", "only followers tell it: not looked at"),
    # ---- where we are stricter, so that no client's bytes are guessed at
    Allowed("framing.bodies_too_long:*", "bytes after the last field close the connection", _we_close),
    Allowed("framing.*:*not UTF-8", "strings must be UTF-8", _we_close),
    Allowed("framing.headers:client id -2", "-1 alone means null", _we_close),
    Allowed(
        "produce.unusual_batches:log append time bit.*", "only the server sets it; Kafka clears it unsaid"
    ),
    Allowed("produce.unusual_batches:read back*partitions(5).*", "the record of the line above"),
    Allowed("produce.broken_batches:a byte after*", "one whole batch and nothing else, as from every client"),
    # ---- where we are more helpful
    Allowed("api_versions.software_names:*", "any client name will do: refusing it helps nobody"),
    Allowed(
        "api_versions.unknown_versions:*.api_keys*", "the whole list beside error 35: no need to ask again"
    ),
    Allowed("produce.null_records:*", "Kafka never answers (a NullPointerException): INVALID_RECORD here"),
    Allowed("produce.twice_in_one_request:*", "both are stored and answered; Kafka drops the first unsaid"),
    Allowed("fetch.partition_limit:limit -1.*", "Kafka fails inside; a limit below 1 is as 0 here"),
    Allowed("fetch.isolation:level 2.*", "Kafka fails inside on an unknown level; read_uncommitted here"),
    Allowed("fetch.isolation:level -1.*", "as level 2"),
    Allowed("produce.broken_*:*.error_code", "Kafka fails inside: an error with a name here", _kafka_fails),
    Allowed("produce.broken_batches:*partition_responses(1).*", WHOLE_REQUEST, _ours_is_stored),
    Allowed("produce.broken_batches:*, read back.*partitions(1).*", WHOLE_REQUEST, _ours_is_stored),
    Allowed("create_partitions.internal:*", "Kafka grows the offsets topic, and its groups are lost"),
    Allowed("create_partitions.too_many:*.error_code", "Kafka fails inside on so many", _kafka_fails),
    Allowed("alter_configs.incremental_faults:operation 4.*.error_code", "Kafka fails inside", _kafka_fails),
    Allowed("alter_configs.incremental_faults:operation 4.*.error_message", "as above", _we_say_why),
    Allowed("describe_topic_partitions.named:bad names.*", "Kafka fails inside on the name without letters"),
    # ---- broker configs: fewer of them can be changed, and nothing is kept that means nothing to anybody
    Allowed(
        "alter_configs.broker_values:*log.retention.ms=-2.*", "Kafka has no range for it; the topics' here"
    ),
    Allowed("alter_configs.broker_faults:unknown.*", "Kafka keeps any name: a slip of the pen here"),
    Allowed("alter_configs.broker_faults:client metrics.*", "no subscriptions to client metrics"),
    Allowed("describe_configs.unknown:type *.error_message", "which type it was", _we_say_why),
    Allowed("describe_configs.groups_and_metrics:*.configs*", "none: those of Kafka are for newer groups"),
    # ---- where Kafka tells of its own ways
    Allowed("nothing_there.quorum:*.high_watermark", "the catalog's revision, not the end of Kafka's log"),
    Allowed("nothing_there.quorum:*.log_end_offset", "as the high watermark"),
    Allowed("nothing_there.quorum:*.leader_epoch", "one life of one leader; Kafka elects anew at each start"),
    Allowed("nothing_there.quorum:*.listeners*", "the gateway's own listener: there is no controller apart"),
    Allowed("*:*configs(min.insync.replicas)*", "Kafka stores its default as a cluster-wide dynamic config"),
    Allowed("produce.unusual_batches:id without epoch.*", "an id without an epoch: no producer sends it"),
    Allowed("produce.unusual_batches:read back*partitions(21).*", "the record of the line above"),
    Allowed("describe_log_dirs.*:*.log_dir", "stores are the directories, and where theirs is is their own"),
    Allowed(
        "describe_log_dirs.*:*.usable_bytes",
        "asked at another moment, on a disk that others use",
        sometimes=True,
    ),
    Allowed(
        "describe_log_dirs.*:*.total_bytes",
        "as usable_bytes: the two servers may have other disks",
        sometimes=True,
    ),
    # ---- batches
    Allowed("produce.broken_records:wrong offset delta.*", PLACES),
    Allowed("produce.broken_records:attributes set.*", ATTRIBUTES),
    Allowed("produce.broken_records:read back.*partitions(9).*", PLACES),
    Allowed("produce.broken_records:read back.*partitions(10).*", ATTRIBUTES),
    # ---- who somebody is, and what he may do
    Allowed("sasl.scram_nobody:*", NOBODY_LEARNS),
    Allowed(
        "sasl.scram_messages:reserved extension,*", "refused at once; Kafka forgets it, and the proof fails"
    ),
    Allowed("sasl.scram_messages:another binding,*", "what was said first is compared; Kafka does not look"),
    Allowed("sasl.scram_messages:short proof,*", "as for every wrong proof; Kafka fails inside, and closes"),
    Allowed("scram_users.odd_values*:*.error_code", "by what is refused here nobody could come in"),
    Allowed("acl_administration.taken_and_refused*:*.error_code", "Kafka fails inside", _kafka_fails),
    Allowed("acl_administration.taken_and_refused*:*.error_message", "as above"),
    Allowed("authorization_records.written*:*.log_start_offset", LOG_START),
    Allowed("authorization_records.followed*:as replica 4711.*", "no followers", _kafka_follows),
    Allowed("authorization_topics.log_directories*:*.log_dir", "as in describe_log_dirs"),
    Allowed("authorization_topics.log_directories*:*_bytes", "as in describe_log_dirs", sometimes=True),
    Allowed("authorization_topics.configs_seen*:logger.*.error_code", "no loggers", _kafka_serves),
    Allowed(
        "authorization_topics.configs_*:groups.*.error_code", "configs of newer groups alone", _kafka_serves
    ),
    Allowed(
        "authorization_topics.configs_*:client metrics.*.error_code",
        "no subscriptions to client metrics",
        _kafka_serves,
    ),
    Allowed(
        "authorization_topics.configs_replaced*:brokers.*",
        "Kafka's default of min.insync.replicas is in its way",
    ),
]


def find(difference: Difference) -> Allowed | None:
    """The entry that allows this difference."""
    # '[' opens a character class in fnmatch: patterns are written with '(0)' for '[0]'.
    subject = f"{difference.case}:{difference.path}".replace("[", "(").replace("]", ")")
    for entry in ALLOWED:
        holds = fnmatchcase(subject, entry.where) and not any(fnmatchcase(subject, p) for p in entry.but)
        if holds and entry.when(difference.kafka, difference.ours):
            return entry
    return None
