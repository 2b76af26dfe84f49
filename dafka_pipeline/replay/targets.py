"""The topics that a replay writes to: made as they were archived, or checked where they are there."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from dafka_pipeline.failures import PipelineError, Refused
from dafka_pipeline.kafka.cluster import ANSWER_SECONDS, Cluster, asked
from dafka_pipeline.replay.source import Facts

HEADER_ROOM_BYTES: Final = 1024
"""How much larger than archived a record may become by its position header."""
FOREVER: Final = str((1 << 63) - 1)
HELD: Final = {
    # Retention would delete records whose times are long past, as soon as they are there.
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "cleanup.policy": "delete",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": FOREVER,
    "message.timestamp.after.max.ms": FOREVER,
}
"""What a topic that a replay makes has until the replay is done."""
RAISED: Final = "max.message.bytes"
VISIBLE_SECONDS: Final = 30.0
"""How long a topic may take until it can be described."""
DAY_MS: Final = 86_400_000


@dataclass(frozen=True)
class Archived:
    """A topic as the archive's job saw it last."""

    partitions: int
    configs: Mapping[str, str]


def archived_topics(text: str | None) -> dict[str, Archived]:
    """From `_pipeline/topics.json`."""
    found: dict[str, Any] = json.loads(text or "{}")
    return {name: Archived(one["partitions"], one["configs"]) for name, one in found.items()}


def create(cluster: Cluster, name: str, archived: Archived) -> None:
    """Make a topic with its archived configs, and those that hold what is old until the replay is done.

    One that is there already is left as it is. Raises PipelineError, KafkaAway.
    """
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import NewTopic

    configs = {**archived.configs, **HELD}
    topic = NewTopic(name, num_partitions=archived.partitions, replication_factor=-1, config=configs)
    with asked(f"to create {name}", cluster.options):
        try:
            cluster.admin.create_topics([topic], request_timeout=ANSWER_SECONDS)[name].result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
    _await(cluster, name, archived.partitions)
    largest = cluster.config(name, RAISED)
    if largest is not None:
        wanted = int(archived.configs.get(RAISED, largest)) + HEADER_ROOM_BYTES
        alter(cluster, name, {RAISED: str(wanted)})


def _await(cluster: Cluster, name: str, partitions: int) -> None:
    """Until the whole cluster knows the topic."""
    deadline = time.monotonic() + VISIBLE_SECONDS
    while True:
        found = cluster.topics([name])
        if name in found and found[name].partitions == partitions:
            return
        if time.monotonic() > deadline:
            raise PipelineError(f"{name} was created, but the cluster does not show it. Start again.")
        time.sleep(0.1)


def restore(cluster: Cluster, name: str, configs: Mapping[str, str]) -> None:
    """The configs as archived, now that the replay is done."""
    wanted: dict[str, str | None] = {setting: configs.get(setting) for setting in (*HELD, RAISED)}
    alter(cluster, name, wanted)


def alter(cluster: Cluster, name: str, configs: Mapping[str, str | None]) -> None:
    """Set configs of a topic; None goes back to the server's default."""
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

    entries = [
        ConfigEntry(
            setting,
            value,
            incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
        )
        for setting, value in configs.items()
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=entries)
    with asked(f"to set the configs of {name}", cluster.options):
        cluster.admin.incremental_alter_configs([resource], request_timeout=ANSWER_SECONDS)[resource].result()


def check(
    cluster: Cluster, name: str, facts: Facts | None, now_ms: int, *, accept_log_append_time: bool
) -> None:
    """Whether what a replay sends would stay in a topic as it is sent. Raises Refused, KafkaAway."""
    settings = {
        setting: cluster.config(name, setting) for setting in (*HELD, "message.timestamp.difference.max.ms")
    }
    wrong = problems(name, settings, facts, now_ms, accept_log_append_time=accept_log_append_time)
    if wrong:
        raise Refused(" ".join(wrong))


def problems(
    name: str,
    settings: Mapping[str, str | None],
    facts: Facts | None,
    now_ms: int,
    *,
    accept_log_append_time: bool,
) -> list[str]:
    """What in a topic's configs stands against a replay into it. Pure."""
    found = []
    if "compact" in (settings["cleanup.policy"] or ""):
        found.append(
            f"{name} is compacted (cleanup.policy={settings['cleanup.policy']}): it would remove records "
            "while they are replayed, and with them what tells how far a replay is. Set "
            "cleanup.policy=delete until the replay is done, or let --create make the topic: it does that."
        )
    if settings["message.timestamp.type"] == "LogAppendTime" and not accept_log_append_time:
        found.append(
            f"{name} has message.timestamp.type=LogAppendTime: the records' times would be lost. Set "
            "CreateTime, or accept it with --accept-log-append-time."
        )
    if _number(settings["retention.bytes"]) >= 0:
        found.append(
            f"{name} has retention.bytes={settings['retention.bytes']}: it could delete records before the "
            "replay is done. Set retention.bytes=-1 until then, or let --create make the topic."
        )
    if facts is not None and facts.records:
        found += _times(name, settings, facts, now_ms)
    return found


def _times(name: str, settings: Mapping[str, str | None], facts: Facts, now_ms: int) -> list[str]:
    found = []
    retention = _number(settings["retention.ms"])
    # A record without a time counts as new.
    oldest = max(facts.oldest_ms, 0)
    if retention >= 0 and oldest < now_ms + DAY_MS - retention:
        found.append(
            f"{name} has retention.ms={retention}, and the oldest record's time is {oldest} (milliseconds "
            "since 1970): the server would delete it at once, or within a day. Set retention.ms=-1 until "
            "the replay is done, or let --create make the topic: it does that."
        )
    before = _number(settings["message.timestamp.before.max.ms"])
    after = _number(settings["message.timestamp.after.max.ms"])
    either = _number(settings.get("message.timestamp.difference.max.ms"))
    if 0 <= before < now_ms - facts.oldest_ms or 0 <= either < now_ms - facts.oldest_ms:
        found.append(
            f"{name} refuses times that are more than {before if before >= 0 else either} ms past "
            f"(message.timestamp.before.max.ms), and the oldest is {facts.oldest_ms}. Raise it."
        )
    if 0 <= after < facts.newest_ms - now_ms or 0 <= either < facts.newest_ms - now_ms:
        found.append(
            f"{name} refuses times that are more than {after if after >= 0 else either} ms ahead "
            f"(message.timestamp.after.max.ms), and the newest is {facts.newest_ms}. Raise it."
        )
    return found


def _number(value: str | None) -> int:
    return -1 if value is None else int(value)
