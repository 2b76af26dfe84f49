"""Topics, their configs and their partitions."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING, Any, Final

from gateway.configs.describe import ConfigSource, Dynamic, describe_topic_configs
from gateway.configs.values import ConfigType
from gateway.http.failures import not_found
from gateway.http.limits import MAX_LIMIT, USUAL_LIMIT
from gateway.http.paging import Key, Page, cursor, order, page, parse_cursor
from gateway.http.router import Ask, Parameter, Route
from gateway.http.routes.overview import rounded
from gateway.http.sums import TopicSums
from gateway.http.target import whole_number
from gateway.http.view import View, now_ms
from gateway.log.partition import Partition, PartitionState
from gateway.log.segment import NO_TIMESTAMP

if TYPE_CHECKING:
    from gateway.log.topic import Topic

SORTS: Final = ("name", "bytes", "partitions", "offsets", "bytes_in", "records_in")

MAX_GROUPS: Final = 200
"""Groups of a topic that are named."""

_STATES: Final = {
    PartitionState.READY: "serving",
    PartitionState.RECOVERING: "recovering",
    PartitionState.FAILED: "failed",
    PartitionState.ELSEWHERE: "led by another gateway",
}


async def topics(ask: Ask) -> dict[str, Any]:
    """The route of all topics."""
    view, target = ask.view, ask.target
    target.only("q", "sort", "after", "limit", "internal")
    sort = target.choice("sort", (*SORTS, *(f"-{name}" for name in SORTS)))
    internal = target.choice("internal", ("false", "true")) == "true"
    limit = target.limit()
    by, descends = sort.removeprefix("-"), sort.startswith("-")
    after = parse_cursor(target.text("after"), (str,) if by == "name" else (float, str), descends=descends)
    part = target.text("q").casefold()
    await view.sums.first()
    async with view.turns.working():
        found = await page(
            view.broker.topics.all(),
            lambda topic: order(_key(view, topic, by), descends),
            after,
            limit,
            view.turns,
            lambda topic: (internal or not topic.internal) and part in topic.name.casefold(),
        )
        rows = []
        for topic in found.rows:
            rows.append(topic_row(view, topic))
            await view.turns.breathe()
    return listed(found._replace(rows=rows))


def _key(view: View, topic: Topic, by: str) -> Key:
    if by == "name":
        return (topic.name,)
    if by == "partitions":
        return len(topic.partitions), topic.name
    sums = view.sums.of(topic)
    return 0 if sums is None else getattr(sums, by) or 0, topic.name


def topic_row(view: View, topic: Topic) -> dict[str, Any]:
    """A topic in a list."""
    sums = view.sums.of(topic)
    partitions, settings = topic.partitions, topic.settings
    policies = [
        name
        for name, is_set in (("delete", settings.cleanup_delete), ("compact", settings.cleanup_compact))
        if is_set
    ]
    return {
        "name": topic.name,
        "id": _topic_id(topic),
        "internal": topic.internal,
        "partitions": len(partitions),
        "replication_factor": topic.replication_factor,
        "cleanup_policy": ",".join(policies),
        "retention_ms": str(settings.retention_ms),
        **_sums(sums),
    }


def _sums(sums: TopicSums | None) -> dict[str, Any]:
    if sums is None:
        names = ("bytes", "offsets", "records_in", "bytes_in", "serving", "under_replicated", "offline")
        return dict.fromkeys(names)
    return {
        "bytes": sums.bytes,
        "offsets": str(sums.offsets),
        "records_in": rounded(sums.records_in),
        "bytes_in": rounded(sums.bytes_in),
        "serving": sums.serving,
        "under_replicated": sums.under_replicated,
        "offline": sums.offline,
    }


def _topic_id(topic: Topic) -> str:
    """As Kafka's tools write it."""
    return urlsafe_b64encode(topic.id).decode().rstrip("=")


def listed(found: Page) -> dict[str, Any]:
    """A page as it is answered."""
    return {"as_of": now_ms(), "items": found.rows, "next": found.next, "total": found.total}


def find_topic(view: View, name: str) -> Topic:
    """The topic of this name. Raises Failure."""
    topic = view.broker.topics.get(name)
    if topic is None:
        raise not_found(
            "unknown-topic",
            f"there is no topic {name[:249]!r}",
            "Look at the list of topics; 'dafka topics create NAME' makes one.",
        )
    return topic


def find_partition(topic: Topic, text: str) -> Partition:
    """The partition of this number. Raises Failure."""
    index = whole_number(text)
    if index is None or index >= len(topic.partitions):
        raise not_found(
            "unknown-partition",
            f"topic {topic.name} has no partition {text[:20]!r}",
            f"It has {len(topic.partitions)}, from 0 on.",
        )
    return topic.partitions[index]


async def topic(ask: Ask) -> dict[str, Any]:
    """The route of one topic."""
    view = ask.view
    ask.target.only()
    find_topic(view, ask.places["topic"])
    await view.sums.first()
    one = find_topic(view, ask.places["topic"])
    async with view.turns.working():
        groups = await _groups_of(view, one.name)
        configs = _configs(view, one)
        await view.turns.breathe()
        found = await _partitions_page(view, one, None, USUAL_LIMIT)
    return {
        "as_of": now_ms(),
        **topic_row(view, one),
        "configs": configs,
        "groups": groups,
        "partitions_page": {"items": found.rows, "next": found.next, "total": found.total},
    }


async def _groups_of(view: View, name: str) -> dict[str, Any]:
    """The groups that have committed an offset of this topic."""
    found = []
    for done, group in enumerate(list(view.broker.groups.groups.values()), 1):
        if group.offsets.has_topic(name):
            found.append(group.group_id)
        if not done % 256:
            await view.turns.breathe()
    return {"items": sorted(found)[:MAX_GROUPS], "total": len(found)}


def _configs(view: View, topic: Topic) -> list[dict[str, Any]]:
    broker = view.broker
    described = describe_topic_configs(
        topic.configs, {}, Dynamic(broker.dynamic.node, broker.dynamic.cluster)
    )
    return [
        {
            "name": config.name,
            "value": config.value,
            "source": _SOURCES[config.source],
            "type": _TYPES.get(config.type, "string"),
            "documentation": config.documentation,
        }
        for config in described
    ]


_SOURCES: Final = {source: source.name.lower().replace("_", "-") for source in ConfigSource}
_TYPES: Final = {kind: kind.name.lower() for kind in ConfigType}


async def partitions(ask: Ask) -> dict[str, Any]:
    """The route of a topic's partitions."""
    view, target = ask.view, ask.target
    target.only("after", "limit")
    limit, after = target.limit(), parse_cursor(target.text("after"), (int,))
    find_topic(view, ask.places["topic"])
    await view.sums.first()
    one = find_topic(view, ask.places["topic"])
    async with view.turns.working():
        found = await _partitions_page(view, one, after, limit)
    return listed(found)


async def _partitions_page(view: View, topic: Topic, after: Key | None, limit: int) -> Page:
    every = topic.partitions
    first = 0 if after is None else max(0, after[0] + 1)
    rows = []
    for partition in every[first : first + limit]:
        rows.append(partition_row(view, topic, partition))
        await view.turns.breathe()
    following = cursor((first + limit - 1,)) if first + limit < len(every) else None
    return Page(rows, following, len(every))


def partition_row(view: View, topic: Topic, partition: Partition) -> dict[str, Any]:
    """A partition in a list."""
    broker, chain = view.broker, partition.chain
    members = partition.members
    replicas = broker.stores.replicas(members)
    sums = view.sums.of(topic)
    one = None if sums is None else sums.partitions.get(partition)
    segments = chain.segments()
    newest = max((opened.max_timestamp for opened in chain.open_segments()), default=NO_TIMESTAMP)
    if newest == NO_TIMESTAMP and (last := chain.last_closed) is not None:
        newest = last.max_timestamp
    return {
        "partition": partition.index,
        "state": _STATES[partition.state],
        "reason": None if partition.available else partition.reason,
        "leader": broker.gateways.leader(topic.id, partition.index),
        "leader_epoch": partition.leader_epoch,
        "stores": list(replicas.ids),
        "stores_here": list(replicas.in_sync),
        "min_copies": broker.context.w_for(partition, members),
        "start": str(partition.log_start_offset),
        "end": str(partition.high_watermark),
        "bytes": None if one is None else one.bytes,
        "segments": len(segments),
        "oldest_ms": segments[0].opened_ms if segments else None,
        "newest_ms": None if newest == NO_TIMESTAMP else str(newest),
        "records_in": None if one is None else rounded(one.records_in),
        "bytes_in": None if one is None else rounded(one.bytes_in),
    }


LIMIT: Final = Parameter(
    "limit",
    {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": USUAL_LIMIT},
    "Rows of a page.",
)
AFTER: Final = Parameter("after", {"type": "string"}, "`next` of the page before.")

ROUTES: Final = (
    Route(
        "topics",
        "Topics, in pages.",
        topics,
        (
            Parameter("q", {"type": "string"}, "A part of the name."),
            Parameter(
                "sort",
                {"type": "string", "enum": [*SORTS, *(f"-{name}" for name in SORTS)], "default": "name"},
            ),
            AFTER,
            LIMIT,
            Parameter("internal", {"type": "string", "enum": ["false", "true"], "default": "false"}),
        ),
    ),
    Route("topics/{topic}", "One topic, with its configs.", topic),
    Route("topics/{topic}/partitions", "Partitions of a topic, in pages.", partitions, (AFTER, LIMIT)),
)
