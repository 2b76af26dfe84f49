"""The ids of messages: the byte that a header frame begins with, and so do the subscriptions to a message.

A request of our own has an upper-case id, its answer the same letter in lower case (VERIFY has the answer of
ROWS, a directed FETCH has END); `d` is many `D` in one.
"""

# Dafka's own messages, as the C nodes send them.
RECORD = b"M"
HEAD = b"H"
ACK = b"K"
FETCH = b"F"
DIRECT_RECORD = b"D"
DIRECT_HEAD = b"E"
GET_HEADS = b"G"
CONSUMER_HELLO = b"W"
STORE_HELLO = b"L"

# This project's requests to one store, and what it answers.
OPEN, OPENED = b"O", b"o"
SEAL, SEALED = b"S", b"s"
CLOSE, CLOSED = b"C", b"c"
DELETE, DELETED = b"X", b"x"
COPY, COPIED = b"Y", b"y"
PUBLISH, PUBLISHED = b"A", b"a"
BEGINNINGS, BEGUN = b"B", b"b"
PING, PONG = b"P", b"p"
LOOKUP, FOUND = b"Q", b"q"
GET_ROWS, ROWS = b"R", b"r"
LIST, LISTED = b"I", b"i"
DIGEST, DIGESTED = b"T", b"t"
VERIFY = b"V"
KEEP, KEPT = b"U", b"u"
RECALL, RECALLED = b"J", b"j"
END = b"N"

# What gateways tell all stores.
TAKEN_UP = b"Z"

# What stores answer to a FETCH of native records, to whoever subscribes to it.
DIRECT_RECORDS = b"d"

LIST_REQUESTS = (OPEN, SEAL, CLOSE, DELETE, COPY, BEGINNINGS, PUBLISH)
"""Those that carry a list, and whose answer has a status for each entry."""

REQUESTS = (*LIST_REQUESTS, PING, LOOKUP, GET_ROWS, VERIFY, LIST, DIGEST, KEEP, RECALL)
"""The requests whose topic is `@incarnation/`."""

ANSWERS = (
    OPENED,
    SEALED,
    CLOSED,
    DELETED,
    COPIED,
    BEGUN,
    PUBLISHED,
    PONG,
    FOUND,
    ROWS,
    LISTED,
    DIGESTED,
    KEPT,
    RECALLED,
)
"""What is answered to them."""


def answer_id(request_id: bytes) -> bytes:
    """The id of the answer to one of `LIST_REQUESTS`."""
    return request_id.lower()
