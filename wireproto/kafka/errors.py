"""Kafka's error codes, and the two exceptions of the Kafka side.

::

    KafkaError          the peer's request cannot be served: answered with a code, the connection lives
    MalformedRequest    the peer's bytes are not a request: the connection is closed
"""

from enum import IntEnum
from typing import Final, Self

_RETRIABLE: Final = True
"""A client may send the same request again: Kafka's class for it extends `RetriableException`."""


class ErrorCode(IntEnum):
    """Every error of Kafka 4.3 by Kafka's name (``org.apache.kafka.common.protocol.Errors``).

    ``message`` is one short English clause in our words; ``retriable`` is what Kafka's Java client does
    with it.
    """

    message: str
    retriable: bool

    def __new__(cls, code: int, message: str = "", retriable: bool = False) -> Self:
        member = int.__new__(cls, code)
        member._value_ = code
        member.message = message
        member.retriable = retriable
        return member

    UNKNOWN_SERVER_ERROR = -1, "unexpected error in the server"
    NONE = 0, "no error"
    OFFSET_OUT_OF_RANGE = 1, "the offset is not within the log"
    CORRUPT_MESSAGE = 2, "the message is corrupt: checksum, size or format", _RETRIABLE
    UNKNOWN_TOPIC_OR_PARTITION = 3, "this server does not host that topic or partition", _RETRIABLE
    INVALID_FETCH_SIZE = 4, "the fetch size is invalid"
    LEADER_NOT_AVAILABLE = 5, "no leader for this partition at the moment", _RETRIABLE
    NOT_LEADER_OR_FOLLOWER = 6, "this broker is not the leader of the partition", _RETRIABLE
    REQUEST_TIMED_OUT = 7, "the request timed out", _RETRIABLE
    BROKER_NOT_AVAILABLE = 8, "the broker is not available"
    REPLICA_NOT_AVAILABLE = 9, "the replica is not available", _RETRIABLE
    MESSAGE_TOO_LARGE = 10, "the message is larger than the limit"
    STALE_CONTROLLER_EPOCH = 11, "the controller epoch is stale"
    OFFSET_METADATA_TOO_LARGE = 12, "the offset's metadata is too large"
    NETWORK_EXCEPTION = 13, "the connection ended before a response", _RETRIABLE
    COORDINATOR_LOAD_IN_PROGRESS = 14, "the coordinator is still loading", _RETRIABLE
    COORDINATOR_NOT_AVAILABLE = 15, "the coordinator is not available", _RETRIABLE
    NOT_COORDINATOR = 16, "this broker is not the coordinator", _RETRIABLE
    INVALID_TOPIC_EXCEPTION = 17, "the topic name is invalid"
    RECORD_LIST_TOO_LARGE = 18, "the batch is larger than a segment"
    NOT_ENOUGH_REPLICAS = 19, "fewer in-sync replicas than required; nothing was written", _RETRIABLE
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, "written, but to fewer in-sync replicas than required", _RETRIABLE
    INVALID_REQUIRED_ACKS = 21, "acks must be -1, 0 or 1"
    ILLEGAL_GENERATION = 22, "the group's generation is another one"
    INCONSISTENT_GROUP_PROTOCOL = 23, "the member's protocols do not fit the group's"
    INVALID_GROUP_ID = 24, "the group id is invalid"
    UNKNOWN_MEMBER_ID = 25, "the coordinator does not know this member"
    INVALID_SESSION_TIMEOUT = 26, "the session timeout is outside the allowed range"
    REBALANCE_IN_PROGRESS = 27, "the group is rebalancing"
    INVALID_COMMIT_OFFSET_SIZE = 28, "the committed offset's size is invalid"
    TOPIC_AUTHORIZATION_FAILED = 29, "not authorized for the topic"
    GROUP_AUTHORIZATION_FAILED = 30, "not authorized for the group"
    CLUSTER_AUTHORIZATION_FAILED = 31, "not authorized for the cluster"
    INVALID_TIMESTAMP = 32, "the timestamp is out of range"
    UNSUPPORTED_SASL_MECHANISM = 33, "the SASL mechanism is not supported"
    ILLEGAL_SASL_STATE = 34, "the request does not fit the SASL state"
    UNSUPPORTED_VERSION = 35, "the API version is not supported"
    TOPIC_ALREADY_EXISTS = 36, "a topic with this name exists"
    INVALID_PARTITIONS = 37, "the number of partitions is invalid"
    INVALID_REPLICATION_FACTOR = 38, "the replication factor is invalid"
    INVALID_REPLICA_ASSIGNMENT = 39, "the replica assignment is invalid"
    INVALID_CONFIG = 40, "the configuration is invalid"
    NOT_CONTROLLER = 41, "this broker is not the controller", _RETRIABLE
    INVALID_REQUEST = 42, "the request is invalid"
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, "the message format does not support this request"
    POLICY_VIOLATION = 44, "the request violates a policy"
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, "the producer's sequence number is out of order"
    DUPLICATE_SEQUENCE_NUMBER = 46, "the producer's sequence number was seen before"
    INVALID_PRODUCER_EPOCH = 47, "the producer's epoch is old"
    INVALID_TXN_STATE = 48, "the transaction is in another state"
    INVALID_PRODUCER_ID_MAPPING = 49, "the producer id does not belong to the transactional id"
    INVALID_TRANSACTION_TIMEOUT = 50, "the transaction timeout is larger than the limit"
    CONCURRENT_TRANSACTIONS = 51, "another operation on this transaction is under way", _RETRIABLE
    TRANSACTION_COORDINATOR_FENCED = 52, "the transaction coordinator was superseded"
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, "not authorized for the transactional id"
    SECURITY_DISABLED = 54, "security is disabled"
    OPERATION_NOT_ATTEMPTED = 55, "the operation was not attempted"
    KAFKA_STORAGE_ERROR = 56, "the storage failed", _RETRIABLE
    LOG_DIR_NOT_FOUND = 57, "the log directory does not exist"
    SASL_AUTHENTICATION_FAILED = 58, "SASL authentication failed"
    UNKNOWN_PRODUCER_ID = 59, "the producer id is unknown"
    REASSIGNMENT_IN_PROGRESS = 60, "a reassignment is in progress"
    DELEGATION_TOKEN_AUTH_DISABLED = 61, "delegation tokens are disabled"
    DELEGATION_TOKEN_NOT_FOUND = 62, "the delegation token does not exist"
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, "the delegation token belongs to another principal"
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, "delegation tokens are not allowed on this channel"
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, "not authorized for the delegation token"
    DELEGATION_TOKEN_EXPIRED = 66, "the delegation token has expired"
    INVALID_PRINCIPAL_TYPE = 67, "the principal type is not supported"
    NON_EMPTY_GROUP = 68, "the group is not empty"
    GROUP_ID_NOT_FOUND = 69, "the group does not exist"
    FETCH_SESSION_ID_NOT_FOUND = 70, "the fetch session does not exist", _RETRIABLE
    INVALID_FETCH_SESSION_EPOCH = 71, "the fetch session's epoch is another one", _RETRIABLE
    LISTENER_NOT_FOUND = 72, "the leader has no listener of that name", _RETRIABLE
    TOPIC_DELETION_DISABLED = 73, "topic deletion is disabled"
    FENCED_LEADER_EPOCH = 74, "the leader epoch is older than the broker's", _RETRIABLE
    UNKNOWN_LEADER_EPOCH = 75, "the leader epoch is newer than the broker's", _RETRIABLE
    UNSUPPORTED_COMPRESSION_TYPE = 76, "the compression type is not supported"
    STALE_BROKER_EPOCH = 77, "the broker epoch has changed"
    OFFSET_NOT_AVAILABLE = 78, "offsets are not available until the partition has recovered", _RETRIABLE
    MEMBER_ID_REQUIRED = 79, "the member needs an id before it joins"
    PREFERRED_LEADER_NOT_AVAILABLE = 80, "the preferred leader is not available", _RETRIABLE
    GROUP_MAX_SIZE_REACHED = 81, "the group is full"
    FENCED_INSTANCE_ID = 82, "another member took this group instance id"
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, "no eligible leader is available", _RETRIABLE
    ELECTION_NOT_NEEDED = 84, "no election is needed", _RETRIABLE
    NO_REASSIGNMENT_IN_PROGRESS = 85, "no reassignment is in progress"
    GROUP_SUBSCRIBED_TO_TOPIC = 86, "the group subscribes to the topic"
    INVALID_RECORD = 87, "the record failed validation"
    UNSTABLE_OFFSET_COMMIT = 88, "unstable offsets have to be cleared first", _RETRIABLE
    THROTTLING_QUOTA_EXCEEDED = 89, "the quota is exceeded", _RETRIABLE
    PRODUCER_FENCED = 90, "a newer producer has the transactional id"
    RESOURCE_NOT_FOUND = 91, "the resource does not exist"
    DUPLICATE_RESOURCE = 92, "the resource is named twice"
    UNACCEPTABLE_CREDENTIAL = 93, "the credential is not acceptable"
    INCONSISTENT_VOTER_SET = 94, "the voter sets differ"
    INVALID_UPDATE_VERSION = 95, "the update version is invalid"
    FEATURE_UPDATE_FAILED = 96, "the feature update failed"
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, "the forwarded principal cannot be read"
    SNAPSHOT_NOT_FOUND = 98, "the snapshot does not exist"
    POSITION_OUT_OF_RANGE = 99, "the position is outside the snapshot"
    UNKNOWN_TOPIC_ID = 100, "this server does not host that topic id", _RETRIABLE
    DUPLICATE_BROKER_REGISTRATION = 101, "the broker id is in use"
    BROKER_ID_NOT_REGISTERED = 102, "the broker id is not registered"
    INCONSISTENT_TOPIC_ID = 103, "the topic id is not that of the log", _RETRIABLE
    INCONSISTENT_CLUSTER_ID = 104, "the cluster id is another one"
    TRANSACTIONAL_ID_NOT_FOUND = 105, "the transactional id does not exist"
    FETCH_SESSION_TOPIC_ID_ERROR = 106, "the fetch session mixes topic ids and names", _RETRIABLE
    INELIGIBLE_REPLICA = 107, "a replica is not eligible"
    NEW_LEADER_ELECTED = 108, "a new leader was elected"
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, "the offset is in tiered storage"
    FENCED_MEMBER_EPOCH = 110, "the member's epoch is fenced"
    UNRELEASED_INSTANCE_ID = 111, "the group instance id is still in use"
    UNSUPPORTED_ASSIGNOR = 112, "the assignor is not supported"
    STALE_MEMBER_EPOCH = 113, "the member's epoch is stale"
    MISMATCHED_ENDPOINT_TYPE = 114, "the endpoint is of another type"
    UNSUPPORTED_ENDPOINT_TYPE = 115, "the endpoint type is not supported"
    UNKNOWN_CONTROLLER_ID = 116, "the controller id is unknown"
    UNKNOWN_SUBSCRIPTION_ID = 117, "the telemetry subscription id is unknown"
    TELEMETRY_TOO_LARGE = 118, "the telemetry is larger than the limit"
    INVALID_REGISTRATION = 119, "the registration is invalid"
    TRANSACTION_ABORTABLE = 120, "the transaction has to be aborted"
    INVALID_RECORD_STATE = 121, "the record's delivery state is invalid"
    SHARE_SESSION_NOT_FOUND = 122, "the share session does not exist", _RETRIABLE
    INVALID_SHARE_SESSION_EPOCH = 123, "the share session's epoch is another one", _RETRIABLE
    FENCED_STATE_EPOCH = 124, "the share group's state epoch is fenced"
    INVALID_VOTER_KEY = 125, "the voter's key is another one"
    DUPLICATE_VOTER = 126, "the voter is in the set already"
    VOTER_NOT_FOUND = 127, "the voter is not in the set"
    INVALID_REGULAR_EXPRESSION = 128, "the regular expression is invalid"
    REBOOTSTRAP_REQUIRED = 129, "the client has to bootstrap again"
    STREAMS_INVALID_TOPOLOGY = 130, "the topology is invalid"
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, "the topology's epoch is invalid"
    STREAMS_TOPOLOGY_FENCED = 132, "the topology's epoch is fenced"
    SHARE_SESSION_LIMIT_REACHED = 133, "too many share sessions", _RETRIABLE


class KafkaError(Exception):
    """What a handler answers for one topic, partition or request: a code, and words for people."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message or code.message

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"


class MalformedRequest(Exception):
    """The bytes are not a request of Kafka's protocol; the connection they came from is closed.

    The message says what was wrong. It quotes no more than 64 characters that the client chose.
    """


class MalformedAnswer(Exception):
    """The bytes are not an answer to what was asked; the connection they came from is closed.

    The message says what was wrong. It quotes no more than 64 characters that the other side chose.
    """
