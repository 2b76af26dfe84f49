"""Byte equality, both ways, with every frame captured from the C nodes."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.wireproto.dafka.vectors import c_vectors
from wireproto.dafka import beacons
from wireproto.dafka.messages import (
    Ack,
    ConsumerHello,
    DirectHead,
    DirectRecord,
    Fetch,
    GetHeads,
    Head,
    Record,
    StoreHello,
    decode,
)

VECTORS = c_vectors()
MESSAGES = [vector for vector in VECTORS if "id" in vector["fields"]]
BEACONS = [
    vector for vector in VECTORS if vector["fields"].get("topic") == "B" and "id" not in vector["fields"]
]


def name_of(vector: dict[str, Any]) -> str:
    return str(vector["name"])


def message_of(fields: dict[str, Any]) -> Any:
    """The message that the capture says these fields are."""
    topic, address = fields["topic"], fields.get("address", "")
    subject, sequence = fields.get("subject", ""), fields.get("sequence", -1)
    content = bytes.fromhex(fields.get("content_hex", ""))
    build: dict[str, Callable[[], Any]] = {
        "M": lambda: Record(address, subject, sequence, content),
        "H": lambda: Head(address, subject, sequence),
        "K": lambda: Ack(topic, "", subject, sequence),
        "F": lambda: Fetch(topic, address, subject, sequence, fields["count"]),
        "D": lambda: DirectRecord(topic, "", address, subject, sequence, content),
        "E": lambda: DirectHead(topic, address, subject, sequence),
        "G": lambda: GetHeads(topic, address),
        "W": lambda: ConsumerHello(topic, address, tuple(fields["subjects"])),
        "L": lambda: StoreHello(topic, address),
    }
    return build[fields["id"]]()


def test_every_captured_frame_is_a_message_a_beacon_or_the_welcome() -> None:
    assert {name_of(vector) for vector in VECTORS} == {
        *(name_of(vector) for vector in MESSAGES),
        *(name_of(vector) for vector in BEACONS),
        "WELCOME",
    }
    assert {vector["fields"]["id"] for vector in MESSAGES} == set("MHKFDEGWL")


@pytest.mark.parametrize("vector", MESSAGES, ids=name_of)
def test_a_captured_message_decodes_to_its_fields_and_encodes_to_the_same_bytes(
    vector: dict[str, Any],
) -> None:
    expected = message_of(vector["fields"])
    assert decode(vector["frames"]) == expected
    assert type(decode(vector["frames"])) is type(expected)
    assert expected.frames() == vector["frames"]


@pytest.mark.parametrize("vector", BEACONS, ids=name_of)
def test_a_captured_beacon_decodes_to_its_fields_and_encodes_to_the_same_bytes(
    vector: dict[str, Any],
) -> None:
    fields = vector["fields"]
    beacon: beacons.NodeBeacon | beacons.TowerBeacon
    if "endpoint" in fields:
        beacon = beacons.TowerBeacon(fields["sender"], fields["endpoint"])
        assert beacons.decode_tower_beacon(vector["frames"]) == beacon
    else:
        beacon = beacons.NodeBeacon(fields["sender"], fields["host"], fields["port"])
        assert beacons.decode_node_beacon(vector["frames"]) == beacon
    assert beacon.frames() == vector["frames"]


def test_a_new_subscriber_of_a_tower_gets_the_captured_welcome() -> None:
    (welcome,) = (vector["frames"] for vector in VECTORS if vector["name"] == "WELCOME")
    assert welcome == [beacons.WELCOME]
