"""The replay itself: pinned at its first start, sent in rounds, audited at its end."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from dafka_pipeline.audit.report import as_text
from dafka_pipeline.audit.settings import AuditOptions
from dafka_pipeline.audit.verdict import Verdict
from dafka_pipeline.failures import Refused, Stopped
from dafka_pipeline.kafka.cluster import Cluster, TopicPartition
from dafka_pipeline.kafka.options import KafkaOptions
from dafka_pipeline.producing import Plan, Publisher, Timing
from dafka_pipeline.producing.plan import AUTO
from dafka_pipeline.producing.stream_file import Tail, parse_stream
from dafka_pipeline.ranges import Span, fair_spans, span_sum
from dafka_pipeline.replay import targets
from dafka_pipeline.replay.auditing import Landed, audit_replay, landed
from dafka_pipeline.replay.by_key import merging_of, rows_of
from dafka_pipeline.replay.groups import Committed, archived_groups, check_inactive, commit, mapped
from dafka_pipeline.replay.merging import Place
from dafka_pipeline.replay.pinned import FOLDER, SENT, Pinned, check_same, parse_pinned
from dafka_pipeline.replay.selection import KEEP, Selection, default_id
from dafka_pipeline.replay.source import Facts, Source, open_source
from dafka_pipeline.running.fail_points import fail_point
from dafka_pipeline.running.report import Progress, Report
from dafka_pipeline.running.stopping import Stop
from dafka_pipeline.running.waiting import patiently
from dafka_pipeline.table import layout
from dafka_pipeline.table.archive import Archive, open_archive
from dafka_pipeline.table.location import Location
from dafka_pipeline.table.lock import held

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROUND_OFFSETS: Final = 1 << 20
"""Offsets of a round: what is sorted at a time."""
ROUND_SECONDS: Final = 15.0
"""How long a round lasts whose rate is limited: well within its lease."""


@dataclass(frozen=True)
class ReplaySettings:
    """What a replay is asked to do; see the command."""

    location: Location
    version: int | None
    selection: Selection
    stream: str = ""
    append: bool = False
    create: bool = False
    groups: bool = False
    overwrite_groups: bool = False
    accept_log_append_time: bool = False
    audit: bool = True
    transactions: str = AUTO
    records_per_second: float = 0.0
    compression: str = "lz4"
    round_offsets: int = ROUND_OFFSETS
    timing: Timing = field(default_factory=Timing)


@dataclass
class Outcome:
    """What came of it. verdict: None where no audit was asked for."""

    stream: str
    records: int = 0
    verdict: Verdict | None = None
    notes: list[str] = field(default_factory=list)


class Replay:
    """One call of the job."""

    def __init__(
        self,
        spark: SparkSession,
        kafka: KafkaOptions,
        settings: ReplaySettings,
        report: Report,
        stop: Stop,
        patience_seconds: float | None = None,
    ) -> None:
        self._spark = spark
        self._settings = settings
        self._selection = settings.selection
        self._report = report
        self._stop = stop
        self._patience = patience_seconds
        self._cluster = Cluster(kafka)
        self._archive: Archive = open_archive(spark, settings.location)
        self._records = 0

    def run(self) -> Outcome:
        """Send what is not in the targets yet, then audit. Raises what its parts raise."""
        archive_id = self._archive_id()
        stream = self._settings.stream or default_id(
            archive_id,
            self._selection,
            self._cluster.options.bootstrap,
            append=self._settings.append,
            version=self._settings.version,
        )
        self._name = f"{FOLDER}/{stream}"
        with held(self._settings.location / f"{self._name}.lock", f"The replay {stream}"):
            pinned, source = self._pin(archive_id, stream)
            self._report.say(
                f"Replay {stream}: {span_sum(pinned.spans):,} offsets of version {pinned.version} of "
                f"{self._settings.location}.",
                id=stream,
            )
            if self._settings.groups:
                self._check_groups(source)
            self._make_topics(pinned)
            pinned = self._send(pinned, source)
            return self._finish(pinned, source)

    def _archive_id(self) -> str:
        newest = self._archive.newest()
        assert newest is not None, "open_archive has seen one"
        return newest.said.archive

    # pinning ----------------------------------------------------------------------------------------------

    def _pin(self, archive_id: str, stream: str) -> tuple[Pinned, Source]:
        """What was pinned at the first start, which this may be."""
        settings = self._settings
        text = self._archive.files.read(f"{self._name}.json")
        before = parse_pinned(text) if text is not None else None
        version = before.version if before is not None and settings.version is None else settings.version
        source = open_source(self._spark, settings.location, self._selection, version)
        asked = Pinned(
            stream,
            archive_id,
            source.version,
            self._selection.to_json(),
            settings.append,
            tuple(source.spans()),
            source.topic_ids,
        )
        begun = self._archive.files.exists(f"{self._name}.stream.json")
        if before is not None and (begun or before.created):
            check_same(before, asked, version_given=settings.version is not None)
            return before, source
        return self._pin_first(asked, source), source

    def _pin_first(self, asked: Pinned, source: Source) -> Pinned:
        if not asked.spans:
            raise Refused("The archive has no record of what is asked for: nothing to replay.")
        facts = source.facts(asked.spans)
        self._refuse_zeros(facts)
        created = self._patiently_checked(asked, facts)
        pinned = replace(asked, created={name: dict(one.configs) for name, one in created.items()})
        self._archive.files.write(f"{self._name}.json", pinned.to_json())
        fail_point("replay-pinned")
        return pinned

    def _refuse_zeros(self, facts: Mapping[str, Facts]) -> None:
        zeros = {topic: one.zeros for topic, one in facts.items() if one.zeros}
        if zeros:
            named = ", ".join(f"{count:,} of {topic}" for topic, count in sorted(zeros.items()))
            raise Refused(
                f"Records have the time 0 (1970-01-01T00:00:00.000; {named}), and librdkafka sends the "
                "present time for it. Choose the time that they get, e.g. --time-zero-as 1 for one "
                "millisecond later."
            )

    def _patiently_checked(self, asked: Pinned, facts: Mapping[str, Facts]) -> dict[str, targets.Archived]:
        return patiently(
            lambda: self._checked_targets(asked, facts), self._stop, self._report, self._patience
        )

    def _checked_targets(self, asked: Pinned, facts: Mapping[str, Facts]) -> dict[str, targets.Archived]:
        """Topics that are to be made; those that are there have been checked."""
        there = self._cluster.topics(set(self._selection.targets.values()))
        needed = _partitions_needed(asked.spans)
        created = {}
        for topic, target in sorted(self._selection.targets.items()):
            if target in there:
                if self._settings.create:
                    raise Refused(f"--create: {target} is there already. Leave --create out, or delete it.")
                targets.check(
                    self._cluster,
                    target,
                    facts.get(topic),
                    round(time.time() * 1000),
                    accept_log_append_time=self._settings.accept_log_append_time,
                )
                self._check_partitions(topic, target, there[target].partitions, needed)
            elif self._settings.create:
                created[target] = self._as_archived(topic, needed)
            else:
                raise Refused(f"There is no topic {target}. Create it, or use --create.")
        return created

    def _check_partitions(self, topic: str, target: str, there: int, needed: Mapping[str, int]) -> None:
        if self._selection.partitions == KEEP and there < needed.get(topic, 0):
            raise Refused(
                f"{target} has {there} partitions, and records of {topic} are in {needed[topic]}. Add "
                "partitions, or use --partitions by-key."
            )

    def _as_archived(self, topic: str, needed: Mapping[str, int]) -> targets.Archived:
        known = targets.archived_topics(self._archive.files.read(layout.TOPICS_FILE)).get(topic)
        if known is None:
            self._report.say(f"The archive does not know the configs of {topic}: it is made with defaults.")
            return targets.Archived(max(1, needed.get(topic, 1)), {})
        return replace(known, partitions=max(known.partitions, needed.get(topic, 0)))

    # sending ----------------------------------------------------------------------------------------------

    def _make_topics(self, pinned: Pinned) -> None:
        """The topics that this replay makes; a start before may have made some of them."""
        if self._archive.files.exists(f"{self._name}.stream.json"):
            return
        needed = _partitions_needed(pinned.spans)
        sources = {target: topic for topic, target in self._selection.targets.items()}
        for target in pinned.created:
            archived = self._as_archived(sources[target], needed)
            archived = replace(archived, configs=pinned.created[target])
            patiently(
                lambda name=target, one=archived: targets.create(self._cluster, name, one),  # type: ignore[misc]
                self._stop,
                self._report,
                self._patience,
            )
            fail_point("replay-created")

    def _send(self, pinned: Pinned, source: Source) -> Pinned:
        settings = self._settings
        plan = Plan(
            pinned.stream,
            self._cluster.options,
            tuple(sorted(self._selection.targets.values())),
            append=settings.append,
            transactions=settings.transactions,
            records_per_second=settings.records_per_second,
            compression=settings.compression,
            timing=settings.timing,
        )
        publisher = Publisher(
            self._spark, plan, self._archive.files, f"{self._name}.stream", self._stop, self._report
        )
        with publisher:
            if pinned.state == SENT:
                return pinned
            keep = self._selection.partitions == KEEP
            pinned = (self._send_kept if keep else self._send_by_key)(pinned, source, publisher)
        pinned = replace(pinned, state=SENT)
        self._archive.files.write(f"{self._name}.json", pinned.to_json())
        return pinned

    def _send_kept(self, pinned: Pinned, source: Source, publisher: Publisher) -> Pinned:
        """Rounds in the order of archived offsets."""
        done = self._where(pinned, publisher.progress())
        total = span_sum(pinned.spans)
        while True:
            waiting = [
                span._replace(start=done[place])
                for span in pinned.spans
                if done[place := TopicPartition(span.topic, span.partition)] < span.end
            ]
            if not waiting:
                return pinned
            if self._stop.asked:
                raise Stopped("asked to")
            spans = fair_spans(waiting, {}, self._round_offsets)
            published = publisher.publish(source.kept(spans))
            fail_point("replay-after-round")
            self._records += published.records
            done |= {TopicPartition(span.topic, span.partition): span.end for span in spans}
            pinned = pinned.sent_up_to(done)
            self._archive.files.write(f"{self._name}.json", pinned.to_json())
            left = span_sum(waiting) - span_sum(spans)
            rate = published.records / max(published.seconds, 1e-3)
            self._report.progress(Progress(total - left, total, rate))

    def _send_by_key(self, pinned: Pinned, source: Source, publisher: Publisher) -> Pinned:
        """Topic by topic, rounds in the merged order."""
        publisher.progress()
        topics = sorted(self._selection.targets)
        at, *place = pinned.threshold or (0,)
        start = Place(*place) if place else None
        for number, topic in list(enumerate(topics))[at:]:
            spans = [span for span in pinned.spans if span.topic == topic]
            partitions = len(publisher.stream.targets[self._selection.targets[topic]].floors)
            order = merging_of(source, topic, spans, int(self._round_offsets)) if spans else None
            rounds = order.rounds(start, int(self._round_offsets)) if order is not None else []
            total = done = sum(one.records for one in rounds)
            for one in rounds:
                if self._stop.asked:
                    raise Stopped("asked to")
                published = publisher.publish(rows_of(source, one, spans, partitions))
                fail_point("replay-after-round")
                self._records += published.records
                pinned = replace(pinned, threshold=(number, *one.end) if one.end else (number + 1,))
                self._archive.files.write(f"{self._name}.json", pinned.to_json())
                done -= one.records
                rate = published.records / max(published.seconds, 1e-3)
                self._report.progress(Progress(total - done, total, rate))
            start = None
        return pinned

    @property
    def _round_offsets(self) -> float:
        rate = self._settings.records_per_second
        limit = self._settings.round_offsets
        return min(limit, max(1.0, rate * ROUND_SECONDS)) if rate else limit

    def _where(self, pinned: Pinned, progress: Mapping[TopicPartition, Tail]) -> dict[TopicPartition, int]:
        """The next offset of each source partition: what the targets say, and rounds that had no record."""
        found = {}
        for span in pinned.spans:
            place = TopicPartition(span.topic, span.partition)
            tail = progress.get(TopicPartition(self._selection.targets[span.topic], span.partition))
            behind = tail.position[0] + 1 if tail is not None else span.start
            found[place] = max(behind, pinned.done.get(place, span.start))
        return found

    # the end ----------------------------------------------------------------------------------------------

    def _finish(self, pinned: Pinned, source: Source) -> Outcome:
        outcome = Outcome(pinned.stream, self._records)
        stream = parse_stream(self._archive.files.read(f"{self._name}.stream.json") or "")
        found = patiently(
            lambda: landed(self._spark, self._cluster, stream), self._stop, self._report, self._patience
        )
        if self._settings.audit:
            options = AuditOptions(ignore_type=True, say=self._report.say)
            outcome.verdict = audit_replay(source, pinned.spans, found, options)
            if not outcome.verdict.equal:
                outcome.notes.append(as_text(outcome.verdict))
                return outcome
        if self._settings.groups:
            outcome.notes += self._commit_groups(source, found)
        for name, configs in pinned.created.items():
            targets.restore(self._cluster, name, configs)
            outcome.notes += retention_notes(name, configs)
        return outcome

    def _archived_groups(self, source: Source) -> list[Committed]:
        text = self._archive.files.read(layout.GROUPS_FILE)
        return archived_groups(text, self._selection.targets, source.places())

    def _check_groups(self, source: Source) -> None:
        """What stands against --groups is said before anything is sent."""
        if self._selection.partitions != KEEP:
            raise Refused(
                "--groups: by key a group's place in one partition is a place in all of them. Replay with "
                "--partitions keep, or without --groups."
            )
        groups = {one.group for one in self._archived_groups(source)}
        patiently(lambda: check_inactive(self._cluster, groups), self._stop, self._report, self._patience)

    def _commit_groups(self, source: Source, found: Landed) -> list[str]:
        wanted = mapped(self._archived_groups(source), found)
        check_inactive(self._cluster, {one.group for one in wanted})
        done, left = commit(self._cluster, wanted, overwrite=self._settings.overwrite_groups)
        said = [f"{done:,} committed offsets of {len({one.group for one in wanted}):,} groups are set."]
        if left:
            said.append(
                f"{len(left):,} were left as they are: the group has committed there itself "
                "(--overwrite-groups replaces that)."
            )
        return said


def _partitions_needed(spans: tuple[Span, ...]) -> dict[str, int]:
    needed: dict[str, int] = {}
    for span in spans:
        needed[span.topic] = max(needed.get(span.topic, 0), span.partition + 1)
    return needed


def retention_notes(name: str, configs: Mapping[str, str]) -> list[str]:
    """What the archived configs of a topic will do to its records now that they are in force again."""
    kinds = [
        f"{setting}={configs[setting]}"
        for setting in ("cleanup.policy", "retention.ms", "retention.bytes")
        if setting in configs
    ]
    told = ", ".join(kinds) if kinds else "the server's own retention"
    said = f"{name} has its archived configs again ({told}): what is past that retention goes from now on."
    return [said]
