"""What a backup reads is not deleted meanwhile, and a backup that finds no room goes on when there is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dafka.backup.target import EXIT_DISK_FAILED
from dafka.operators.backup import BEGIN, END, READ
from dafka.operators.socket import OperatorRefused, ask, ask_content
from tests.backup import scene
from tests.backup.scene import dafka
from tests.faults.disks import SmallDisk
from tests.peers.standalone import Standalone

MIB = 1024 * 1024


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Standalone]:
    arguments = ("--delete-delay-ms", "0")
    with Standalone(tmp_path / "data", *arguments, directory=tmp_path / "old") as server:
        scene.create(server.bootstrap, "orders", segment_bytes=scene.SEGMENT_BYTES)
        scene.create(server.bootstrap, "going", segment_bytes=scene.SEGMENT_BYTES)
        for topic in ("orders", "going"):
            scene.produce(scene.producer(server.bootstrap), topic, range(700))
        yield server


def test_what_is_read_is_deleted_only_afterwards(server: Standalone) -> None:
    at, directory = server.bootstrap, server.data / "gateway"
    done, content = ask_content(directory, BEGIN)
    told = [json.loads(line) for line in content.splitlines()[1:]]
    segments = [one for each in told for one in each["segments"]]
    assert {each["topic"] for each in told} == {"orders", "going"}
    assert len(segments) > 4

    def read(segment: dict[str, Any]) -> bytes:
        last = segment["cut"] if segment["end"] is None else segment["last_sequence"]
        asked = {"sequence": 0, "offset": segment["start"], "bytes": MIB, "last": last}
        return ask_content(directory, READ, pin=done["pin"], address=segment["address"], **asked)[1]

    contents = [read(segment) for segment in segments]
    scene.trim(at, "orders", -1)
    for future in scene.admin(at).delete_topics(["going"]).values():
        future.result()
    # Another topic that is deleted goes at once: so these would have gone by now.
    scene.create(at, "another")
    scene.produce(scene.producer(at), "another", range(5))
    for future in scene.admin(at).delete_topics(["another"]).values():
        future.result()
    scene.settle(lambda: "topic another is gone from the stores" in server.log, "another is gone")
    assert [read(segment) for segment in segments] == contents
    assert "topic going is gone" not in server.log
    ask(directory, END, pin=done["pin"])
    scene.settle(lambda: "topic going is gone from the stores" in server.log, "what was pinned is gone")
    with pytest.raises(OperatorRefused, match="no pin any more"):
        read(segments[0])


def test_a_full_disk_and_a_backup_that_goes_on(
    tmp_path: Path, server: Standalone, capsys: pytest.CaptureFixture[str]
) -> None:
    with SmallDisk(tmp_path / "small", 5 * MIB) as disk:
        target = disk.path / "target"
        assert dafka("backup", "take", target, "--data", server.data) == EXIT_DISK_FAILED
        assert "Free space or replace the disk" in capsys.readouterr().err
        there = {path.name for path in target.glob("objects/*/*")}
        assert there
        assert not list(target.glob("manifests/*"))
        assert not list(target.glob("writing/*"))
        disk.grow(64 * MIB)
        assert dafka("backup", "take", target, "--data", server.data, "--json") == 0
        told = json.loads(capsys.readouterr().out)
        assert told["objects"] + len(there) == len(list(target.glob("objects/*/*")))
        assert dafka("backup", "verify", target) == 0
        assert not list(target.glob("unfinished/*"))
