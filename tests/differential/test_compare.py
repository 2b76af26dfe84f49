"""The judge itself: differences that must be seen, and ones that must not be."""

from __future__ import annotations

import time
import uuid
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.protocol.consumer import FetchResponse
from kafka.protocol.metadata import ApiVersionsResponse, MetadataResponse

from tests.differential import allowed
from tests.differential.batches import HEADER_BYTES, Record, batch, records_of, whole_batches
from tests.differential.case import REGISTERED, all_cases
from tests.differential.compare import ABSENT, Difference, differences
from tests.differential.normalise import normalise
from tests.differential.principals import WITH_RIGHTS
from tests.differential.side import Exchange, Server, Side
from tests.differential.transactions import end
from tests.differential.wire import MESSAGES, UndecodableError, decode


@pytest.mark.parametrize(
    ("kafka", "ours", "paths"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, ["a"]),
        ({"a": 1}, {"a": True}, ["a"]),
        ({"a": 0}, {"a": None}, ["a"]),
        ({"a": ""}, {"a": None}, ["a"]),
        ({"a": []}, {"a": None}, ["a"]),
        ({"a": 1}, {}, ["a"]),
        ({}, {"a": 1}, ["a"]),
        ({"a": [1, 2]}, {"a": [1]}, ["a[1]"]),
        ({"a": [1, 2]}, {"a": [2, 1]}, ["a[0]", "a[1]"]),
        ({"a": [{"name": "x", "v": 1}]}, {"a": [{"name": "x", "v": 2}]}, ["a[x].v"]),
        ({"a": [{"name": "x"}, {"name": "y"}]}, {"a": [{"name": "y"}]}, ["a[x]"]),
        ({"a": [{"name": "x"}, {"name": "x"}]}, {"a": [{"name": "x"}]}, ["a[1]"]),
        ("closed", {"a": 1}, [""]),
        ("closed", "closed", []),
        ("closed", "silent", [""]),
    ],
)
def test_differences(kafka: Any, ours: Any, paths: list[str]) -> None:
    assert [path for path, _, _ in differences(kafka, ours)] == paths


def test_a_missing_field_is_told_from_none() -> None:
    assert list(differences({"a": None}, {})) == [("a", None, ABSENT)]


def server(node_id: int, port: int, ids: dict[str, uuid.UUID]) -> Server:
    return Server("kafka", f"127.0.0.1:{port}", "run", node_id, f"cluster-{port}", topic_ids=ids)


def metadata(
    node_id: int, port: int, topic_id: uuid.UUID, epoch: int = 0, host: str = "127.0.0.1"
) -> Exchange:
    broker = MetadataResponse.MetadataResponseBroker(node_id=node_id, host=host, port=port, rack=None)
    topic = MetadataResponse.MetadataResponseTopic
    partition = topic.MetadataResponsePartition(
        error_code=0,
        partition_index=0,
        leader_id=node_id,
        leader_epoch=epoch,
        replica_nodes=[node_id],
        isr_nodes=[node_id],
        offline_replicas=[],
    )
    answer = MetadataResponse(
        version=12,
        brokers=[broker],
        cluster_id=f"cluster-{port}",
        controller_id=node_id,
        topics=[topic(error_code=0, name="t", topic_id=topic_id, is_internal=False, partitions=[partition])],
    )
    return Exchange("x", 3, 12, b"", answer)


def test_own_ids_and_addresses_are_the_same_everywhere() -> None:
    one, two = uuid.uuid4(), uuid.uuid4()
    left = normalise(metadata(1, 9092, one), server(1, 9092, {"t": one}))
    right = normalise(metadata(7, 1234, two), server(7, 1234, {"t": two}))
    assert list(differences(left, right)) == []


def test_other_ids_and_addresses_are_not() -> None:
    one, two = uuid.uuid4(), uuid.uuid4()
    left = normalise(metadata(1, 9092, one), server(1, 9092, {"t": one}))
    for wrong, paths in [
        (normalise(metadata(8, 1234, two), server(7, 1234, {"t": two})), 5),
        (normalise(metadata(7, 1235, two), server(7, 1234, {"t": two})), 3),
        (normalise(metadata(7, 1234, two, host="0.0.0.0"), server(7, 1234, {"t": two})), 2),
        (normalise(metadata(7, 1234, uuid.uuid4()), server(7, 1234, {"t": two})), 1),
        (normalise(metadata(7, 1234, two, epoch=1), server(7, 1234, {"t": two})), 1),
    ]:
        assert len(list(differences(left, wrong))) == paths


def fetched(records: bytes) -> Any:
    part = FetchResponse.FetchableTopicResponse.PartitionData(
        partition_index=0, error_code=0, high_watermark=1, records=records
    )
    topic = FetchResponse.FetchableTopicResponse(topic="t", partitions=[part])
    return normalise(
        Exchange("x", 1, 4, b"", FetchResponse(version=4, responses=[topic])), server(1, 9092, {})
    )


@pytest.mark.parametrize(
    ("other", "field"),
    [
        (batch([Record(b"b")]), "payload"),
        (batch([Record(b"a")], leader_epoch=1), "leader_epoch"),
        (batch([Record(b"a")], base_offset=1), "base_offset"),
        (batch([Record(b"a")], crc=1), "crc"),
        (batch([Record(b"a")], max_timestamp=5), "max_timestamp"),
        (b"", "records[0]"),
        (batch([Record(b"a")]) * 2, "records[1]"),
    ],
)
def test_every_part_of_a_batch_counts(other: bytes, field: str) -> None:
    paths = [path for path, _, _ in differences(fetched(batch([Record(b"a")])), fetched(other))]
    assert any(path.endswith(field) for path in paths), paths


def test_a_batch_cut_short_at_the_end_does_not_count() -> None:
    one = batch([Record(b"a")])
    assert fetched(one + one[:-1]) == fetched(one) == fetched(one + one[:30])


def fetched_from(chosen: dict[int, int], records: bytes, aborted: list[int]) -> Any:
    """What a server answers that has chosen these producer ids (and how manieth each is)."""
    of = FetchResponse.FetchableTopicResponse
    part = of.PartitionData(
        partition_index=0,
        error_code=0,
        high_watermark=1,
        last_stable_offset=1,
        aborted_transactions=[
            of.PartitionData.AbortedTransaction(producer_id=one, first_offset=0) for one in aborted
        ],
        records=records,
    )
    answer = FetchResponse(version=4, responses=[of(topic="t", partitions=[part])])
    which = server(1, 9092, {})
    which.producer_ids = chosen
    return normalise(Exchange("x", 1, 4, b"", answer), which)


def of_producer(producer_id: int, **fields: int) -> bytes:
    fields |= {"producer_id": producer_id, "producer_epoch": 0}
    return batch([Record(b"a")], codec="none", payload=None, **fields)


def test_producer_ids_that_a_server_chose_are_told_by_their_number() -> None:
    left = fetched_from({4: 0, 9: 1}, of_producer(4) + of_producer(9), [9, 4])
    same = fetched_from({70: 0, 60: 1}, of_producer(70) + of_producer(60), [60, 70])
    assert list(differences(left, same)) == []
    for other in (
        fetched_from({70: 0, 60: 1}, of_producer(60) + of_producer(70), [60, 70]),
        fetched_from({70: 0, 60: 1}, of_producer(70) + of_producer(60), [70, 60]),
        fetched_from({70: 0, 60: 1}, of_producer(70) + of_producer(61), [60, 70]),
        fetched_from({70: 0, 60: 1}, of_producer(70) + of_producer(60, crc=1), [60, 70]),
    ):
        assert list(differences(left, other)) != []


def test_a_markers_time_is_the_servers_and_its_bytes_are_compared() -> None:
    now = time.time_ns() // 1_000_000

    def marker_at(timestamp: int, value: bytes = b"end", attributes: int = 0x30) -> Any:
        data = batch([Record(value, timestamp=timestamp)], attributes=attributes, producer_id=4)
        return fetched_from({4: 0}, data, [])

    assert marker_at(now) == marker_at(now - 5_000)
    assert marker_at(now) != marker_at(now, b"END")
    assert marker_at(now) != marker_at(1_700_000_000_000)
    assert marker_at(now, attributes=0x10) != marker_at(now - 5_000, attributes=0x10)


def test_requests_with_ids_that_a_server_chose_are_compared_by_stand_ins() -> None:
    asked = []

    class Silent(Side):
        def _exchange(self, _api_key: int, _version: int, data: bytes) -> Any:
            asked.append(data)
            return "silent"

        @property
        def connection(self) -> Any:
            return SimpleNamespace(socket=SimpleNamespace(settimeout=lambda _: None))

    sides = [Silent(server(1, 9092, {}), "x.y", 0) for _ in range(3)]
    sides[0].ask_with_ids(lambda ids: end("t", ids[0], 0, True, version=3), [4], "end")
    sides[1].ask_with_ids(lambda ids: end("t", ids[0], 0, True, version=3), [70], "end")
    sides[2].ask_with_ids(lambda ids: end("t", ids[0], 1, True, version=3), [70], "end")
    compared = [side.exchanges[0].sent for side in sides]
    assert compared[0] == compared[1] != compared[2]
    assert len({*asked}) == 3


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batches_are_read_as_made(codec: str) -> None:
    records = [
        Record(b"v", b"k", 1000, (("a", b"1"), ("b", None))),
        Record(None, None, 999),
        Record(b"x" * 5000, b"", 2**40),
    ]
    (back,) = whole_batches(batch(records, codec=codec, base_offset=7))
    assert back.crc_is_right
    assert back.codec_name == codec
    assert back.max_timestamp == 2**40
    assert records_of(back) == [(7 + n, record) for n, record in enumerate(records)]
    assert not next(whole_batches(back.raw[:-1] + bytes([back.raw[-1] ^ 1]))).crc_is_right
    assert len(back.raw) == HEADER_BYTES + len(back.payload)


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (b"\0\0\0\2\0\0", "correlation id"),
        (b"\0\0\0\1\0\0\0\0\0\0\0", "bytes left over"),
        (b"\0\0\0\1\0\0\0\0\0", "ApiVersionsResponse"),
        (b"\0\0\0\1\0\0\0\0\0\1\0\3", "ApiVersionsResponse"),
    ],
)
def test_answers_that_are_not_what_they_should_be(answer: bytes, fault: str) -> None:
    with pytest.raises(UndecodableError, match=fault):
        decode(18, 0, answer)


def test_an_answer_of_api_versions_has_a_v0_body_only_for_error_35() -> None:
    unsupported = b"\0\0\0\1\0\x23\0\0\0\1\0\x12\0\0\0\4"
    answer = decode(18, 4, unsupported)
    assert (answer.error_code, answer.api_keys[0].max_version) == (35, 4)
    refused = ApiVersionsResponse(version=4, error_code=42, api_keys=[], throttle_time_ms=0).encode()
    assert decode(18, 4, b"\0\0\0\1" + bytes(refused)).error_code == 42


def test_allowed_differences_are_found_by_pattern() -> None:
    words = Difference(3, "metadata.x", 1, "#0.topics[0].error_message", "a", "b")
    assert allowed.find(words) is not None
    assert allowed.find(Difference(3, "metadata.x", 1, "#0.topics[0].error_message", None, "b")) is not None
    assert allowed.find(Difference(3, "metadata.x", 1, "#0.topics[0].error_message", "a", None)) is None
    assert allowed.find(Difference(3, "metadata.x", 1, "#0.topics[0].error_code", 1, 2)) is None


def test_every_registered_api_has_cases_for_every_version() -> None:
    covered = {(case.api_key, version) for case in all_cases() for version in case.versions}
    assert {(key, version) for key, served in REGISTERED.items() for version in served} <= covered
    assert set(REGISTERED) <= set(MESSAGES)


@pytest.mark.parametrize("principal", WITH_RIGHTS)
def test_every_registered_api_is_asked_as_each_principal_in_every_version(principal: str) -> None:
    covered = {
        (case.api_key, version)
        for case in all_cases()
        if case.principal == principal
        for version in case.versions
    }
    assert {(key, version) for key, served in REGISTERED.items() for version in served} <= covered
