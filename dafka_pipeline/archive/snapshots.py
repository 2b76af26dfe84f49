"""What a replay needs to put topics back as they were: their configs, and what groups had committed.

Kept as JSON beside the table, taken at a start, when topics change, every few minutes, and at the end of
`--once`:

    _pipeline/topics.json   {TOPIC: {"id": ..., "partitions": N, "configs": {NAME: VALUE}}}
    _pipeline/groups.json   {"taken_at": MILLISECONDS, "groups": {GROUP: {TOPIC: {PARTITION: {"offset": N,
    "metadata": ""}}}}}
"""

from __future__ import annotations

import json
import time
from typing import Any, Final

from dafka_pipeline.archive.plan import Look
from dafka_pipeline.failures import KafkaAway, PipelineError
from dafka_pipeline.kafka.cluster import Cluster
from dafka_pipeline.kafka.groups import Committed, committed_offsets
from dafka_pipeline.running.report import Report
from dafka_pipeline.table import layout
from dafka_pipeline.table.archive import Archive

EVERY_SECONDS: Final = 300.0
"""Groups commit all the time; a copy of where they are is worth a few minutes of it."""


class Snapshots:
    """The two files, and when they were last written."""

    def __init__(self, archive: Archive, cluster: Cluster, report: Report) -> None:
        self._archive = archive
        self._cluster = cluster
        self._report = report
        self._taken_at: float | None = None
        self._topics: dict[str, str | None] = {}

    def take_if_due(self, look: Look) -> None:
        """Take them when topics have changed or they are old. Raises KafkaAway."""
        topics = {name: topic.topic_id for name, topic in look.topics.items()}
        due = self._taken_at is None or time.monotonic() - self._taken_at >= EVERY_SECONDS
        if due or topics != self._topics:
            self.take(look)

    def take(self, look: Look) -> None:
        """Take them now. A cluster that does not let us see configs or groups is no reason to stop
        archiving.
        """
        try:
            self._archive.files.write(layout.TOPICS_FILE, self._described(look))
            groups = committed_offsets(self._cluster, look.topics)
        except KafkaAway:
            raise
        except PipelineError as error:
            self._report.say(f"Topics' configs and groups' offsets are not kept for a replay: {error}")
        else:
            kept = {"taken_at": int(time.time() * 1000), "groups": self._with_gone(groups, look)}
            self._archive.files.write(layout.GROUPS_FILE, json.dumps(kept, sort_keys=True))
        self._topics = {name: topic.topic_id for name, topic in look.topics.items()}
        self._taken_at = time.monotonic()

    def _with_gone(self, groups: Committed, look: Look) -> Committed:
        """What is committed now, and what was last known of topics that are gone."""
        kept: Committed = json.loads(self._archive.files.read(layout.GROUPS_FILE) or "{}").get("groups", {})
        for group, topics in kept.items():
            for topic, partitions in topics.items():
                if topic not in look.topics:
                    groups.setdefault(group, {})[topic] = partitions
        return groups

    def _described(self, look: Look) -> str:
        """Topics that are gone keep what was last known of them: they are what a replay is for."""
        kept: dict[str, Any] = json.loads(self._archive.files.read(layout.TOPICS_FILE) or "{}")
        for name, topic in look.topics.items():
            kept[name] = {
                "id": topic.topic_id,
                "partitions": topic.partitions,
                "configs": self._cluster.configs(name),
            }
        return json.dumps(kept, indent=1, sort_keys=True)
