"""Reads a whole catalog from etcd, as it was at one revision; makes one where there is none."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

import trio

from gateway.catalog.etcd.client import TOO_LONG
from gateway.catalog.etcd.content import Content
from gateway.catalog.etcd.words import (
    NO_USERS,
    PERMISSION_DENIED,
    RANGE,
    RESOURCE_EXHAUSTED,
    TXN,
    Body,
    Kv,
    NotUnderstood,
    Refused,
    end_of_prefix,
    is_at,
    is_nobody,
    kvs,
    page,
    put,
    revision,
    txn,
    wants_token,
)
from gateway.catalog.interface import CatalogLost

if TYPE_CHECKING:
    from gateway.catalog.etcd.attempts import Names
    from gateway.catalog.etcd.client import Etcd, Line

ENTRIES_A_PAGE: Final = 1000
"""Keys that are read with one request: some 40 ms of the loop to decode."""

LOAD_SECONDS: Final = 10.0
"""Longest wait for a page, over all members."""

PAUSE_SECONDS: Final = 0.2
"""Between two rounds through the members."""

NOT_ALLOWED: Final = (
    "give its user the role that may read and write below the prefix (etcdctl role grant-permission ROLE"
    " --prefix=true readwrite PREFIX/), or name another one with --catalog-user"
)

UNKNOWN: Final = (
    "--catalog-user and --catalog-password-file have to name a user that etcd knows, and the password that it"
    " has there (etcdctl user passwd USER)"
)

NEEDS_NO_USER: Final = "have etcd ask who its clients are (etcdctl auth enable), or leave --catalog-user away"

NO_SPACE: Final = (
    "etcd has used its quota, and takes nothing until it is compacted and defragmented and its alarm is"
    ' disarmed (docs/operations.md, "etcd has no space"); --quota-backend-bytes raises the quota'
)


class Unreachable(CatalogLost):
    """No member of etcd has answered a start."""


class NotNow(CatalogLost):
    """etcd does not take this, and will when somebody has mended what the message names: a gateway that runs
    tries it again.
    """


class Changed(Exception):
    """What was read piece by piece is no longer there as it was: it is read again."""


async def ask_any(etcd: Etcd, line: Line, path: str, body: Body, where: str) -> Body:
    """The answer of some member, at a start. Raises Unreachable, CatalogLost, Changed; TooLong."""
    refusal: Refused | None = None
    with trio.move_on_after(LOAD_SECONDS):
        while True:
            for _ in etcd.names:
                answer = await line.ask(path, body)
                if isinstance(answer, dict):
                    return answer
                if answer is TOO_LONG:
                    raise TooLong
                if isinstance(answer, Refused):
                    refusal = answer
                    if not (etcd.has_user and wants_token(answer)):
                        raise refused(where, answer)
            await trio.sleep(PAUSE_SECONDS)
    if refusal is not None:
        raise refused(where, refusal)
    raise Unreachable(
        f"the catalog {where} cannot be reached: {etcd.complaint}. Start etcd, or correct --catalog; where"
        " its members ask for TLS or a user, --catalog-ca, --catalog-cert and --catalog-user say so"
    )


class TooLong(Exception):
    """An answer is longer than what is taken."""


def refused(where: str, answer: Refused) -> CatalogLost | Changed:
    """What is wrong when etcd has refused something."""
    closed = f"the catalog {where} is not open to this gateway ({answer.message})"
    if is_nobody(answer):
        return NotNow(f"{closed}: {UNKNOWN}")
    if NO_USERS in answer.message:
        return NotNow(f"{closed}: {NEEDS_NO_USER}")
    if answer.code == PERMISSION_DENIED:
        return NotNow(f"{closed}: {NOT_ALLOWED}")
    if answer.code == RESOURCE_EXHAUSTED and "space" in answer.message:
        return NotNow(f"the catalog {where} is full: {NO_SPACE}")
    if "compacted" in answer.message:
        return Changed()
    return CatalogLost(
        f"the catalog {where} has refused what is asked of it ({answer.message}). etcd's defaults of"
        " --max-txn-ops and --max-request-bytes are needed, or more, and version 3.4 or newer"
    )


async def load(etcd: Etcd, line: Line, names: Names, where: str) -> Content:
    """What is there now.

    Raises CatalogLost: no member answers (Unreachable), etcd refuses (NotNow, if somebody can mend it there),
    or what is there is no catalog.
    """
    while True:
        try:
            return Content(names, *await _pages(etcd, line, names, where))
        except Changed:
            pass
        except NotUnderstood as error:
            raise CatalogLost(f"what answers at {where} is not etcd's JSON gateway: {error}") from None


async def load_made(etcd: Etcd, line: Line, names: Names, where: str) -> Content:
    """What is there now, which is left as it is. Raises CatalogLost, as `load`; there is none."""
    content = await load(etcd, line, names, where)
    if content.seen is None:
        raise CatalogLost(
            f"there is no catalog in {where}: look at --catalog's addresses, and at the /PREFIX at its end"
        )
    return content


async def load_or_make(etcd: Etcd, line: Line, names: Names, where: str) -> Content:
    """What is there now, or a new catalog where there is nothing. Raises CatalogLost, as `load`."""
    while True:
        content = await load(etcd, line, names, where)
        if content.seen is not None:
            return content
        if content.mirror.range("", limit=1):
            raise CatalogLost(
                f"the catalog {where} has lost {names.history.decode()!r}, which no gateway deletes: somebody"
                " else has changed keys below this prefix. Restore etcd from its snapshot; or read the"
                " catalog back from the stores, below another prefix (dafka gateway rebuild-catalog)"
            )
        new = put(names.history, uuid.uuid4().hex[:16].encode())
        await ask_any(etcd, line, TXN, txn([is_at(names.history, 0)], [new], []), where)


async def _pages(etcd: Etcd, line: Line, names: Names, where: str) -> tuple[list[Kv], int]:
    first, end = names.everything, end_of_prefix(names.everything)
    found: list[Kv] = []
    at, limit = 0, ENTRIES_A_PAGE
    while True:
        try:
            told = await ask_any(etcd, line, RANGE, page(first, end, limit, at), where)
        except TooLong:
            if limit == 1:
                raise NotUnderstood("a single key is longer than what etcd takes") from None
            limit = max(1, limit // 8)
            continue
        some = kvs(told)
        at = at or revision(told)
        found += some
        if not told.get("more") or not some:
            return found, at
        first = some[-1].key + b"\0"
