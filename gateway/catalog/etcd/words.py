"""What is said to etcd's JSON gateway, and what an answer of it means. Pure.

(etcd's documentation: "gRPC gateway"; https://etcd.io/docs/v3.4/dev-guide/api_grpc_gateway/ and its
rpc.proto.) Bytes are base64, numbers of 64 bits are strings, and what is zero or false is left out of an
answer. A field that etcd does not know is ignored: a compare that is misspelt compares nothing. So bodies are
made here and nowhere else, and the conformance tests have each compare fail.

An answer is judged by its code, not by the status of HTTP: `Refused` did not happen, `Unknown` may have
happened, or happen later.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Self

Body = dict[str, Any]

RANGE: Final = "/v3/kv/range"
TXN: Final = "/v3/kv/txn"
WATCH: Final = "/v3/watch"
GRANT: Final = "/v3/lease/grant"
KEEP_ALIVE: Final = "/v3/lease/keepalive"
REVOKE: Final = "/v3/lease/revoke"
AUTHENTICATE: Final = "/v3/auth/authenticate"

# gRPC's codes (https://grpc.github.io/grpc/core/md_doc_statuscodes.html).
INVALID_ARGUMENT: Final = 3
NOT_FOUND: Final = 5
PERMISSION_DENIED: Final = 7
RESOURCE_EXHAUSTED: Final = 8
FAILED_PRECONDITION: Final = 9
OUT_OF_RANGE: Final = 11
UNAUTHENTICATED: Final = 16

_NOTHING_DONE: Final = frozenset(
    {
        INVALID_ARGUMENT,
        NOT_FOUND,
        PERMISSION_DENIED,
        RESOURCE_EXHAUSTED,
        FAILED_PRECONDITION,
        OUT_OF_RANGE,
        UNAUTHENTICATED,
    }
)
"""The codes of what etcd looked at and did not do."""

_NO_TOKEN: Final = ("user name is empty", "invalid auth token", "revision of auth store is old")
"""What messages say of a request without a token that is still good."""

NO_USERS: Final = "authentication is not enabled"
"""What the message says of a token that is asked for where nobody needs one."""

MAX_SHOWN: Final = 200
"""Characters of a message of etcd's that people are shown."""


# what is said ----------------------------------------------------------------------------------------------


def encoded(value: bytes) -> str:
    return b64encode(value).decode()


def end_of_prefix(prefix: bytes) -> bytes:
    """The first key that comes after all that begin with `prefix`, which ends with a character of ASCII."""
    return prefix[:-1] + bytes([prefix[-1] + 1])


def is_at(key: bytes, mod_revision: int) -> Body:
    """A compare: the key was last changed then; 0: it does not exist."""
    return {
        "key": encoded(key),
        "target": "MOD",
        "result": "EQUAL",
        "mod_revision": str(mod_revision),
    }


def has_value(key: bytes, value: bytes) -> Body:
    """A compare: the key has this value."""
    return {"key": encoded(key), "target": "VALUE", "result": "EQUAL", "value": encoded(value)}


def was_put_more_often_than(key: bytes, times: int) -> Body:
    """A compare: the key was put so often since it exists, and once more at least."""
    return {"key": encoded(key), "target": "VERSION", "result": "GREATER", "version": str(times)}


def put(key: bytes, value: bytes, lease: int = 0) -> Body:
    """An operation; without a lease the key loses the one that it had."""
    body: Body = {"key": encoded(key), "value": encoded(value)}
    if lease:
        body["lease"] = str(lease)
    return {"request_put": body}


def delete(key: bytes) -> Body:
    """An operation."""
    return {"request_delete_range": {"key": encoded(key)}}


def look_at(key: bytes, *, value: bool = False) -> Body:
    """An operation: the key, with its `value` or only with its revisions."""
    body: Body = {"key": encoded(key)}
    return {"request_range": body if value else body | {"keys_only": True}}


def txn(compares: list[Body], then: list[Body], otherwise: list[Body]) -> Body:
    """All compares hold, and `then` is done; or `otherwise`."""
    return {"compare": compares, "success": then, "failure": otherwise}


def page(first: bytes, end: bytes, limit: int, revision: int = 0) -> Body:
    """The keys from `first` to before `end`, so many at most, as they were at `revision` (0: now)."""
    body: Body = {"key": encoded(first), "range_end": encoded(end), "limit": str(limit)}
    return body | {"revision": str(revision)} if revision else body


def one(key: bytes) -> Body:
    """A key as it is now, as a majority has it."""
    return {"key": encoded(key)}


def watch(prefix: bytes, from_revision: int) -> Body:
    """All changes below the prefix."""
    return {
        "create_request": {
            "key": encoded(prefix),
            "range_end": encoded(end_of_prefix(prefix)),
            "start_revision": str(from_revision),
            "fragment": True,
        }
    }


# what is answered ------------------------------------------------------------------------------------------


class NotUnderstood(Exception):
    """An answer is not what etcd answers."""


class Kv(NamedTuple):
    """A key of etcd's. `version`: how often it was put since it exists."""

    key: bytes
    value: bytes
    create_revision: int
    mod_revision: int
    version: int
    lease: int

    @classmethod
    def of(cls, told: Any) -> Self:
        """From JSON. Raises NotUnderstood."""
        try:
            return cls(
                b64decode(told["key"], validate=True),
                b64decode(told.get("value", ""), validate=True),
                number(told, "create_revision"),
                number(told, "mod_revision"),
                number(told, "version"),
                number(told, "lease"),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise NotUnderstood(f"a key: {error!r}") from None


def number(told: Mapping[str, Any], name: str) -> int:
    """A number of 64 bits, which is left out where it is zero. Raises NotUnderstood."""
    value = told.get(name, 0)
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise NotUnderstood(f"{name} is {value!r:.60}")
    try:
        return int(value)
    except ValueError:
        raise NotUnderstood(f"{name} is {value!r:.60}") from None


def kvs(told: Mapping[str, Any]) -> list[Kv]:
    """Of the answer to a range. Raises NotUnderstood."""
    found = told.get("kvs", [])
    if not isinstance(found, list):
        raise NotUnderstood("its keys are no list")
    return [Kv.of(each) for each in found]


def revision(told: Mapping[str, Any]) -> int:
    """The revision that etcd was at. Raises NotUnderstood."""
    header = told.get("header")
    if not isinstance(header, dict):
        raise NotUnderstood("it has no header")
    return number(header, "revision")


def ranges(told: Mapping[str, Any]) -> list[Kv | None]:
    """What the `look_at` of a transaction have found, each in its place. Raises NotUnderstood."""
    found: list[Kv | None] = []
    try:
        for response in told.get("responses", []):
            each = kvs(response["response_range"])
            found.append(each[0] if each else None)
    except (AttributeError, KeyError, TypeError) as error:
        raise NotUnderstood(f"what a transaction has read: {error!r}") from None
    return found


class Refused(NamedTuple):
    """etcd has looked at it and did nothing."""

    code: int
    message: str


class Unknown(NamedTuple):
    """It has happened, or not, or will."""

    reason: str


class NotSent(NamedTuple):
    """It did not leave this process, so it never happens."""

    reason: str


def judge(status: int, content: bytes) -> Body | Refused | Unknown:
    """What an answer of HTTP says."""
    try:
        told = json.loads(content)
    except (ValueError, RecursionError):
        return Unknown(f"HTTP status {status}, and no JSON: is it an etcd?")
    if not isinstance(told, dict):
        return Unknown(f"HTTP status {status}, and JSON that is no object: is it an etcd?")
    if status == 200 and "error" not in told:
        return told
    return judge_error(told)


def judge_error(told: Mapping[str, Any]) -> Refused | Unknown:
    """What an error says, of an answer or within a stream."""
    error = told.get("error", told)
    if isinstance(error, dict):  # within a stream
        code, message = error.get("grpc_code"), error.get("message")
    else:
        code, message = told.get("code"), told.get("message", error)
    message = str(message)[:MAX_SHOWN]
    if isinstance(code, int) and code in _NOTHING_DONE:
        return Refused(code, message)
    return Unknown(message)


def wants_token(refused: Refused) -> bool:
    """Whether another token, of the same user, may be all that is needed."""
    return refused.code == UNAUTHENTICATED or (
        refused.code == INVALID_ARGUMENT and says_no_token(refused.message)
    )


def says_no_token(message: str) -> bool:
    return any(text in message for text in _NO_TOKEN)


def is_nobody(refused: Refused) -> bool:
    """Whether etcd does not know who asks: a user or a password is wrong, or there is none."""
    message = refused.message
    return wants_token(refused) or "authentication failed" in message or "user name" in message
