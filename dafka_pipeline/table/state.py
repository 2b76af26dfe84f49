"""How far an archive has come, as each commit of its archiver says it. Pure.

The rule: **the table decides.** A commit adds rows and says, in the same atomic step, up to which offset of
each partition everything is in the table. The next batch begins there, whatever process plans it. There is no
checkpoint beside the table that could be lost, older or newer than it.

Each commit has a number: its archiver's generation, and the batch in it (Delta's `txn` action). A table takes
no commit whose number is not above the newest. A start commits a fence first, the lowest number of the next
generation; from then on an archiver that was thought dead, or a second one, can add nothing. Only then does
it read how far the table is: a fence says nothing of ends, since a batch may have been added between the look
before it and the fence itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from dafka_pipeline.failures import Refused
from dafka_pipeline.ranges import Span

FORMAT: Final = 1
BATCH_BITS: Final = 32
"""How many bits of a commit's number count the batches of a generation. At a batch a second they last 136
years."""


@dataclass(frozen=True)
class TopicEnds:
    """One topic: which one of that name, and for each partition the offset that the table does not have yet.

    topic_id: None where the server has no ids.
    """

    topic_id: str | None
    ends: tuple[int, ...]


@dataclass(frozen=True)
class Fence:
    """The beginning of a generation.

    run: an id of the process that began it, which tells apart two that begin the same one.
    """

    archive: str
    generation: int
    run: str

    @property
    def number(self) -> int:
        """Above all numbers of the generations before."""
        return self.generation << BATCH_BITS

    def to_json(self) -> str:
        """As it stands in a commit (`userMetadata`)."""
        return _json(
            {
                "dafka_archive": FORMAT,
                "archive": self.archive,
                "generation": self.generation,
                "run": self.run,
            }
        )


@dataclass(frozen=True)
class State:
    """What a commit says.

    archive: an id made with the archive, 32 hex characters.
    topics: every topic of the archive by its name.
    spans: what this commit added: all records of these offsets.
    weights: the average bytes of a topic's records, by which batches are cut.
    """

    archive: str
    generation: int
    run: str
    batch: int = 0
    topics: Mapping[str, TopicEnds] = field(default_factory=dict)
    spans: tuple[Span, ...] = ()
    weights: Mapping[str, float] = field(default_factory=dict)

    @property
    def number(self) -> int:
        """What orders commits."""
        return (self.generation << BATCH_BITS) | self.batch

    def started_by(self, fence: Fence) -> State:
        """The same ends, as the first commit of a new generation says them."""
        return replace(self, generation=fence.generation, run=fence.run, batch=1, spans=())

    def after(self, spans: Iterable[Span]) -> State:
        """The state once the records of these spans are in the table.

        Each must begin where its partition's rows end: anything else would skip records or double them.
        """
        moved = tuple(sorted(spans))
        ends = {name: list(topic.ends) for name, topic in self.topics.items()}
        for span in moved:
            at = ends[span.topic][span.partition]
            if span.start != at:
                raise AssertionError(f"{span} does not begin at {at}")
            ends[span.topic][span.partition] = span.end
        topics = {name: replace(topic, ends=tuple(ends[name])) for name, topic in self.topics.items()}
        return replace(self, batch=self.batch + 1, topics=topics, spans=moved)

    def to_json(self) -> str:
        """As it stands in a commit (`userMetadata`)."""
        return _json(
            {
                "dafka_archive": FORMAT,
                "archive": self.archive,
                "generation": self.generation,
                "run": self.run,
                "batch": self.batch,
                "topics": {
                    name: {"id": topic.topic_id, "ends": list(topic.ends)}
                    for name, topic in sorted(self.topics.items())
                },
                "spans": [list(span) for span in self.spans],
                "weights": {name: round(weight, 1) for name, weight in sorted(self.weights.items())},
            }
        )


def parse_state(text: str | None) -> State | None:
    """The state in a commit's metadata; None where the commit is a fence, or not an archiver's.

    Raises Refused for the format of a later version.
    """
    found = _ours(text)
    if found is None or "topics" not in found:
        return None
    return State(
        archive=found["archive"],
        generation=found["generation"],
        run=found["run"],
        batch=found["batch"],
        topics={name: TopicEnds(one["id"], tuple(one["ends"])) for name, one in found["topics"].items()},
        spans=tuple(Span(*one) for one in found["spans"]),
        weights=found["weights"],
    )


def parse_run(text: str | None) -> str | None:
    """The run that made a commit, be it a fence or a batch; None where it is not an archiver's."""
    found = _ours(text)
    return None if found is None else str(found["run"])


def generation_of(number: int) -> int:
    """The generation that a commit's number belongs to."""
    return number >> BATCH_BITS


def batch_of(number: int) -> int:
    """Which batch of its generation a commit's number is."""
    return number & ((1 << BATCH_BITS) - 1)


def _ours(text: str | None) -> dict[str, Any] | None:
    try:
        found: Any = json.loads(text or "")
    except ValueError:
        return None
    if not isinstance(found, dict) or "dafka_archive" not in found:
        return None
    if found["dafka_archive"] != FORMAT:
        raise Refused(
            f"The archive is written in format {found['dafka_archive']}, and this version knows {FORMAT}: "
            "use the version that wrote it, or a newer one."
        )
    return found


def _json(fields: Mapping[str, Any]) -> str:
    return json.dumps(fields, separators=(",", ":"))
