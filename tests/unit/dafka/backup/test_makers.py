"""Whose account a topic is on is in a backup, and comes back with the topic."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, cast

import trio
from trio.testing import MockClock

from dafka.backup.manifest import Manifest, SavedTopic, pack, unpack
from dafka.backup.restoring import topic_entry
from dafka.operators.backup import BEGIN, BackupRequestHandlers
from dafka.operators.socket import Content
from dafka.settings import Settings
from gateway.broker import Broker
from gateway.catalog import keys
from gateway.catalog.interface import Entry
from gateway.cluster.topics import topic_of
from tests.unit.gateway.log.fake_log import FakeLog

MAKERS = {"hers": "User:a", "of nobody": ""}


def taken() -> list[dict[str, Any]]:
    """The topics that a gateway tells a backup of."""

    async def main() -> list[dict[str, Any]]:
        log = FakeLog()
        broker = Broker(log.context, log.stores, Settings(), lambda: None)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(broker.changes.run)
            for name, maker in MAKERS.items():
                await broker.create_topic(name, 2, {}, 1, maker=maker)
            nursery.cancel_scope.cancel()
        told = cast(Content, await BackupRequestHandlers(broker).handlers[BEGIN]({}))
        topics: list[dict[str, Any]] = json.loads(told.pieces[0])["topics"]
        return topics

    return trio.run(main, clock=MockClock(autojump_threshold=0))


def restored(topic: SavedTopic) -> str:
    """On whose account a topic is afterwards."""
    key, value = topic_entry(topic)
    return topic_of(cast(Any, None), Entry(key, value, 1, 1)).maker


def test_a_topic_that_comes_back_is_on_the_account_that_it_was_on() -> None:
    topics = tuple(SavedTopic(**(topic | {"partitions": 0})) for topic in taken())
    manifest = unpack(pack(Manifest("id", 1, "C", 1, 1, {}, topics)), "name")
    assert {topic.name: restored(topic) for topic in manifest.topics} == MAKERS


def test_of_nobody_nothing_is_said_so_older_versions_read_it() -> None:
    """As the records of topics in the catalog."""
    by_name = {topic["name"]: topic for topic in taken()}
    assert by_name["hers"]["maker"] == "User:a"
    assert "maker" not in by_name["of nobody"]
    saved = SavedTopic(**by_name["of nobody"])
    assert "maker" not in keys.unpack(topic_entry(saved)[1])
    assert keys.unpack(topic_entry(replace(saved, maker="User:b"))[1])["maker"] == "User:b"
