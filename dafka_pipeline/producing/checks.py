"""Whether a stream may write to its targets: asked before anything is sent."""

from __future__ import annotations

import logging
from typing import Final

from dafka_pipeline.failures import Refused
from dafka_pipeline.kafka.cluster import Cluster, Topic, TopicPartition
from dafka_pipeline.kafka.options import KafkaOptions
from dafka_pipeline.producing.plan import AUTO, NO, YES, Plan
from dafka_pipeline.producing.positions import prefix_of
from dafka_pipeline.producing.stream_file import Stream, Tail, Target
from dafka_pipeline.producing.tail import Found, read_tails

PROBE_SECONDS: Final = 15.0
"""How long a server may take to show that it has transactions."""


def open_stream(cluster: Cluster, plan: Plan) -> Stream:
    """A stream that has never sent anything.

    Raises Refused where a target is missing, or holds records and the plan does not allow that; KafkaAway.
    """
    topics = _topics(cluster, plan)
    partitions = [TopicPartition(name, n) for name, topic in topics.items() for n in range(topic.partitions)]
    begins, ends = cluster.first_offsets(partitions), cluster.end_offsets(partitions)
    full = [at for at in partitions if ends[at] > begins[at]]
    if full and not plan.append:
        raise Refused(
            f"{_named(full)} not empty, and nothing is known here of records of {plan.stream} in it. Give "
            "another topic, delete this one, or allow records of others with --append."
        )
    if full:
        _refuse_unknown_own(plan, {at: begins[at] for at in full})
    targets = {
        name: Target(topic.topic_id, tuple(ends[TopicPartition(name, n)] for n in range(topic.partitions)))
        for name, topic in topics.items()
    }
    return Stream(plan.stream, plan.header, has_transactions(plan), plan.append, targets)


def check_same(stream: Stream, plan: Plan, cluster: Cluster) -> None:
    """Whether a stream may go on with this plan. Raises Refused, KafkaAway."""
    if (stream.stream, stream.header) != (plan.stream, plan.header):
        raise Refused(f"What is kept here is of {stream.stream}, not of {plan.stream}. Give another --id.")
    if stream.append != plan.append:
        raise Refused(
            f"{stream.stream} was begun {'with' if stream.append else 'without'} --append: go on with it "
            "as it was."
        )
    if plan.transactions != AUTO and (plan.transactions == YES) != stream.transactions:
        raise Refused(
            f"{stream.stream} was begun {'with' if stream.transactions else 'without'} transactions: leave "
            "--transactions out, or start over with another --id."
        )
    if set(stream.targets) != set(plan.targets):
        raise Refused(
            f"{stream.stream} writes to {', '.join(sorted(stream.targets))}. Give another --id for other "
            "topics."
        )
    for name, topic in _topics(cluster, plan).items():
        known = stream.targets[name]
        if topic.topic_id != known.topic_id:
            raise Refused(
                f"{name} is not the topic that {stream.stream} has written to: it was deleted and made "
                "again. Give another --id to start over."
            )
        if topic.partitions != len(known.floors):
            raise Refused(
                f"{name} has {topic.partitions} partitions, and {stream.stream} began with "
                f"{len(known.floors)}. Give another --id and an empty topic to start over."
            )


def check_target(stream: Stream, at: TopicPartition, found: Found) -> Tail | None:
    """The last record of the stream in a target partition. Raises Refused where that is not what was sent.

    Where the target's retention has taken it since, it is the one that was acknowledged last.
    """
    name = f"{at.topic}-{at.partition}"
    known = stream.sent.get(at)
    if known is not None and found.tail is None and found.begins > known.offset:
        found = found._replace(tail=known)
    if known is not None and (found.tail is None or found.tail.position < known.position):
        there = f"ends at offset {found.tail.offset}" if found.tail else "has none of them left"
        raise Refused(
            f"{name} had acknowledged records of {stream.stream} up to offset {known.offset}, and {there}: "
            "it has lost some. Going on would leave a hole. Start over, with another --id and into an "
            "empty topic."
        )
    if found.foreign_after and not stream.append:
        raise Refused(
            f"{name} has records of others behind those of {stream.stream}: they would lie between its "
            "records. Replay into a topic that nobody else writes to, or start over with --append."
        )
    return found.tail


def has_transactions(plan: Plan) -> bool:
    """Whether to use transactions: where the plan leaves it open, the server is tried. Raises Refused."""
    if plan.transactions == NO:
        return False
    why = probe_transactions(plan.kafka, plan.stream)
    if why and plan.transactions == YES:
        raise Refused(f"--transactions yes: {plan.kafka.bootstrap} has none for us: {why}.")
    return not why


def probe_transactions(options: KafkaOptions, stream: str) -> str:
    """Why the server has no transactions for us; empty where it has."""
    from confluent_kafka import KafkaException, Producer

    settings = {**options.for_librdkafka(), "transactional.id": f"{stream}-probe"}
    try:
        # A server without them ends the client; that is no error to be shown.
        Producer(settings, logger=_silent()).init_transactions(PROBE_SECONDS)
    except KafkaException as error:
        return str(error.args[0].str())
    return ""


def _silent() -> logging.Logger:
    silent = logging.getLogger("dafka_pipeline.probe")
    silent.disabled = True
    return silent


def _topics(cluster: Cluster, plan: Plan) -> dict[str, Topic]:
    topics = cluster.topics(plan.targets)
    missing = sorted(set(plan.targets) - topics.keys())
    if missing:
        raise Refused(f"There is no topic {', '.join(missing)}. Create it, or use --create.")
    return topics


def _refuse_unknown_own(plan: Plan, floors: dict[TopicPartition, int]) -> None:
    found = read_tails(plan.kafka, plan.header, prefix_of(plan.stream), floors)
    own = [at for at, one in found.items() if one.tail is not None]
    if own:
        raise Refused(
            f"{_named(own)} holding records of {plan.stream}, but how far it was is not known here any "
            "more. Give another --id to append all of them once more."
        )


def _named(partitions: list[TopicPartition]) -> str:
    names = [f"{at.topic}-{at.partition}" for at in partitions[:3]]
    more = (
        f" and {len(partitions) - 3} more are"
        if len(partitions) > 3
        else " is"
        if len(names) == 1
        else " are"
    )
    return ", ".join(names) + more
