"""The answers to requests that are refused as a whole. What each says is compared with Kafka by the
differential tests (`sasl.versions_between`); here, that there is one for everything, within its bound.
"""

from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.admin import DeleteTopicsRequest

from gateway.answers.refused_whole import MAX_MIRRORED, refused_whole
from tests.differential.case import REGISTERED
from tests.differential.wire import decode
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode, MalformedRequest
from wireproto.kafka.messages import WriteTxnMarkersRequest
from wireproto.kafka.responses import encode_response
from wireproto.kafka.schemas import REQUEST_CLASSES

AlterReplicaLogDirsRequest = REQUEST_CLASSES[ApiKey.ALTER_REPLICA_LOG_DIRS]
ILLEGAL = ErrorCode.ILLEGAL_SASL_STATE


def refused(body: Any, version: int) -> Any:
    return refused_whole(body.API_KEY, version, body, ILLEGAL, "not now")


@pytest.mark.parametrize("key", REGISTERED)
def test_each_api_has_an_answer_in_each_version_to_a_request_that_names_nothing(key: int) -> None:
    for version in REGISTERED[key]:
        said = refused(REQUEST_CLASSES[key](version=version), version)
        told = decode(key, version, encode_response(said, version, 1)[4:])
        assert told.to_dict().get("error_code", ILLEGAL) == ILLEGAL


def test_what_is_named_is_named_in_the_answer_with_the_error() -> None:
    told = refused(DeleteTopicsRequest(version=5, topic_names=["a", "b", "a"]), 5)
    assert [(one.name, one.error_code, one.error_message) for one in told.responses] == [
        (name, ILLEGAL, "not now") for name in "aba"
    ]


def test_all_levels_count_together() -> None:
    marker = WriteTxnMarkersRequest.WritableTxnMarker
    topic = marker.WritableTxnMarkerTopic

    def asked(partitions: int) -> Any:
        one = topic(name="t", partition_indexes=list(range(partitions)))
        return WriteTxnMarkersRequest(version=1, markers=[marker(producer_id=7, topics=[one])])

    most = MAX_MIRRORED - 2
    (answered,) = refused(asked(most), 1).markers
    assert (answered.producer_id, answered.topics[0].name) == (7, "t")
    assert [one.partition_index for one in answered.topics[0].partitions] == list(range(most))
    with pytest.raises(MalformedRequest, match="more than 256"):
        refused(asked(most + 1), 1)


def test_what_the_lists_are_in_counts_too() -> None:
    """Directories that name no topic cost as much as those that do."""
    directory = AlterReplicaLogDirsRequest.AlterReplicaLogDir
    topic = directory.AlterReplicaLogDirTopic

    def asked(directories: int) -> Any:
        named = directory(path="/a", topics=[topic(name="t", partitions=[0])])
        empty = [directory(path="/b", topics=[]) for _ in range(directories - 1)]
        return AlterReplicaLogDirsRequest(version=1, dirs=[named, *empty])

    most = MAX_MIRRORED - 2
    (answered,) = refused(asked(most), 1).results
    assert (answered.topic_name, [one.partition_index for one in answered.partitions]) == ("t", [0])
    with pytest.raises(MalformedRequest, match="more than 256"):
        refused(asked(most + 1), 1)
