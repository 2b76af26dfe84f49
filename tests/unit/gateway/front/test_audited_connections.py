"""What connections tell auditors, over real sockets."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio
from kafka.protocol.admin import DeleteGroupsRequest

from gateway.audit.audit import Audit
from gateway.common.handlers import Request, Response
from gateway.security.access import Access, ByAcls
from gateway.security.acls import Operation, ResourceType
from gateway.security.authorizer import Authorizer
from gateway.security.principal import Principal
from tests.differential.wire import encode
from tests.unit.gateway.kafka_wire import Fakes, run, running
from wireproto.kafka.responses import encode_response
from wireproto.kafka.schemas import RESPONSE_CLASSES

ANSWER = RESPONSE_CLASSES[42]


class Kept:
    def __init__(self) -> None:
        self.written = b""

    def write(self, lines: bytes) -> None:
        self.written += lines


class Deletes(Fakes):
    """It would delete groups that the client may delete."""

    def __init__(self) -> None:
        super().__init__()

        @self.registry.api(key=42, name="DeleteGroups", min_version=0, max_version=2)
        async def delete_groups(request: Request, _broker: Any) -> Response:
            access = request.access
            results = [
                ANSWER.DeletableGroupResult(
                    group_id=name,
                    error_code=0 if access.may(Operation.DELETE, ResourceType.GROUP, name) else 30,
                )
                for name in request.body.groups_names
            ]
            header = request.header
            answer = ANSWER(throttle_time_ms=0, results=results)
            return encode_response(answer, header.api_version, header.correlation_id)


@asynccontextmanager
async def audited(kept: Kept) -> AsyncIterator[Any]:
    audit = Audit(kept)

    def grant(principal: Principal, address: str) -> Access:
        return ByAcls(principal, address, lambda: Authorizer([]), audit.denied)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(audit.run)
        async with running(fakes=Deletes(), grant=grant, audit=audit) as server, server.client() as client:
            yield client
        nursery.cancel_scope.cancel()


def test_a_denied_request_of_an_administrator_is_told_with_who_and_from_where() -> None:
    kept = Kept()

    async def main() -> None:
        async with audited(kept) as client:
            await client.send(encode(DeleteGroupsRequest(version=2, groups_names=["one", "two"])))
            assert await client.frame()

    run(main)
    first, second, whole = map(json.loads, kept.written.splitlines())
    for line, name in ((first, "one"), (second, "two")):
        assert line["event"] == "denied"
        assert (line["principal"], line["address"], line["api"]) == (
            "User:ANONYMOUS",
            "127.0.0.1",
            "DeleteGroups",
        )
        assert (line["operation"], line["resource"], line["name"]) == ("DELETE", "GROUP", name)
    assert (whole["event"], whole["api"]) == ("administration", "DeleteGroups")
    assert whole["what"] == {"groups_names": ["one", "two"]}
    assert whole["outcome"] == {"GROUP_AUTHORIZATION_FAILED": 2}
    assert whole["address"].startswith("127.0.0.1:")
