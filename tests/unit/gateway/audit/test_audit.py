"""What auditors are told, what is left out, and what becomes of it when it cannot be written."""

from __future__ import annotations

import json
import threading
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.audit import audit as audit_module
from gateway.audit.audit import (
    LINES,
    LINES_SECONDS,
    MAX_CLIENTS,
    MAX_DECODED_BYTES,
    MAX_WAIT_SECONDS,
    RETRY_SECONDS,
    Audit,
)
from gateway.audit.contents import MAX_TOLD_BYTES
from gateway.security.access import ByAcls
from gateway.security.acls import Operation, ResourceType
from gateway.security.authorizer import Authorizer
from gateway.security.gateways import principal_of
from gateway.security.principal import Principal
from tests.unit.gateway.api.asking import CORRELATION_ID, encode_request, request_class
from wireproto.kafka.headers import parse_request_header
from wireproto.kafka.requests import decode_request
from wireproto.kafka.responses import encode_response
from wireproto.kafka.schemas import RESPONSE_CLASSES

NOON = datetime(2026, 11, 26, 12, tzinfo=UTC)
ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")


class FakeSink:
    """`fails`: as often it raises. It blocks as long as it is not `ready`."""

    def __init__(self) -> None:
        self.written = b""
        self.fails = 0
        self.ready = threading.Event()
        self.ready.set()

    def write(self, lines: bytes) -> None:
        self.ready.wait()
        if self.fails:
            self.fails -= 1
            raise OSError("the disk is full")
        self.written += lines

    def take(self) -> list[Any]:
        lines, self.written = self.written.splitlines(), b""
        return [json.loads(line) for line in lines]


def access_of(principal: Principal = ALICE) -> ByAcls:
    access = ByAcls(principal, "::1", lambda: Authorizer([]))
    access.api = "Produce"
    return access


def audited(
    body: Callable[[Audit, FakeSink], Awaitable[None]],
    *,
    required: bool = False,
    clock: Callable[[], trio.abc.Clock | None] = lambda: MockClock(autojump_threshold=0.01),
) -> None:
    async def main() -> None:
        sink = FakeSink()
        audit = Audit(sink, required=required, now=lambda: NOON)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(audit.run)
            await body(audit, sink)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=clock())


def deny(audit: Audit, name: str = "orders", principal: Principal = ALICE) -> None:
    audit.denied(access_of(principal), (Operation.WRITE, ResourceType.TOPIC, name))


async def written(audit: Audit, sink: FakeSink) -> list[Any]:
    """All that was queued, once it is written."""
    await all_is_written(audit)
    return sink.take()


async def all_is_written(audit: Audit) -> None:
    while audit._queue:  # noqa: ASYNC110 - nothing says so but the queue
        await trio.sleep(0.1)


def test_a_denied_request() -> None:
    async def body(audit: Audit, sink: FakeSink) -> None:
        deny(audit, 'or"ders\n' + "x" * 300)
        assert await written(audit, sink) == [
            {
                "time": "2026-11-26T12:00:00.000Z",
                "event": "denied",
                "principal": "User:alice",
                "address": "0:0:0:0:0:0:0:1",
                "api": "Produce",
                "operation": "WRITE",
                "resource": "TOPIC",
                "name": 'or"ders\n' + "x" * 247,
            }
        ]

    audited(body)


def test_who_could_not_show_who_he_is() -> None:
    async def body(audit: Audit, sink: FakeSink) -> None:
        audit.refused("10.0.0.1:4242", "authentication failed: wrong user or password")
        (line,) = await written(audit, sink)
        assert (line["event"], line["address"]) == ("refused", "10.0.0.1:4242")
        assert line["why"] == "authentication failed: wrong user or password"

    audited(body)


def test_many_lines_about_one_client_are_left_out_and_no_others() -> None:
    async def body(audit: Audit, sink: FakeSink) -> None:
        for number in range(3 * LINES):
            deny(audit, f"t{number}")
        deny(audit, principal=BOB)
        lines = await written(audit, sink)
        assert [line["name"] for line in lines] == [f"t{number}" for number in range(LINES)] + ["orders"]
        assert (audit.left_out, audit.lines["denied"]) == (2 * LINES, 3 * LINES + 1)
        await trio.sleep(LINES_SECONDS)
        deny(audit, "late")
        deny(audit, "later")
        late, later = await written(audit, sink)
        assert (late["name"], late["left_out_before"]) == ("late", 2 * LINES)
        assert (later["name"], "left_out_before" in later) == ("later", False)

    audited(body)


def test_clients_that_are_counted_are_bounded() -> None:
    async def body(audit: Audit, sink: FakeSink) -> None:
        for number in range(2 * MAX_CLIENTS):
            audit.refused(f"10.0.{number >> 8}.{number & 255}:1", "why")
            assert len(audit._counted) <= MAX_CLIENTS
        assert len(await written(audit, sink)) == 2 * MAX_CLIENTS

    audited(body)


@pytest.mark.parametrize("required", [False, True])
def test_what_cannot_be_written_is_written_later_and_nothing_may_be_changed_meanwhile(required: bool) -> None:
    async def body(audit: Audit, sink: FakeSink) -> None:
        sink.fails = 2
        assert audit.trouble is None
        deny(audit, "one")
        await trio.sleep(RETRY_SECONDS / 2)
        deny(audit, "two")
        assert (audit.trouble is not None) == required
        if required:
            assert audit.trouble == "the audit cannot be written: the disk is full"
        assert [line["name"] for line in await written(audit, sink)] == ["one", "two"]
        assert audit.failures == 2
        assert audit.trouble is None

    audited(body, required=required)


def test_what_finds_no_room_is_counted_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_module, "MAX_QUEUED_BYTES", 500)

    async def body(audit: Audit, sink: FakeSink) -> None:
        sink.fails = 1
        for number in range(10):
            deny(audit, f"t{number}")
        lines = await written(audit, sink)
        assert [line["name"] for line in lines] == [f"t{number}" for number in range(len(lines))]
        assert 0 < len(lines) < 10
        assert audit.lost == 10 - len(lines)
        deny(audit, "next")
        (line,) = await written(audit, sink)
        assert (line["name"], line["lost_before"]) == ("next", audit.lost)

    audited(body)


@pytest.mark.parametrize("required", [False, True])
def test_nothing_may_be_changed_while_the_oldest_line_waits_too_long(required: bool) -> None:
    async def body(audit: Audit, sink: FakeSink) -> None:
        sink.ready.clear()
        try:
            deny(audit, "one")
            await trio.sleep(MAX_WAIT_SECONDS)
            assert audit.trouble is None
            deny(audit, "two")
            await trio.sleep(1)
            expected = f"the audit cannot be written: lines wait for more than {MAX_WAIT_SECONDS:.0f} seconds"
            assert audit.trouble == (expected if required else None)
        finally:
            sink.ready.set()
        assert [line["name"] for line in await written(audit, sink)] == ["one", "two"]
        assert audit.trouble is None

    audited(body, required=required)


@pytest.mark.parametrize("required", [False, True])
def test_nothing_may_be_changed_when_lines_were_lost_until_some_are_written(
    required: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_module, "MAX_QUEUED_BYTES", 300)

    async def body(audit: Audit, sink: FakeSink) -> None:
        sink.ready.clear()
        try:
            deny(audit, "one")
            assert audit.trouble is None
            deny(audit, "two")
            assert audit.lost == 1
            expected = "the audit cannot be written: there is no room for more lines that wait"
            assert audit.trouble == (expected if required else None)
        finally:
            sink.ready.set()
        assert [line["name"] for line in await written(audit, sink)] == ["one"]
        assert audit.trouble is None

    audited(body, required=required)


def test_a_sink_that_hangs_does_not_hold_up_the_end(caplog: pytest.LogCaptureFixture) -> None:
    kept: list[FakeSink] = []

    async def body(audit: Audit, sink: FakeSink) -> None:
        kept.append(sink)
        sink.ready.clear()
        deny(audit, "one")
        await wait_all_tasks_blocked()
        deny(audit, "two")

    def release() -> None:
        kept[0].ready.set()

    timer = threading.Timer(20, release)  # so that this test fails and does not hang
    timer.daemon = True
    timer.start()
    audited(body)
    assert not kept[0].ready.is_set()
    timer.cancel()
    kept[0].ready.set()
    assert "the audit was not written to its end: 2 lines" in caplog.text


def test_what_is_queued_when_it_ends_is_written() -> None:
    kept: list[FakeSink] = []

    async def body(audit: Audit, sink: FakeSink) -> None:
        kept.append(sink)
        await wait_all_tasks_blocked()
        deny(audit)

    audited(body, clock=lambda: None)  # the last write is waited for, and not past what a clock skips
    assert [line["event"] for line in kept[0].take()] == ["denied"]


# administration -------------------------------------------------------------------------------------------


async def administration(audit: Audit, request: Any, answer: Any, who: Principal = ALICE) -> None:
    frame = encode_request(request)
    header = parse_request_header(frame)
    key, version = header.api_key, header.api_version
    audit.administration(
        who, "10.0.0.1:4242", "CreateTopics", key, version,
        decode_request(key, version, frame, header.body_offset), len(frame),
        encode_response(answer, version, CORRELATION_ID),
    )  # fmt: skip


def test_administration_is_told_with_what_became_of_it() -> None:
    async def body(audit: Audit, sink: FakeSink) -> None:
        create = request_class(19)
        wanted = create.CreatableTopic
        topics = [
            wanted(
                name=name, num_partitions=3, replication_factor=1, assignments=[],
                configs=[wanted.CreatableTopicConfig(name="retention.ms", value="7 secrets")],
            )
            for name in ("one", "two")
        ]  # fmt: skip
        answered = RESPONSE_CLASSES[19]
        answer = answered(
            throttle_time_ms=0,
            topics=[
                answered.CreatableTopicResult(
                    name=name, topic_id=None, error_code=code, error_message=None,
                    topic_config_error_code=0, num_partitions=3, replication_factor=1, configs=[],
                )
                for name, code in (("one", 0), ("two", 36))
            ],
        )  # fmt: skip
        await administration(
            audit, create(version=7, topics=topics, timeout_ms=1, validate_only=False), answer
        )
        (line,) = await written(audit, sink)
        assert line == {
            "time": "2026-11-26T12:00:00.000Z",
            "event": "administration",
            "principal": "User:alice",
            "address": "10.0.0.1:4242",
            "api": "CreateTopics",
            "what": {
                "topics": [
                    {
                        "name": n,
                        "num_partitions": 3,
                        "replication_factor": 1,
                        "configs": [{"name": "retention.ms"}],
                    }
                    for n in ("one", "two")
                ],
                "validate_only": False,
            },
            "outcome": {"NONE": 1, "TOPIC_ALREADY_EXISTS": 1},
        }

    audited(body)


def test_no_secret_of_a_user_is_told() -> None:
    async def body(audit: Audit, sink: FakeSink) -> None:
        alter = request_class(51)
        request = alter(
            version=0,
            deletions=[alter.ScramCredentialDeletion(name="carol", mechanism=2)],
            upsertions=[
                alter.ScramCredentialUpsertion(
                    name="bob", mechanism=1, iterations=4096, salt=b"PLANTED-SALT", salted_password=b"PLANTED"
                )
            ],
        )
        results = RESPONSE_CLASSES[51](throttle_time_ms=0, results=[])
        await administration(audit, request, results)
        await all_is_written(audit)
        assert b"PLANTED" not in sink.written
        (line,) = sink.take()
        assert line["what"] == {
            "deletions": [{"name": "carol", "mechanism": 2}],
            "upsertions": [{"name": "bob", "mechanism": 1, "iterations": 4096}],
        }

    audited(body)


def test_a_delegation_token_is_told_of_without_its_password() -> None:
    async def body(audit: Audit, sink: FakeSink) -> None:
        create = request_class(38)
        request = create(
            version=3,
            owner_principal_type="User",
            owner_principal_name="bob",
            renewers=[create.CreatableRenewers(principal_type="User", principal_name="carol")],
            max_lifetime_ms=7,
        )
        made = RESPONSE_CLASSES[38](
            error_code=0, principal_type="User", principal_name="bob", token_requester_principal_type="User",
            token_requester_principal_name="alice", issue_timestamp_ms=1, expiry_timestamp_ms=2,
            max_timestamp_ms=3, token_id="id", hmac=b"PLANTED", throttle_time_ms=0,
        )  # fmt: skip
        await administration(audit, request, made)
        renew, expire, describe = map(request_class, (39, 40, 41))
        ended = RESPONSE_CLASSES[39](error_code=66, expiry_timestamp_ms=0, throttle_time_ms=0)
        await administration(audit, renew(version=2, hmac=b"PLANTED", renew_period_ms=5), ended)
        gone = RESPONSE_CLASSES[40](error_code=0, expiry_timestamp_ms=-1, throttle_time_ms=0)
        await administration(audit, expire(version=2, hmac=b"PLANTED", expiry_time_period_ms=-1), gone)
        owners = [describe.DescribeDelegationTokenOwner(principal_type="User", principal_name="bob")]
        none = RESPONSE_CLASSES[41](error_code=0, tokens=[], throttle_time_ms=0)
        await administration(audit, describe(version=3, owners=owners), none)
        lines = await written(audit, sink)
        assert "PLANTED" not in json.dumps(lines)
        assert [(line["what"], line["outcome"]) for line in lines] == [
            (
                {
                    "owner_principal_type": "User",
                    "owner_principal_name": "bob",
                    "renewers": [{"principal_type": "User", "principal_name": "carol"}],
                    "max_lifetime_ms": 7,
                },
                {"NONE": 1},
            ),
            ({"renew_period_ms": 5}, {"DELEGATION_TOKEN_EXPIRED": 1}),
            ({"expiry_time_period_ms": -1}, {"NONE": 1}),
            ({"owners": [{"principal_type": "User", "principal_name": "bob"}]}, {"NONE": 1}),
        ]

    audited(body)


def test_of_a_large_request_its_size_is_told_and_of_a_long_one_its_beginning() -> None:
    async def body(audit: Audit, sink: FakeSink) -> None:
        delete, answer = request_class(42), RESPONSE_CLASSES[42](throttle_time_ms=0, results=[])
        await administration(audit, delete(version=2, groups_names=[f"g{n}" for n in range(500)]), answer)
        await administration(audit, delete(version=2, groups_names=["g" * 30_000] * 5), answer)
        await administration(audit, delete(version=2, groups_names=["g"]), deletion(*[0] * 1000))
        long, large, answered = await written(audit, sink)
        assert long["what"]["groups_names"] == [f"g{n}" for n in range(100)] + ["... 400 more"]
        assert large["what"]["bytes"] > 150_000
        assert answered["what"] == {"groups_names": ["g"]}
        assert answered["outcome"]["bytes"] > MAX_DECODED_BYTES

    audited(body)


def deletion(*codes: int) -> Any:
    answered = RESPONSE_CLASSES[42]
    results = [answered.DeletableGroupResult(group_id=f"g{n}", error_code=c) for n, c in enumerate(codes)]
    return answered(throttle_time_ms=0, results=results)


@pytest.mark.parametrize(
    ("codes", "is_limited"),
    [
        ((30,), True),  # GROUP_AUTHORIZATION_FAILED
        ((30, 31, 29, 53, 65), True),  # of clusters, topics, transactional ids and tokens, too
        ((30, 0), False),
        ((30, 69), False),  # GROUP_ID_NOT_FOUND: it was allowed
        ((), False),
    ],
)
def test_administration_that_was_denied_as_a_whole_is_limited(
    codes: tuple[int, ...], is_limited: bool
) -> None:
    async def body(audit: Audit, sink: FakeSink) -> None:
        delete = request_class(42)
        for number in range(2 * LINES):
            request = delete(version=2, groups_names=[f"g{number}"])
            await administration(audit, request, deletion(*codes))
        await administration(audit, delete(version=2, groups_names=["his"]), deletion(*codes), BOB)
        told = LINES if is_limited else 2 * LINES
        lines = await written(audit, sink)
        names = [line["what"]["groups_names"] for line in lines]
        assert names == [[f"g{n}"] for n in range(told)] + [["his"]]
        assert (audit.left_out, audit.lines["administration"]) == (2 * LINES - told, 2 * LINES + 1)
        # What is done is told in any case, and how many were left out before with the next one of their kind.
        await administration(audit, delete(version=2, groups_names=["done"]), deletion(0))
        (done,) = await written(audit, sink)
        assert (done["what"], done["outcome"]) == ({"groups_names": ["done"]}, {"NONE": 1})

    audited(body)


def test_a_line_is_bounded_and_says_that_it_was_cut() -> None:
    async def body(audit: Audit, sink: FakeSink) -> None:
        create = request_class(30)
        longest = "\U0001f600" * 55  # 12 bytes each as JSON, and 4 in the request
        acl = create.AclCreation(
            resource_type=2, resource_name=longest, resource_pattern_type=3, principal=longest, host="*",
            operation=3, permission_type=3,
        )  # fmt: skip
        none = RESPONSE_CLASSES[30](throttle_time_ms=0, results=[])
        await administration(audit, create(version=3, creations=[acl] * 8), none)
        await all_is_written(audit)
        assert len(sink.written) <= MAX_TOLD_BYTES + 1024
        (line,) = sink.take()
        whole = {
            "resource_type": 2, "resource_name": longest, "resource_pattern_type": 3, "principal": longest,
            "host": "*", "operation": 3, "permission_type": 3,
        }  # fmt: skip
        *told, cut, more = line["what"]["creations"]
        assert told == [whole] * 2
        assert cut == {**whole, "principal": "...", "host": "..."}
        assert more == "... 5 more"

    audited(body)


def test_what_gateways_ask_each_other_is_not_told() -> None:
    async def body(audit: Audit, sink: FakeSink) -> None:
        delete, answer = request_class(42), RESPONSE_CLASSES[42](throttle_time_ms=0, results=[])
        for who in (principal_of(2), BOB):
            await administration(audit, delete(version=2, groups_names=["g"]), answer, who)
        (line,) = await written(audit, sink)
        assert line["principal"] == "User:bob"

    audited(body)
