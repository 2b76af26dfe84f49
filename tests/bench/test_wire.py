"""The benchmark's own client: a wrong answer must not count, and its requests have to be what they claim."""

import socket
from typing import Any

import pytest

from tests.bench.wire import messages
from tests.bench.wire.groups import _is_leaders, assignment, error_of, subscription
from tests.bench.wire.load import Lane, WrongAnswer, measure
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.headers import parse_request_header
from wireproto.kafka.requests import decode_request
from wireproto.kafka.responses import encode_response
from wireproto.kafka.schemas import RESPONSE_CLASSES


def sent(frame: bytes, key: ApiKey) -> Any:
    """A framed request, read as a server does."""
    assert len(frame) == 4 + int.from_bytes(frame[:4])
    view = memoryview(frame)[4:]
    header = parse_request_header(view)
    assert (header.api_key, header.client_id) == (key, "bench")
    return decode_request(key, header.api_version, view, header.body_offset)


def test_every_answer_is_counted_once_however_it_is_cut() -> None:
    client, server = socket.socketpair()
    with client, server:
        lane = Lane(client, [b"one.", b"two."], b"answer")
        lane.send(3)
        assert server.recv(100) == b"one.two.one."
        server.sendall(b"answeransw")
        assert lane.receive() == 1
        server.sendall(b"er")
        assert lane.receive() == 1
        lane.send(2)
        assert server.recv(100) == b"two.one."
        server.sendall(b"answer" * 3)
        assert lane.receive() == 3


class Idle:
    """A server that has used no processor time."""

    cpu_seconds = 0.0


@pytest.mark.parametrize("wrong", [b"Answer", b"answeranswex"])
def test_an_answer_that_differs_ends_the_measurement(wrong: bytes) -> None:
    client, server = socket.socketpair()
    with client, server:
        server.sendall(wrong)
        with pytest.raises(WrongAnswer):
            measure(Idle(), [Lane(client, [b"one."], b"answer")], in_flight=2, warm_up=9, seconds=10.0)


def test_requests_are_what_they_claim() -> None:
    found = sent(messages.metadata(["a", "b"]), ApiKey.METADATA)
    assert [topic.name for topic in found.topics] == ["a", "b"]
    found = sent(messages.offset_commit("g", "m", 3, "t", {0: 7, 2: 9}), ApiKey.OFFSET_COMMIT)
    assert (found.group_id, found.member_id, found.generation_id_or_member_epoch) == ("g", "m", 3)
    (topic,) = found.topics
    assert topic.name == "t"
    assert [(each.partition_index, each.committed_offset) for each in topic.partitions] == [(0, 7), (2, 9)]
    assert sent(messages.api_versions(), ApiKey.API_VERSIONS) is not None
    found = sent(messages.fetch_nothing("t", 3), ApiKey.FETCH)
    assert (found.max_wait_ms, found.min_bytes, found.session_epoch) == (0, 0, -1)
    assert [len(topic.partitions) for topic in found.topics] == [3]
    found = sent(messages.offset_fetch("g", "t", 3), ApiKey.OFFSET_FETCH)
    assert [(group.group_id, group.topics[0].partition_indexes) for group in found.groups] == [
        ("g", [0, 1, 2])
    ]
    found = sent(messages.sync("g", "m", 3, {"m": assignment("t", 1)}), ApiKey.SYNC_GROUP)
    assert [(each.member_id, each.assignment) for each in found.assignments] == [("m", assignment("t", 1))]
    found = sent(messages.join("g", "m", subscription("t")), ApiKey.JOIN_GROUP)
    assert [(each.name, each.metadata) for each in found.protocols] == [("range", subscription("t"))]


@pytest.mark.parametrize(("leader", "members"), [("member-1", ["other", "member-1"]), ("other", [])])
def test_the_leader_knows_itself_by_the_answer_to_its_join(leader: str, members: list[str]) -> None:
    response = RESPONSE_CLASSES[ApiKey.JOIN_GROUP]
    answer = response(
        throttle_time_ms=0,
        error_code=0,
        generation_id=4,
        protocol_type="consumer",
        protocol_name="range",
        leader=leader,
        skip_assignment=False,
        member_id="member-1",
        members=[
            response.JoinGroupResponseMember(member_id=name, group_instance_id=None, metadata=b"")
            for name in members
        ],
    )
    framed = encode_response(answer, messages.JOIN_VERSION, 0)
    assert error_of(framed) is ErrorCode.NONE
    assert _is_leaders(framed, "member-1") is (leader == "member-1")
