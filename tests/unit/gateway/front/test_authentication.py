"""A listener with SASL: real connections, and requests that begin, fail, are too early or too late."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, TypeVar

import pytest
import trio
import trio.testing
from kafka.protocol.metadata import ApiVersionsRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from trio.testing import MockClock

import gateway.api.sasl_authenticate
import gateway.api.sasl_handshake  # noqa: F401  both register themselves
from gateway.api.sasl_authenticate import FAILED_SECONDS
from gateway.cluster.scram_users import Deletion, ScramUsers
from gateway.common.clients import LOOPBACK
from gateway.common.handlers import DEFAULT_REGISTRY, Request, Response
from gateway.front.authentication import MAX_TOKEN_FRAME_BYTES, MAX_UNKNOWN_FRAME_BYTES
from gateway.front.sessions import Sessions
from gateway.security.plain import PlainExchange
from gateway.security.principal import Principal
from gateway.security.sasl_session import SaslSession
from gateway.security.scram import Hash, Known, credential_of
from tests.differential.wire import decode, encode, frame
from tests.unit.gateway.catalog.memory import MemoryCatalog
from tests.unit.gateway.cluster.test_scram_users import upsertion
from tests.unit.gateway.kafka_wire import ECHO, Client, Fakes, answer, request, run, running
from tests.unit.gateway.security.test_scram import Client as ScramMessages
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode

RIGHT, WRONG = b"\0alice\0secret", b"\0alice\0wrong"
NONE, ILLEGAL, FAILED = ErrorCode.NONE, ErrorCode.ILLEGAL_SASL_STATE, ErrorCode.SASL_AUTHENTICATION_FAILED
SESSION_MS = 60_000
HELLO, ECHOED = request(ECHO, 9, b"hello"), answer(9, b"hello")


class Speaker:
    """A client that speaks Kafka."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def ask(self, made: Any) -> Any:
        await self.client.send(encode(made))
        received = await self.client.frame()
        return decode(made.API_KEY, made.API_VERSION, received[4:])

    async def handshake(self, version: int = 1, mechanism: str = "PLAIN") -> Any:
        return await self.ask(SaslHandshakeRequest(version=version, mechanism=mechanism))

    async def authenticate(self, token: bytes = RIGHT, version: int = 2) -> Any:
        return await self.ask(SaslAuthenticateRequest(version=version, auth_bytes=token))

    async def is_served(self) -> bool:
        """Whether other requests are; if not, the connection was closed without a word."""
        await self.client.send(HELLO)
        received = await self.client.frame()
        assert received in {ECHOED, b""}
        return received == ECHOED


Some = TypeVar("Some", bound=Fakes)


def with_sasl(fakes: Some) -> Some:
    for key in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE):
        found = DEFAULT_REGISTRY.lookup(key)
        assert found is not None
        fakes.registry._apis[key] = found
    return fakes


@asynccontextmanager
async def speaker(*, sasl: bool = True, session_ms: int = SESSION_MS) -> AsyncIterator[Speaker]:
    def begin() -> PlainExchange:
        return PlainExchange(lambda user, password: (user, password) == ("alice", "secret"))

    session = SaslSession({"PLAIN": begin}, session_ms) if sasl else None
    async with (
        running(fakes=with_sasl(Fakes()), begin_session=lambda _listener: session) as server,
        server.client() as one,
    ):
        yield Speaker(one)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_who_is_known_is_served(version: int) -> None:
    async def main() -> None:
        async with speaker() as one:
            assert (await one.ask(ApiVersionsRequest(version=0))).error_code == NONE
            shaken = await one.handshake()
            assert (shaken.error_code, shaken.mechanisms) == (NONE, ["PLAIN"])
            told = await one.authenticate(RIGHT, version)
            assert (told.error_code, told.error_message, told.auth_bytes) == (NONE, "", b"")
            assert told.session_lifetime_ms == (SESSION_MS if version else 0)
            for _ in range(3):
                assert await one.is_served()

    run(main)


def test_who_sends_frames_without_requests() -> None:
    async def main() -> None:
        async with speaker() as one:
            assert (await one.handshake(0)).error_code == NONE
            await one.client.send(frame(RIGHT))
            assert await one.client.frame() == bytes(4)
            assert await one.is_served()

    run(main)


def test_a_frame_that_is_wrong_is_closed_without_an_answer() -> None:
    async def main() -> None:
        async with speaker() as one:
            await one.handshake(0)
            began = trio.current_time()
            await one.client.send(frame(WRONG))
            assert await one.client.closed()
            assert trio.current_time() - began >= FAILED_SECONDS

    run(main, MockClock(autojump_threshold=0.05))


def test_who_fails_is_told_so_after_a_while_and_hung_up_on() -> None:
    async def main() -> None:
        async with speaker() as one:
            await one.handshake()
            began = trio.current_time()
            await one.client.send(
                HELLO[:0] + encode(SaslAuthenticateRequest(version=1, auth_bytes=WRONG)), HELLO
            )
            told = decode(ApiKey.SASL_AUTHENTICATE, 1, (await one.client.frame())[4:])
            assert trio.current_time() - began >= FAILED_SECONDS
            assert (told.error_code, told.error_message) == (
                FAILED, "Authentication failed: Invalid username or password",
            )  # fmt: skip
            assert await one.client.closed()

    run(main, MockClock(autojump_threshold=0.05))


@pytest.mark.parametrize("shaken", [None, 0, 1])
def test_nobody_is_served_before_it_is_known_who_it_is(shaken: int | None) -> None:
    async def main() -> None:
        async with speaker() as one:
            if shaken is not None:
                await one.handshake(shaken)
            assert not await one.is_served()

    run(main, MockClock(autojump_threshold=0.05))


def test_a_second_question_for_versions_is_one_too_many() -> None:
    async def main() -> None:
        async with speaker() as one:
            assert (await one.ask(ApiVersionsRequest(version=3))).error_code == NONE
            await one.client.send(encode(ApiVersionsRequest(version=0)))
            assert await one.client.closed()

    run(main)


def test_a_mechanism_that_there_is_not() -> None:
    async def main() -> None:
        async with speaker() as one:
            shaken = await one.handshake(1, "GSSAPI")
            assert (shaken.error_code, shaken.mechanisms) == (
                ErrorCode.UNSUPPORTED_SASL_MECHANISM, ["PLAIN"],
            )  # fmt: skip
            assert await one.client.closed()

    run(main)


@pytest.mark.parametrize(
    ("mechanism", "said"),
    [
        ("GSSAPI", "SaslHandshake by GSSAPI: "),
        ("SCRAM-SHA-1", "SaslHandshake by SCRAM-SHA-1: "),
        ("X_9", "SaslHandshake by X_9: "),
        ("my password", "SaslHandshake by what is no mechanism's name: "),
        ("hunter2", "SaslHandshake by what is no mechanism's name: "),
        ("A" * 21, "SaslHandshake by what is no mechanism's name: "),
        ("", "SaslHandshake by what is no mechanism's name: "),
    ],
)
def test_what_is_said_of_one_is_its_name_and_nothing_else(
    mechanism: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with speaker() as one:
            await one.handshake(mechanism=mechanism)
            assert await one.client.closed()

    run(main)
    assert said in caplog.text
    assert not mechanism or said.split(" by ")[1].startswith(mechanism) or mechanism not in caplog.text


@pytest.mark.parametrize(("shaken", "most"), [(None, MAX_UNKNOWN_FRAME_BYTES), (0, MAX_TOKEN_FRAME_BYTES)])
def test_who_is_not_known_sends_no_large_frames(shaken: int | None, most: int) -> None:
    async def main() -> None:
        async with speaker() as one:
            if shaken is not None:
                await one.handshake(shaken)
            await one.client.send((most + 1).to_bytes(4, "big"))
            assert await one.client.closed()
        async with speaker() as one:
            await one.handshake()
            await one.authenticate()
            large = request(ECHO, 9, bytes(most))
            await one.client.send(large)
            assert len(await one.client.frame()) > most

    run(main)


def test_a_session_ends_and_goes_on_when_it_is_authenticated_again() -> None:
    async def main() -> None:
        async with speaker() as one:
            await one.handshake()
            await one.authenticate()
            await trio.sleep(SESSION_MS / 2000)
            assert await one.is_served()
            await one.handshake()
            assert (await one.authenticate()).session_lifetime_ms == SESSION_MS
            await trio.sleep(SESSION_MS / 1000 - 1)
            assert await one.is_served()
            await trio.sleep(2)
            assert not await one.is_served()

    run(main, MockClock(autojump_threshold=0.05))


@pytest.mark.parametrize("sasl", [True, False])
def test_where_none_is_awaited_it_is_refused_and_all_goes_on(sasl: bool) -> None:
    async def main() -> None:
        async with speaker(sasl=sasl, session_ms=0) as one:
            if sasl:
                await one.handshake()
                await one.authenticate()
            shaken = await one.handshake()
            assert (shaken.error_code, shaken.mechanisms) == (ILLEGAL, [])
            told = await one.authenticate()
            assert (told.error_code, told.auth_bytes) == (ILLEGAL, b"")
            assert await one.is_served()

    run(main)


def test_who_was_revoked_is_cut_off_and_nobody_else() -> None:
    async def main() -> None:
        users = ScramUsers(MemoryCatalog())
        for name, kind in (("alice", Hash.SHA_256), ("alice", Hash.SHA_512), ("bob", Hash.SHA_256)):
            await users.make(upsertion(name, kind))
        begin = Sessions(users, b"secret").begin
        async with (
            running(
                listen="SASL_PLAINTEXT://127.0.0.1:0", fakes=with_sasl(Fakes()), begin_session=begin
            ) as server,
            server.client() as first,
            server.client() as second,
            server.client() as other,
            server.client() as unknown,
        ):
            alice, again, bob = Speaker(first), Speaker(second), Speaker(other)
            for one, token in ((alice, RIGHT), (again, RIGHT), (bob, b"\0bob\0secret")):
                await one.handshake()
                assert (await one.authenticate(token)).error_code == NONE
            await Speaker(unknown).handshake()
            server.server.revoke(Principal("User", "alice"), {"SCRAM-SHA-256"})
            assert await alice.is_served()  # it came in by PLAIN
            server.server.revoke(Principal("User", "alice"), {"PLAIN"})
            assert await first.closed()
            assert await second.closed()
            assert await bob.is_served()
            assert (await Speaker(unknown).authenticate(RIGHT)).error_code == NONE

    run(main)


def test_who_is_known_shares_with_those_of_his_name_and_not_with_those_of_his_address() -> None:
    async def main() -> None:
        sessions = iter([session_of("alice"), session_of("alice"), session_of("bob"), session_of("carol")])
        fakes = with_sasl(Sharing())
        async with (
            running(fakes=fakes, begin_session=lambda _listener: next(sessions)) as server,
            server.client() as first,
            server.client() as second,
            server.client() as other,
            server.client() as nobody,
        ):
            for client, user in ((first, "alice"), (second, "alice"), (other, "bob")):
                one = Speaker(client)
                await one.handshake()
                assert (await one.authenticate(f"\0{user}\0secret".encode())).error_code == NONE
                assert await one.is_served()
            await Speaker(nobody).handshake()
            assert fakes.clients == ["User:alice", "User:alice", "User:bob"]
            shared = {connection.client.name: connection for connection in server.server.connections}
            assert sorted(shared) == ["User:alice", "User:bob", LOOPBACK]
            assert {connection.place.name for connection in server.server.connections} == {LOOPBACK}
            alice, bob = shared["User:alice"], shared["User:bob"]
            assert alice.client.connections == 2
            assert alice.client.turns is not bob.client.turns
            for connection in (alice, bob):
                assert connection._work.turns is connection.client.turns
                assert connection._output._turns is connection.client.turns
                assert connection.memory.requests._share is connection.client.request_memory
                assert connection.memory.answers._share is connection.client.response_memory
            for client in (first, second, other, nobody):
                await client.stream.aclose()
            await trio.testing.wait_all_tasks_blocked()
            assert server.server._clients._connected == {}
            assert server.server._clients._networks == {}
            assert server.server._clients._count == 0

    run(main)


class Sharing(Fakes):
    """Notes whose the requests are."""

    def __init__(self) -> None:
        super().__init__()
        self.clients: list[str] = []
        echo = self.registry.lookup(ECHO)
        assert echo is not None
        assert echo.handler is not None
        handler = echo.handler

        async def note(asked: Request, broker: Any) -> Response:
            self.clients.append(asked.client)
            return await handler(asked, broker)

        self.registry._apis[ECHO] = replace(echo, handler=note)


def session_of(user: str) -> SaslSession:
    def begin() -> PlainExchange:
        return PlainExchange(lambda name, password: (name, password) == (user, "secret"))

    return SaslSession({"PLAIN": begin}, SESSION_MS)


def test_a_token_before_a_handshake_is_hung_up_on() -> None:
    async def main() -> None:
        async with speaker() as one:
            await one.client.send(encode(SaslAuthenticateRequest(version=2, auth_bytes=RIGHT)))
            assert await one.client.closed()

    run(main)


async def comes_in_by_token(one: Speaker, token_id: str) -> Any:
    client = ScramMessages(Hash.SHA_512, token_id, "hmac", ",tokenauth=true")
    await one.handshake(mechanism="SCRAM-SHA-512")
    told = await one.authenticate(client.first())
    return await one.authenticate(client.last(told.auth_bytes))


def test_who_has_come_in_by_a_token_is_cut_off_with_it_and_not_with_his_password() -> None:
    async def main() -> None:
        threads: list[bool] = []
        loop = threading.get_ident()

        def known(kind: Hash, token_id: str) -> Known:
            threads.append(threading.get_ident() == loop)
            return Known(
                credential_of(kind, "hmac", b"salt", 4096), Principal("User", "alice"), None, token_id
            )

        users = ScramUsers(MemoryCatalog())
        await users.make(upsertion("alice", Hash.SHA_512))
        begin = Sessions(users, b"secret", known_token=known).begin
        async with (
            running(
                listen="SASL_PLAINTEXT://127.0.0.1:0", fakes=with_sasl(Fakes()), begin_session=begin
            ) as server,
            server.client() as first,
            server.client() as second,
            server.client() as third,
        ):
            for one, token_id in ((first, "one"), (second, "two")):
                assert (await comes_in_by_token(Speaker(one), token_id)).error_code == NONE
            assert threads == [False, True] * 2, "what is derived is derived in a worker thread"
            own = Speaker(third)
            await own.handshake()
            assert (await own.authenticate()).error_code == NONE
            server.server.revoke_token("one")
            server.server.revoke_token("")
            assert await first.closed()
            server.server.revoke(Principal("User", "alice"), {"PLAIN", "SCRAM-SHA-512"})
            assert await third.closed()
            assert await Speaker(second).is_served()

    run(main)


@pytest.mark.parametrize("version", [0, 1])
def test_who_is_deleted_while_his_password_is_hashed_does_not_come_in(version: int) -> None:
    async def main() -> None:
        users = ScramUsers(MemoryCatalog())
        await users.make(upsertion("alice", Hash.SHA_256))
        sessions = Sessions(users, b"secret")
        right = sessions._is_right

        def is_right(user: str, password: str) -> bool:
            found = right(user, password)
            trio.from_thread.run(users.make, Deletion(user, Hash.SHA_256.number))
            return found

        sessions._is_right = is_right  # type: ignore[method-assign]
        listen = "SASL_PLAINTEXT://127.0.0.1:0"
        async with (
            running(listen=listen, fakes=with_sasl(Fakes()), begin_session=sessions.begin) as server,
            server.client() as client,
        ):
            one = Speaker(client)
            await one.handshake(version)
            if version:
                told = await one.authenticate(RIGHT)
                assert (told.error_code, "try again" in told.error_message) == (FAILED, True)
            else:
                await client.send(frame(RIGHT))
            assert await client.closed()

    run(main)
