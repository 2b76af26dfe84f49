"""What a replay keeps beside the archive, so that a later call goes on with the same one. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from dafka_pipeline.failures import Refused
from dafka_pipeline.kafka.cluster import TopicPartition
from dafka_pipeline.ranges import Span

FORMAT: Final = 1
FOLDER: Final = "_pipeline/replays"
SENDING, SENT = "sending", "sent"


@dataclass(frozen=True)
class Pinned:
    """One replay.

    archive: its archive's id. version: of the table. selection: as JSON (see `selection.Selection`).
    spans: what is replayed. topic_ids: which topic of each name.
    created: topics that the replay makes, with the configs that they get when it is done.
    done: up to which offset each source partition's records are in the target (with KEEP).
    threshold: up to which place in the merged order records are in the target (with BY_KEY).
    """

    stream: str
    archive: str
    version: int
    selection: str
    append: bool
    spans: tuple[Span, ...]
    topic_ids: Mapping[str, str]
    created: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    done: Mapping[TopicPartition, int] = field(default_factory=dict)
    threshold: tuple[int, ...] = ()
    state: str = SENDING

    def sent_up_to(self, spans: Mapping[TopicPartition, int]) -> Pinned:
        return replace(self, done={**self.done, **spans})

    def to_json(self) -> str:
        return json.dumps(
            {
                "dafka_replay": FORMAT,
                "id": self.stream,
                "archive": self.archive,
                "version": self.version,
                "selection": self.selection,
                "append": self.append,
                "spans": [list(span) for span in self.spans],
                "topic_ids": dict(self.topic_ids),
                "created": {topic: dict(configs) for topic, configs in self.created.items()},
                "done": [[*at, offset] for at, offset in sorted(self.done.items())],
                "threshold": list(self.threshold),
                "state": self.state,
            },
            indent=1,
        )


def parse_pinned(text: str) -> Pinned:
    """Raises Refused for a text that is not ours."""
    try:
        found: Any = json.loads(text)
        if found["dafka_replay"] != FORMAT:
            raise ValueError(f"format {found['dafka_replay']}")
        return Pinned(
            found["id"],
            found["archive"],
            found["version"],
            found["selection"],
            found["append"],
            tuple(Span(*one) for one in found["spans"]),
            found["topic_ids"],
            found["created"],
            {TopicPartition(topic, partition): offset for topic, partition, offset in found["done"]},
            tuple(found["threshold"]),
            found["state"],
        )
    except (ValueError, KeyError, TypeError) as error:
        raise Refused(
            f"What is kept of the replay cannot be read ({error}): it was made by another version, or "
            "damaged. Start over with another --id, into empty topics."
        ) from error


def check_same(kept: Pinned, asked: Pinned, *, version_given: bool) -> None:
    """Whether a call may go on with what is kept. Raises Refused, with what differs."""
    differing = []
    if kept.archive != asked.archive:
        differing.append("the archive is another one")
    if version_given and kept.version != asked.version:
        differing.append(f"it was begun at version {kept.version} of the table, not {asked.version}")
    if kept.selection != asked.selection:
        differing.append("topics, targets, partitions, offsets or times differ")
    if kept.append != asked.append:
        differing.append("--append differs")
    if differing:
        raise Refused(
            f"The id {kept.stream} belongs to another replay: {'; '.join(differing)}. Give the options it "
            "was begun with, or another --id."
        )
