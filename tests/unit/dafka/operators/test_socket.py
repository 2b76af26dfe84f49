"""The operators' socket: what is asked and answered, what is refused, and what is hostile."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from dafka.operators import socket as admin
from dafka.operators.socket import (
    MAX_LINE_BYTES,
    NO_MESH,
    SOCKET_NAME,
    NoGateway,
    OperatorRefused,
    ask,
    serve_admin,
)
from gateway.catalog.fenced import Deposed


async def double(request: dict[str, Any]) -> int:
    number: int = request["number"]
    if number < 0:
        raise OperatorRefused("numbers below 0 are not doubled; give another one")
    return 2 * number


async def broken(_request: dict[str, Any]) -> None:
    raise ZeroDivisionError("deliberate")


LONG = 'a "quoted" \u00e9\U0001f600\n\\' * 50


async def long(_request: dict[str, Any]) -> str:
    return LONG


@asynccontextmanager
async def serving(directory: Path) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        await nursery.start(serve_admin, directory, {"double": double, "broken": broken, "long": long})
        yield
        nursery.cancel_scope.cancel()


def run(directory: Path, body: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        async with serving(directory):
            await body()

    trio.run(main)


async def asked(directory: Path, do: str, **details: Any) -> Any:
    return await trio.to_thread.run_sync(lambda: ask(directory, do, **details))


async def raw(directory: Path, data: bytes) -> bytes:
    async with await trio.open_unix_socket(str(directory / SOCKET_NAME)) as stream:
        await stream.send_all(data)
        await stream.send_eof()
        return b"".join([piece async for piece in stream])


def test_a_request_is_answered_and_a_refusal_says_why(tmp_path: Path) -> None:
    async def body() -> None:
        assert await asked(tmp_path, "double", number=21) == 42
        with pytest.raises(OperatorRefused, match="give another one"):
            await asked(tmp_path, "double", number=-1)
        with pytest.raises(OperatorRefused, match="another version"):
            await asked(tmp_path, "halve", number=1)

    run(tmp_path, body)


@pytest.mark.parametrize("part", [1, 7, 100_000])
def test_a_long_answer_is_the_same_whatever_it_is_put_together_of(
    tmp_path: Path, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin, "PART_CHARACTERS", part)

    async def body() -> None:
        assert await asked(tmp_path, "long") == LONG
        assert await raw(tmp_path, b'{"do": "long"}\n') == json.dumps({"done": LONG}).encode() + b"\n"

    run(tmp_path, body)


def test_only_who_may_write_the_directory_may_ask(tmp_path: Path) -> None:
    async def body() -> None:
        assert (tmp_path / SOCKET_NAME).stat().st_mode & 0o777 == 0o600

    run(tmp_path, body)
    assert not (tmp_path / SOCKET_NAME).exists()


def test_a_directory_may_have_a_path_longer_than_a_sockets_address(tmp_path: Path) -> None:
    directory = tmp_path / ("d" * 200)
    directory.mkdir()

    async def body() -> None:
        assert (directory / SOCKET_NAME).stat().st_mode & 0o777 == 0o600
        assert await asked(directory, "double", number=2) == 4

    run(directory, body)
    assert not (directory / SOCKET_NAME).exists()
    with pytest.raises(NoGateway):
        ask(directory, "double", number=2)


def test_a_stale_socket_is_replaced(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / SOCKET_NAME))

    async def body() -> None:
        assert await asked(tmp_path, "double", number=1) == 2

    run(tmp_path, body)


def test_a_bug_in_a_handler_is_told_and_the_gateway_lives(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def body() -> None:
        with pytest.raises(OperatorRefused, match="a bug"):
            await asked(tmp_path, "broken")
        assert await asked(tmp_path, "double", number=1) == 2

    run(tmp_path, body)
    assert "deliberate" in caplog.text


def test_what_ends_the_process_is_no_bug_of_a_handler(tmp_path: Path) -> None:
    async def deposed(_request: dict[str, Any]) -> None:
        raise Deposed("/lives/1")

    async def main() -> None:
        with pytest.RaisesGroup(Deposed, flatten_subgroups=True):
            async with trio.open_nursery() as nursery:
                await nursery.start(serve_admin, tmp_path, {"deposed": deposed})
                await raw(tmp_path, b'{"do": "deposed"}\n')
                await trio.sleep_forever()

    trio.run(main)


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        (b"", b""),
        (b"no end of line", b""),
        (b"\xff\xfe\n", "not JSON"),
        (b"[" * 10_000 + b"\n", "not JSON"),
        (b"[]\n", "another version"),
        (b'{"do": ["double"]}\n', "another version"),
        (b"x" * (MAX_LINE_BYTES + 5000), "at most"),
    ],
)
def test_what_is_no_request_is_refused(tmp_path: Path, data: bytes, answer: bytes | str) -> None:
    async def body() -> None:
        came = await raw(tmp_path, data)
        if isinstance(answer, bytes):
            assert came == answer
        else:
            assert answer in json.loads(came)["refused"]
        assert await asked(tmp_path, "double", number=1) == 2

    run(tmp_path, body)


def test_who_never_ends_a_request_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "REQUEST_SECONDS", 0.01)

    async def body() -> None:
        async with await trio.open_unix_socket(str(tmp_path / SOCKET_NAME)) as stream:
            await stream.send_all(b"{")
            with trio.fail_after(10):
                assert await stream.receive_some() == b""

    run(tmp_path, body)


def test_without_a_gateway_the_message_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NoGateway, match=r"no gateway answers at .*admin\.sock.*Start it"):
        ask(tmp_path, "double", number=1)


def test_it_is_its_owners_alone_and_the_process_keeps_its_umask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A umask of a moment would be that of files which other threads make in it."""
    before = os.umask(0o022)
    monkeypatch.setattr(os, "umask", None)

    async def test() -> None:
        assert (tmp_path / SOCKET_NAME).stat().st_mode & 0o777 == 0o600

    try:
        run(tmp_path, test)
    finally:
        monkeypatch.undo()
        os.umask(before)


def test_a_link_in_its_place_goes(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("x")
    (tmp_path / SOCKET_NAME).symlink_to(tmp_path / "precious")

    async def test() -> None:
        assert (tmp_path / SOCKET_NAME).is_socket()

    run(tmp_path, test)
    assert (tmp_path / "precious").read_text() == "x"


def test_a_standalone_is_found_by_its_own_directory_and_says_that_it_has_no_mesh(tmp_path: Path) -> None:
    inside = tmp_path / "gateway"
    inside.mkdir()

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(serve_admin, inside, {"double": double, **NO_MESH})
            assert await asked(tmp_path, "double", number=4) == 8
            for do in NO_MESH:
                with pytest.raises(OperatorRefused, match="this is 'dafka standalone'"):
                    await asked(tmp_path, do)
            nursery.cancel_scope.cancel()

    trio.run(main)
