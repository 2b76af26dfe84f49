"""The version of an API that two gateways have, and the listener by which one reaches the other."""

from __future__ import annotations

import pytest

from gateway.leadership.records import Address, GatewayRecord
from gateway.peers.address import address_of
from gateway.peers.failures import PeerLacks, PeerUnreachable
from gateway.peers.question import Question
from gateway.peers.versions import Versions, versions_question
from tests.unit.gateway.peers.answers import ends_question, versions_of
from wireproto.kafka.schemas import REQUEST_CLASSES


@pytest.mark.parametrize(
    ("has", "chosen"),
    [
        ({2: (1, 5)}, 5),
        ({2: (1, 99)}, 11),
        ({2: (11, 12)}, 11),
        ({2: (1, 0)}, None),
        ({2: (12, 14)}, None),
        ({2: (0, 0)}, None),
        ({3: (0, 12)}, None),
        ({}, None),
    ],
)
def test_the_highest_that_both_have(has: dict[int, tuple[int, int]], chosen: int | None) -> None:
    versions = Versions("gateway 3", versions_of(has))
    if chosen is not None:
        assert versions.choose(ends_question(orders=[0])) == chosen
    else:
        with pytest.raises(PeerLacks, match="gateway 3 cannot be asked ListOffsets in versions 1 to 11"):
            versions.choose(ends_question(orders=[0]))


def test_none_below_the_lowest_that_means_what_is_asked() -> None:
    """As AddPartitionsToTxn, which verifies from version 4 on."""
    request = REQUEST_CLASSES[24](transactions=[])
    assert Versions("it", versions_of({24: (0, 4)})).choose(Question(request, lowest=4)) == 4
    with pytest.raises(PeerLacks, match="versions 4 to 5: it has versions 0 to 3"):
        Versions("it", versions_of({24: (0, 3)})).choose(Question(request, lowest=4))


def test_one_that_does_not_say_what_it_has() -> None:
    with pytest.raises(PeerUnreachable, match="error 35"):
        Versions("gateway 3", versions_of({}, error=35))


def test_who_asks_names_its_software_and_its_release() -> None:
    body = versions_question("1.2").body(3)
    assert body == b"\x0edafka-gateway\x041.2\x00"
    assert versions_question("").body(3) == b"\x0edafka-gateway\x08unknown\x00"


INSIDE, OUTSIDE = Address("10.0.0.3", 9092), Address("c.example", 9094)
RECORD = GatewayRecord("c", "", {"OUTSIDE": OUTSIDE, "INSIDE": INSIDE}, {}, "1")


@pytest.mark.parametrize(
    ("own", "wanted", "name", "found"),
    [
        (("INSIDE", "OUTSIDE"), "", "INSIDE", INSIDE),
        (("OUTSIDE", "INSIDE"), "", "OUTSIDE", OUTSIDE),
        (("SASL", "INSIDE"), "", "INSIDE", INSIDE),
        (("INSIDE", "OUTSIDE"), "OUTSIDE", "OUTSIDE", OUTSIDE),
    ],
)
def test_the_first_listener_that_both_have_or_the_one_that_is_wanted(
    own: tuple[str, ...], wanted: str, name: str, found: Address
) -> None:
    assert address_of("gateway 3", RECORD, own, wanted) == (name, found)


@pytest.mark.parametrize(
    ("record", "own", "wanted", "why"),
    [
        (None, ("INSIDE",), "", "gateway 3 has not said how it is reached"),
        (RECORD, ("PLAINTEXT", "SASL"), "", "gateway 3 has no listener PLAINTEXT or SASL"),
        (RECORD, ("INSIDE",), "SASL", "gateway 3 has no listener SASL"),
        (RECORD, (), "", "gateway 3 has no listener at all"),
    ],
)
def test_one_that_cannot_be_reached(
    record: GatewayRecord | None, own: tuple[str, ...], wanted: str, why: str
) -> None:
    with pytest.raises(PeerUnreachable, match=why):
        address_of("gateway 3", record, own, wanted)
