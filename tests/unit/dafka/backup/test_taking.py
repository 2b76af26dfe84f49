"""What a backup tells of what it lacks."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dafka.backup import taking
from dafka.backup.manifest import MANIFESTS, SavedSegment, unpack
from dafka.backup.taking import Taking
from dafka.backup.target import DirectoryTarget
from dafka.operators.backup import UNREADABLE
from dafka.operators.socket import OperatorRefused
from gateway.catalog import keys


def test_an_end_that_nobody_knows_is_named_beside_what_could_not_be_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def copied(_: Taking, told: Mapping[str, Any]) -> SavedSegment:
        if told["start"] == 0:
            raise OperatorRefused(f"{UNREADABLE}: damaged")
        return SavedSegment(told["address"], 3, told["start"], told["end"], 0, 1, 2, -1, "", ())

    monkeypatch.setattr(Taking, "_segment", copied)
    monkeypatch.setattr(Taking, "_release", lambda *_: None)
    told = {
        "topic": "orders",
        "index": 0,
        "serves": False,
        "reason": "its stores are away",
        "high_watermark": 0,
        "log_start": 0,
        "epochs": [[3, 0]],
        "record": {"next_epoch": 4},
        "producers": "",
        "segments": [{"address": "A", "start": 0, "end": 10}, {"address": "B", "start": 10, "end": 20}],
    }
    saved = Taking(tmp_path, DirectoryTarget(tmp_path))._partition(told)
    assert [(gap.start, gap.end) for gap in saved.gaps] == [(0, 10), (20, -1)]
    assert saved.gaps[1].why == "the partition did not serve: its stores are away"


def test_an_entry_that_cannot_be_read_is_said_and_taken_as_it_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    key, value = f"{keys.ACLS}no-digest", b"\x00\xff"
    head = {
        "cluster": "C1",
        "taken_ms": 12,
        "leader_epoch": 7,
        "producer_ids": 1000,
        "broker_configs": {},
        "security": {key: base64.b64encode(value).decode()},
        "topics": [],
    }
    monkeypatch.setattr(taking, "ask_content", lambda *_: ({"pin": "P"}, json.dumps(head).encode()))
    monkeypatch.setattr(taking, "ask", lambda *_, **__: {})
    said: list[str] = []
    target = DirectoryTarget(tmp_path)
    taken = Taking(tmp_path, target, said.append).run()
    (name,) = target.sizes(MANIFESTS)
    assert unpack(target.get(name), name) == taken.manifest
    assert taken.manifest.security_entries == {key: value}
    (line,) = said
    assert line.startswith(f"the entry {key!r} cannot be read (")
    assert line.endswith("): the backup has it as it is")
