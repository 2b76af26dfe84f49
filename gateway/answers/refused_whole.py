"""The answer of each API to a request that is refused as a whole, whatever it asks for: its own *error
response* (`AbstractRequest.getErrorResponse`).

The error is at the top of the answer where its schema has a place for it, and beside everything that the
request names where the answer has one there; all else is what Kafka says for "nothing". So an answer is a
mirror of its request, and what is written down here are the mirrors. Compared with Kafka in every version by
the case `sasl.versions_between` of the differential tests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode, MalformedRequest
from wireproto.kafka.schemas import RESPONSE_CLASSES

MAX_MIRRORED: Final = 256
"""Topics, partitions and the like that a refused request may name: some 30 KiB of answer, and a millisecond.
"""

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
_ITSELF: Final = ""
"""In place of a field of what the request names: it has no fields, it is a name or a number."""


class _Mirror(NamedTuple):
    """A list `asked` of the request, and the list `answered` that has an element for each of its elements:
    `fields` are those of the answer, by those that they have their values from, `nothing` has the values of
    others. Where there is a `within`, each element of that list has an `asked`.
    """

    asked: str
    answered: str
    fields: Mapping[str, str]
    inner: _Mirror | None = None
    nothing: Mapping[str, Any] = _NOTHING
    max_version: int = 99
    within: str = ""


def refused_whole(api_key: int, version: int, body: Any, error: ErrorCode, message: str) -> Any:
    """The answer, as kafka-python's class has it. Raises MalformedRequest: the request names more than
    `MAX_MIRRORED`.
    """
    answer_class = RESPONSE_CLASSES[api_key]
    whole = _made(answer_class, answer_class._struct, error, message, _EMPTY.get(api_key, _NOTHING))
    if api_key == ApiKey.JOIN_GROUP and version >= _JOIN_GROUP_NULL_PROTOCOL_FROM:
        whole.protocol_name = None
    left = iter(range(MAX_MIRRORED))
    for mirror in _MIRRORS.get(api_key, ()):
        if version > mirror.max_version:
            continue
        reflected = [*getattr(whole, mirror.answered)]
        for asked in getattr(body, mirror.within) if mirror.within else (body,):
            if mirror.within:
                _count(left)
            reflected.extend(_reflected(mirror, asked, answer_class._struct, (error, message), left))
        setattr(whole, mirror.answered, reflected)
    if api_key == ApiKey.ALTER_USER_SCRAM_CREDENTIALS:
        whole.results = [one for _, one in sorted({one.user: one for one in whole.results}.items())]
    return whole


def _reflected(
    mirror: _Mirror, asked: Any, answered: Any, error: tuple[ErrorCode, str], left: Iterator[int]
) -> Iterator[Any]:
    """`answered` is the schema of what has the list; `left` has an element for each that may yet be made."""
    schema = answered.fields[mirror.answered].array_of
    for item in getattr(asked, mirror.asked) or ():
        _count(left)
        values = {to: item if of == _ITSELF else getattr(item, of) for to, of in mirror.fields.items()}
        made = _made(schema.data_class, schema, *error, {**mirror.nothing, **values})
        if mirror.inner is not None:
            inner = list(_reflected(mirror.inner, item, schema, error, left))
            setattr(made, mirror.inner.answered, inner)
        yield made


def _count(left: Iterator[int]) -> None:
    """One more that the request names. Raises MalformedRequest."""
    if next(left, None) is None:
        raise MalformedRequest(f"it names more than {MAX_MIRRORED}, too many for a request that is refused")


def _made(data_class: Any, schema: Any, error: ErrorCode, message: str, values: Mapping[str, Any]) -> Any:
    """One structure, with the error where it has a place for it."""
    said = {"error_code": error, "partition_error_code": error, "error_message": message}
    return data_class(**{name: value for name, value in said.items() if name in schema.fields}, **values)


_JOIN_GROUP_NULL_PROTOCOL_FROM: Final = 7

_EMPTY: Final[Mapping[int, Mapping[str, Any]]] = {
    ApiKey.FIND_COORDINATOR: {"node_id": -1, "port": -1},
    ApiKey.INIT_PRODUCER_ID: {"producer_id": -1, "producer_epoch": -1},
    ApiKey.CREATE_DELEGATION_TOKEN: {
        "principal_type": "User",
        "principal_name": "ANONYMOUS",
        "token_requester_principal_type": "User",
        "token_requester_principal_name": "ANONYMOUS",
        "issue_timestamp_ms": -1,
        "expiry_timestamp_ms": -1,
        "max_timestamp_ms": -1,
    },
    ApiKey.DESCRIBE_CLIENT_QUOTAS: {"entries": None},
}
"""What the top of an answer says for nothing, where that is another value than its schema's default."""

_NAME: Final = {"name": "name"}
_NAME_OR_ID: Final = {"name": "name", "topic_id": "topic_id"}
_PARTITION: Final = {"partition_index": "partition_index"}
_NUMBER: Final = {"partition_index": _ITSELF}
_RESOURCE: Final = {"resource_type": "resource_type", "resource_name": "resource_name"}

_PARTITIONS: Final = _Mirror("partitions", "partitions", _PARTITION)
_MARKED: Final = _Mirror("partition_indexes", "partitions", _NUMBER)
_ADDED: Final = _Mirror("partitions", "results_by_partition", _NUMBER)
_USER: Final = _Mirror("deletions", "results", {"user": "name"})

_MIRRORS: Final[Mapping[int, tuple[_Mirror, ...]]] = {
    ApiKey.PRODUCE: (
        _Mirror(
            "topic_data",
            "responses",
            _NAME_OR_ID,
            _Mirror("partition_data", "partition_responses", {"index": "index"}, nothing={"base_offset": -1}),
        ),
    ),
    ApiKey.FETCH: (
        _Mirror(
            "topics",
            "responses",
            {"topic": "topic"},
            _Mirror(
                "partitions", "partitions", {"partition_index": "partition"}, nothing={"high_watermark": -1}
            ),
            max_version=12,  # names are ids after that, and the error at the top is enough
        ),
    ),
    ApiKey.LIST_OFFSETS: (_Mirror("topics", "topics", _NAME, _PARTITIONS),),
    ApiKey.METADATA: (_Mirror("topics", "topics", _NAME_OR_ID),),
    ApiKey.OFFSET_COMMIT: (_Mirror("topics", "topics", _NAME_OR_ID, _PARTITIONS),),
    ApiKey.OFFSET_FETCH: (
        _Mirror(
            "topics",
            "topics",
            _NAME,
            _Mirror("partition_indexes", "partitions", _NUMBER, nothing={"committed_offset": -1}),
            max_version=1,  # after that the error is at the top
        ),
        _Mirror("groups", "groups", {"group_id": "group_id"}),
    ),
    ApiKey.FIND_COORDINATOR: (
        _Mirror("coordinator_keys", "coordinators", {"key": _ITSELF}, nothing={"node_id": -1, "port": -1}),
    ),
    ApiKey.DESCRIBE_GROUPS: (_Mirror("groups", "groups", {"group_id": _ITSELF}),),
    ApiKey.CREATE_TOPICS: (_Mirror("topics", "topics", _NAME),),
    ApiKey.DELETE_TOPICS: (
        _Mirror("topics", "responses", _NAME_OR_ID),
        _Mirror("topic_names", "responses", {"name": _ITSELF}),
    ),
    ApiKey.DELETE_RECORDS: (
        _Mirror("topics", "topics", _NAME, _PARTITIONS._replace(nothing={"low_watermark": -1})),
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (
        _Mirror(
            "topics",
            "topics",
            {"topic": "topic"},
            _Mirror("partitions", "partitions", {"partition": "partition"}),
        ),
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: (
        _Mirror("v3_and_below_topics", "results_by_topic_v3_and_below", _NAME, _ADDED),
    ),
    ApiKey.WRITE_TXN_MARKERS: (
        _Mirror(
            "markers", "markers", {"producer_id": "producer_id"}, _Mirror("topics", "topics", _NAME, _MARKED)
        ),
    ),
    ApiKey.TXN_OFFSET_COMMIT: (_Mirror("topics", "topics", _NAME, _PARTITIONS),),
    ApiKey.CREATE_ACLS: (_Mirror("creations", "results", {}),),
    ApiKey.DELETE_ACLS: (_Mirror("filters", "filter_results", {}),),
    ApiKey.DESCRIBE_CONFIGS: (_Mirror("resources", "results", _RESOURCE),),
    ApiKey.ALTER_CONFIGS: (_Mirror("resources", "responses", _RESOURCE),),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (_Mirror("resources", "responses", _RESOURCE),),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (
        _Mirror(
            "topics",
            "results",
            {"topic_name": "name"},
            _Mirror("partitions", "partitions", _NUMBER),
            within="dirs",
        ),
    ),
    ApiKey.CREATE_PARTITIONS: (_Mirror("topics", "results", _NAME),),
    ApiKey.DELETE_GROUPS: (_Mirror("groups_names", "results", {"group_id": _ITSELF}),),
    ApiKey.ELECT_LEADERS: (
        _Mirror(
            "topic_partitions",
            "replica_election_results",
            {"topic": "topic"},
            _Mirror("partitions", "partition_result", {"partition_id": _ITSELF}),
        ),
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (_Mirror("topics", "responses", _NAME, _PARTITIONS),),
    ApiKey.ALTER_CLIENT_QUOTAS: (
        _Mirror(
            "entries",
            "entries",
            {},
            _Mirror("entity", "entity", {"entity_type": "entity_type", "entity_name": "entity_name"}),
        ),
    ),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (_Mirror("users", "results", {}),),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (_USER, _USER._replace(asked="upsertions")),
    ApiKey.DESCRIBE_PRODUCERS: (_Mirror("topics", "topics", _NAME, _MARKED),),
    ApiKey.DESCRIBE_TRANSACTIONS: (
        _Mirror("transactional_ids", "transaction_states", {"transactional_id": _ITSELF}),
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (_Mirror("topics", "topics", _NAME),),
}
