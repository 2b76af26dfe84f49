"""What C nodes said to ours, and ours to them, as it was recorded: `tests/data/dafka/c-with-our-*.json`."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mesh.node import Node
from mesh.store.store import Store, StoreSettings
from tests.mesh.native_mesh import NativeMesh, run, until
from wireproto.dafka.messages import Ack, DirectHead, DirectRecord, StoreHello, decode

DATA = Path(__file__).parents[1] / "data" / "dafka"


def transcript(name: str) -> list[tuple[str, list[bytes]]]:
    """(sender, frames) in the order heard."""
    entries = json.loads((DATA / name).read_text())["frames"]
    return [(entry["from"], [bytes.fromhex(frame) for frame in entry["frames"]]) for entry in entries]


def recorded(name: str, sender: str) -> list[list[bytes]]:
    """What this side said, in order."""
    return [frames for who, frames in transcript(name) if who == sender]


class RecordedPeer:
    """Says what was recorded, and keeps what it hears."""

    def __init__(self, mesh: NativeMesh, subscriptions: tuple[bytes, ...]) -> None:
        self.node = Node(mesh.context)
        self.heard: list[Any] = []
        for heard in (Ack, DirectHead, DirectRecord, StoreHello):
            self.node.route({heard: self.heard.append})
        for prefix in subscriptions:
            self.node.subscribe(prefix)


def test_our_store_answers_a_c_producer_and_a_c_consumer_as_it_did(tmp_path: Path) -> None:
    c_nodes = recorded("c-with-our-store.json", "C")
    ours = [decode(frames) for frames in recorded("c-with-our-store.json", "ours")]
    (hello,) = [message for message in ours if isinstance(message, StoreHello)]

    async def test(mesh: NativeMesh) -> None:
        store = Store(mesh.context, StoreSettings(tmp_path / "store", hello.store))
        await mesh.nursery.start(store.run)
        mesh.join(store.node)
        names = {decode(frames).address for frames in c_nodes if frames[0][:1] == b"M"} | {hello.consumer}
        peer = RecordedPeer(
            mesh, tuple(b"%c%b" % (letter, name.encode()) for letter in b"KDEL" for name in names)
        )
        await mesh.nursery.start(peer.node.run)
        mesh.join(peer.node)
        await peer.node.publisher.wait_subscribed(b"M")
        await peer.node.publisher.wait_subscribed(b"W" + hello.store.encode())
        for sender, frames in transcript("c-with-our-store.json"):
            if sender == "C":
                peer.node.publisher.send(frames)
            else:
                answer = decode(frames)
                await until(lambda answer=answer: answer in peer.heard)  # type: ignore[misc]
        assert store.node.malformed == 0
        records = [each for each in peer.heard if isinstance(each, DirectRecord)]
        assert records == [each for each in ours if isinstance(each, DirectRecord)]

    run(tmp_path, test)


def test_our_consumer_reads_from_a_c_store_as_it_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    c_store = recorded("c-store-with-ours.json", "C")
    requester = next(decode(frames).requester for frames in c_store if frames[0][:1] == b"D")
    monkeypatch.setattr("mesh.native.consumer.uuid4", lambda: SimpleNamespace(hex=requester.lower()))

    async def test(mesh: NativeMesh) -> None:
        consumer = await mesh.consumer("rec")
        peer = RecordedPeer(mesh, ())
        await mesh.nursery.start(peer.node.run)
        mesh.join(peer.node)
        await peer.node.publisher.wait_subscribed(b"D" + requester.encode())
        await peer.node.publisher.wait_subscribed(b"E" + requester.encode())
        for frames in c_store:
            peer.node.publisher.send(frames)
        found = [await consumer.receive() for _ in range(5)]
        assert [(each.sequence, each.content) for each in found] == [
            (number, b"%d" % (number + 1)) for number in range(5)
        ]
        assert consumer.node.malformed == 0

    run(tmp_path, test)


def test_a_c_stores_ack_is_one_for_our_producer() -> None:
    acks = [decode(frames) for frames in recorded("c-store-with-ours.json", "C") if frames[0][:1] == b"K"]
    assert acks
    assert {(ack.store, ack.subject) for ack in acks} == {("", "rec")}
    assert max(ack.sequence for ack in acks) == 4
