"""One token of etcd's for all that a gateway asks, and how often it asks for one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from gateway.catalog.etcd.client import AGAIN_SECONDS, Etcd, Line
from gateway.catalog.etcd.credentials import Credentials
from gateway.catalog.etcd.words import AUTHENTICATE, RANGE, UNAUTHENTICATED, Body, Refused

NO_TOKEN = Refused(UNAUTHENTICATED, "etcdserver: invalid auth token")
WRONG = Refused(3, "etcdserver: authentication failed, invalid user ID or password")


class Member:
    """In etcd's place: knows one password and one token, and takes some time for each question."""

    def __init__(self) -> None:
        self.password, self.token = "secret", "token 1"
        self.passwords: list[str] = []
        """That it was told, one for each token that it was asked for."""
        self.slow: set[Line] = set()

    async def ask_once(
        self, etcd: Etcd, line: Line, path: str, body: dict[str, Any], seconds: float
    ) -> Body | Refused:
        shown = dict(etcd.headers(path, seconds)).get("Authorization")
        await trio.sleep(0.5 if line in self.slow else 0.1)
        if path == AUTHENTICATE:
            self.passwords.append(body["password"])
            return {"token": self.token} if body["password"] == self.password else WRONG
        return {"kvs": []} if shown == self.token else NO_TOKEN


@pytest.fixture
def member(monkeypatch: pytest.MonkeyPatch) -> Member:
    member = Member()

    async def ask_once(line: Line, path: str, body: Body, _: int, seconds: float) -> Body | Refused:
        return await member.ask_once(line._etcd, line, path, body, seconds)

    monkeypatch.setattr(Line, "ask_once", ask_once)
    return member


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "password"
    file.write_text("secret")
    return file


async def ask(lines: list[Line]) -> list[object]:
    """What each is answered, all asked at once."""
    answers: dict[int, object] = {}

    async def one(number: int, line: Line) -> None:
        answers[number] = await line.ask(RANGE, {})

    async with trio.open_nursery() as nursery:
        for number, line in enumerate(lines):
            nursery.start_soon(one, number, line)
    return [answers[number] for number in range(len(lines))]


def test_who_is_refused_late_takes_the_token_that_is_there(member: Member, file: Path) -> None:
    """A line that was told of the old one after another line had a new one asks for none."""
    etcd = Etcd((("etcd", 1),), Credentials(user="dafka", password_file=file))
    quick, slow = etcd.line(), etcd.line()

    async def main() -> None:
        await ask([quick])
        member.token = "token 2"
        member.slow = {slow}
        assert await ask([quick, slow]) == [{"kvs": []}] * 2

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert member.passwords == ["secret"] * 2


def test_a_wrong_password_is_tried_now_and_then(member: Member, file: Path) -> None:
    """etcd spends a tenth of a second of a core on each try; another password is tried at once."""
    etcd = Etcd((("etcd", 1),), Credentials(user="dafka", password_file=file))
    lines = [etcd.line() for _ in range(8)]
    member.password = "another"

    async def main() -> None:
        assert await ask(lines) == [WRONG] * 8
        assert member.passwords == ["secret"]
        await trio.sleep(AGAIN_SECONDS)
        assert await ask(lines) == [WRONG] * 8
        assert member.passwords == ["secret"] * 2
        await trio.Path(file).write_text("another")
        assert await ask(lines) == [{"kvs": []}] * 8

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert member.passwords == ["secret", "secret", "another"]
