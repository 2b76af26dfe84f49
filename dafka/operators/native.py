"""The gateway's side of `dafka mesh subjects`: native records on their way into topics, and out of them."""

from __future__ import annotations

from heapq import nsmallest
from typing import TYPE_CHECKING, Any, Final

import trio

from gateway.cluster.native_addresses import MAX_NATIVE_ADDRESSES
from gateway.cluster.subject_names import published_subject
from gateway.native.positions import next_in
from gateway.native.topics import MAX_NATIVE_TOPICS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dafka.operators.socket import Handler
    from gateway.broker import Broker
    from gateway.cluster.native_addresses import KnownAddress
    from gateway.log.topic import Topic

MAX_NAMED_ADDRESSES: Final = 2_000
"""Addresses that an answer names one by one, the names that come first of each topic."""

LOOKED_AT_ONCE: Final = 200
"""Addresses in one stretch."""


class NativeRequestHandlers:
    """What one gateway does with the request `mesh.subjects`."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """The handlers, by what a request has as `do`."""
        return {"mesh.subjects": self._subjects}

    async def _subjects(self, request: dict[str, Any]) -> dict[str, Any]:
        """`native`: each topic with a subject; with `addresses` each address of it, too. `published`: each
        topic whose values native programs can read. `left_out`: topics that have a subject in vain, and why.
        `known`: addresses that the catalog knows, of `most`.
        """
        return {
            "native": await self._native(request),
            "published": self._published(),
            "left_out": self._left_out(),
            "known": len(self._broker.native_addresses),
            "most": MAX_NATIVE_ADDRESSES,
        }

    def _left_out(self) -> list[dict[str, Any]]:
        broker = self._broker
        intakes = {} if broker.native is None else broker.native.intakes
        told = []
        for topic in broker.topics.all():
            settings = topic.settings
            if settings.native_subject and topic.id not in intakes:
                full = len(intakes) >= MAX_NATIVE_TOPICS
                why = f"{len(intakes)} topics take up a subject, and no more may" if full else "not yet"
                told.append({"topic": topic.name, "subject": settings.native_subject, "why": why})
            subject = published_subject(topic.name, settings)
            if subject and (why := broker.subject_names.why_not(broker.topics, topic.name, settings)):
                told.append({"topic": topic.name, "subject": subject, "why": why})
        return told

    def _published(self) -> list[dict[str, Any]]:
        """Of each topic the partitions that are led here."""
        publishing = self._broker.publishing
        told: dict[tuple[str, str], dict[str, Any]] = {}
        for one in () if publishing is None else publishing.partitions:
            name = one.partition.topic.name, one.subject
            entry = told.setdefault(
                name, {"topic": name[0], "subject": name[1], "partitions": 0, "offsets": 0}
            )
            entry["partitions"] += 1
            entry["offsets"] += max(0, one.told_to - one.partition.log_start_offset)
        return [told[name] for name in sorted(told)]

    async def _native(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        broker = self._broker
        intakes = {} if broker.native is None else dict(broker.native.intakes)
        known: dict[bytes, dict[str, KnownAddress]] = {topic_id: {} for topic_id in intakes}
        for number, (topic_id, address, one) in enumerate(broker.native_addresses.all(), 1):
            if topic_id in known:
                known[topic_id][address] = one
            if number % LOOKED_AT_ONCE == 0:
                await trio.lowlevel.checkpoint()
        told = []
        for topic_id, intake in sorted(intakes.items(), key=lambda item: item[1].topic.name):
            addresses = known[topic_id]
            entry = {
                "topic": intake.topic.name,
                "subject": intake.subject,
                "addresses": len(addresses),
                "unknown": len(intake.unknown),
                "records": intake.records,
                "lag": intake.lag,
                "waiting_bytes": intake.waiting_bytes,
                "lost": intake.lost,
                "refused": intake.refused,
                "rewritten": len(intake.rewrites),
            }
            if request.get("addresses"):
                entry["named"] = named = []
                for name in nsmallest(MAX_NAMED_ADDRESSES, addresses):
                    named.append(_told(intake.topic, name, addresses[name]))
                    if len(named) % LOOKED_AT_ONCE == 0:
                        await trio.lowlevel.checkpoint()
            told.append(entry)
        return told


def _told(topic: Topic, address: str, known: KnownAddress) -> dict[str, Any]:
    """`next`: the sequence with which it goes on in the topic; None where another gateway leads the
    partition, or nobody does yet.
    """
    following = None
    if known.partition < len(topic.partitions):
        partition = topic.partitions[known.partition]
        if partition.available:
            following = next_in(partition, known)
    return {"address": address, "partition": known.partition, "next": following}
