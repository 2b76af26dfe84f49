"""Every decoder that is written by hand, against kafka-python's encoder and the generic walk."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.wireproto.kafka.by_hand import DECODERS, ByHand
from tests.unit.wireproto.kafka.messages import damaged, messages
from wireproto.kafka.errors import MalformedRequest
from wireproto.kafka.requests import decode_request
from wireproto.kafka.schemas import REQUEST_CLASSES

each_version = pytest.mark.parametrize(
    ("by_hand", "version"),
    [
        pytest.param(by_hand, version, id=f"{by_hand.name} {version}")
        for by_hand in DECODERS
        for version in by_hand.versions
    ],
)


# Drawing a request takes far longer than decoding it: each is read, and then damaged in several ways.
DAMAGES = 5


def drawn(data: st.DataObject, by_hand: ByHand, version: int) -> bytes:
    """A request as kafka-python writes it, which has been read as it should be."""
    request = data.draw(messages(REQUEST_CLASSES[by_hand.api_key], version))
    body = bytes(request.encode(version=version))
    assert by_hand.read(version, body) == by_hand.expected(request)
    return body


@each_version
@given(data=st.data())
@settings(max_examples=50)
def test_reads_what_kafka_python_writes(by_hand: ByHand, version: int, data: st.DataObject) -> None:
    drawn(data, by_hand, version)


@each_version
@given(data=st.data())
@settings(max_examples=10)
def test_a_request_cut_short_or_too_long_is_refused(
    by_hand: ByHand, version: int, data: st.DataObject
) -> None:
    body = drawn(data, by_hand, version)
    for length in range(len(body)):
        with pytest.raises(MalformedRequest):
            by_hand.read(version, body[:length])
    with pytest.raises(MalformedRequest, match="1 bytes are left over"):
        by_hand.read(version, body + b"\x00")


@each_version
@given(data=st.data())
@settings(max_examples=40)
def test_damaged_requests_are_read_as_by_the_generic_walk_or_refused_by_both(
    by_hand: ByHand, version: int, data: st.DataObject
) -> None:
    valid = drawn(data, by_hand, version)
    for _ in range(DAMAGES):
        body = data.draw(st.one_of(damaged(valid), st.binary(max_size=60)))
        try:
            expected = by_hand.expected(decode_request(by_hand.api_key, version, memoryview(body), 0))
        except MalformedRequest:
            with pytest.raises(MalformedRequest):
                by_hand.read(version, body)
        else:
            assert by_hand.read(version, body) == expected


@pytest.mark.parametrize("by_hand", DECODERS, ids=lambda by_hand: by_hand.name)
def test_other_versions_are_refused(by_hand: ByHand) -> None:
    for version in (by_hand.versions[0] - 1, by_hand.versions[-1] + 1, -1):
        with pytest.raises(MalformedRequest, match=f"no version {version}"):
            by_hand.read(version, bytes(100))
