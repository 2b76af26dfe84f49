"""The stream of what changes on a page."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from typing import Final

from gateway.http.connection import Answer, Send
from gateway.http.failures import Failure, bad_parameter
from gateway.http.limits import MAX_LIMIT, MAX_STREAMS
from gateway.http.live import Source, follow
from gateway.http.live_records import LiveRecords, begin, followed, parse_event_id
from gateway.http.live_rows import (
    ClientsRows,
    GroupRows,
    GroupsRows,
    MeshRows,
    Now,
    TopicRows,
    TopicsRows,
)
from gateway.http.router import Ask, Parameter, Route
from gateway.http.routes.groups import find_group
from gateway.http.routes.records import parse_from
from gateway.http.routes.topics import find_topic
from gateway.http.target import split_keys
from gateway.http.view import View
from wireproto.kafka.errors import KafkaError

VIEWS: Final = ("now", "topics", "topic", "groups", "group", "mesh", "clients", "records")

EVENT_STREAM: Final = "text/event-stream"


async def events(ask: Ask) -> Answer:
    """The route."""
    view, target = ask.view, ask.target
    target.only("view", "topic", "group", "partition", "keys", "from", "resume")
    keys = split_keys(target.text("keys"))
    if len(keys) > MAX_LIMIT:
        raise bad_parameter("keys", f"{len(keys)} keys", f"{MAX_LIMIT} keys at most")
    if view.streams >= MAX_STREAMS:
        raise Failure(
            HTTPStatus.SERVICE_UNAVAILABLE,
            "crowded",
            f"{view.streams} pages are followed already",
            "Close one, or look without live updates.",
            (("Retry-After", "10"),),
        )
    source = await _source(ask, target.choice("view", VIEWS), keys)
    sources: list[Source] = [Now(view)] if source is None else [Now(view), source]
    headers = [("Content-Type", EVENT_STREAM), ("Cache-Control", "no-store"), ("X-Accel-Buffering", "no")]
    return Answer(HTTPStatus.OK, headers, stream=partial(_counted, view, sources))


async def _counted(view: View, sources: list[Source], send: Send) -> None:
    view.streams += 1
    try:
        await follow(view, sources, send)
    finally:
        view.streams -= 1


async def _source(ask: Ask, name: str, keys: list[str]) -> Source | None:
    """What a view shows; None for nothing besides the overview. Raises Failure."""
    view, target = ask.view, ask.target
    topic, group = target.text("topic"), target.text("group")
    match name:
        case "topics":
            return TopicsRows(view, keys)
        case "topic":
            find_topic(view, topic)
            return TopicRows(view, topic, keys)
        case "groups":
            return GroupsRows(view, keys)
        case "group":
            find_group(view, group)
            return GroupRows(view, group, keys)
        case "mesh":
            return MeshRows(view)
        case "clients":
            return ClientsRows(view)
        case "records":
            return await _records(ask, topic)
        case _:
            return None


async def _records(ask: Ask, name: str) -> LiveRecords:
    view, target = ask.view, ask.target
    topic, partition = find_topic(view, name), target.text("partition", "all")
    followed(topic, partition)
    resume = target.text("resume")
    resumed = parse_event_id(resume) if resume else None
    if resume and resumed is None:
        raise bad_parameter("resume", resume, "the id of an event, as p0:123,p1:77")
    # A browser that connects again by itself sends the same target: what it had got since is in the header.
    positions = parse_event_id(ask.headers.get(b"last-event-id", b"").decode("latin-1"))
    if positions is None:
        positions = resumed
    if positions is None:
        where = target.text("from")
        try:
            positions = await begin(topic, partition, parse_from(where) if where else None)
        except KafkaError as error:
            raise Failure(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "not-ready",
                f"{error.code.name}: {error.message}",
                "Try again in a moment.",
            ) from None
    return LiveRecords(view, name, partition, positions)


ROUTES: Final = (
    Route(
        "events",
        "What changes, as server-sent events.",
        events,
        (
            Parameter("view", {"type": "string", "enum": list(VIEWS), "default": "now"}),
            Parameter("topic", {"type": "string"}, "Of the views topic and records."),
            Parameter("group", {"type": "string"}, "Of the view group."),
            Parameter("partition", {"type": "string", "default": "all"}, "Of the view records."),
            Parameter("keys", {"type": "string"}, "The rows that can be seen, with commas between them."),
            Parameter("from", {"type": "string"}, "Where the view records begins; the ends without it."),
            Parameter("resume", {"type": "string"}, "The id of the last event, as Last-Event-ID."),
        ),
        content_type=EVENT_STREAM,
    ),
)
