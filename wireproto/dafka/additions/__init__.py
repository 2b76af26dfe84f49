"""This project's own mesh messages, invisible to C nodes (which subscribe to none of these ids).

A request has an upper-case id, its answer the same letter in lower case. A request's topic is
`@<incarnation>/`, so that only the store it is meant for receives it; its first field is the requester: 32
upper-case hex characters whose first sixteen are those of the asking node's life and whose last sixteen
number the request. The answer's topic is `requester/incarnation`, so one subscription per answer id to the
sixteen characters brings a node all its answers, and each answer names its request and its sender.
docs/mesh-protocol.md has every message byte by byte.
"""

from wireproto.dafka.additions.lists import Answer, Listed, ListSegments, Request
from wireproto.dafka.additions.presence import ANY_STORE, Ping, Pong
from wireproto.dafka.additions.reading import (
    DIGEST_BYTES,
    LOOKUP_KINDS,
    LOOKUP_MAX_TIMESTAMP,
    LOOKUP_OFFSET,
    LOOKUP_TIMESTAMP,
    Digest,
    Digested,
    End,
    Found,
    GetRows,
    Lookup,
    Rows,
)
from wireproto.dafka.additions.segments import (
    STATUS_ANSWER_FULL,
    STATUS_BEGINS_LATER,
    STATUS_DONE,
    STATUS_FOREIGN_CLUSTER,
    STATUS_INCOMPLETE,
    STATUS_NOT_HERE,
    STATUS_OPEN,
    STATUS_SEALED,
    STATUS_STALE_EPOCH,
    STATUS_STORAGE_ERROR,
    AddressStatus,
    Announcement,
    Beginning,
    Copy,
)
from wireproto.dafka.additions.verifying import Verified, Verify

__all__ = [
    "ANY_STORE",
    "DIGEST_BYTES",
    "LOOKUP_KINDS",
    "LOOKUP_MAX_TIMESTAMP",
    "LOOKUP_OFFSET",
    "LOOKUP_TIMESTAMP",
    "STATUS_ANSWER_FULL",
    "STATUS_BEGINS_LATER",
    "STATUS_DONE",
    "STATUS_FOREIGN_CLUSTER",
    "STATUS_INCOMPLETE",
    "STATUS_NOT_HERE",
    "STATUS_OPEN",
    "STATUS_SEALED",
    "STATUS_STALE_EPOCH",
    "STATUS_STORAGE_ERROR",
    "AddressStatus",
    "Announcement",
    "Answer",
    "Beginning",
    "Copy",
    "Digest",
    "Digested",
    "End",
    "Found",
    "GetRows",
    "ListSegments",
    "Listed",
    "Lookup",
    "Ping",
    "Pong",
    "Request",
    "Rows",
    "Verified",
    "Verify",
]
