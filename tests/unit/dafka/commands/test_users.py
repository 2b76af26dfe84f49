"""`dafka users`, against a server that keeps users as a gateway does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dafka import cli
from gateway.security.scram import Hash, from_salted, is_password
from tests.unit.dafka.commands.fake_kafka import FakeKafka
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.schemas import RESPONSE_CLASSES

ALTER: Any = RESPONSE_CLASSES[ApiKey.ALTER_USER_SCRAM_CREDENTIALS]
DESCRIBE: Any = RESPONSE_CLASSES[ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS]
KINDS = {kind.number: kind for kind in Hash}


class Users(FakeKafka):
    """A server with users; `refuses` is the error of all changes."""

    def __init__(self) -> None:
        super().__init__()
        self.users: dict[str, dict[Hash, Any]] = {}
        self.refuses: tuple[int, str | None] = (0, None)
        for key, answer in (
            (ApiKey.ALTER_USER_SCRAM_CREDENTIALS, self.alter),
            (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, self.describe),
        ):
            self.answers[key] = answer
            self.versions[key] = (0, 0)

    def alter(self, request: Any) -> Any:
        names = [one.name for one in (*request.deletions, *request.upsertions)]
        assert len(names) == len(set(names)), "each user once"
        code, message = self.refuses
        if not code:
            for one in request.deletions:
                del self.users[one.name][KINDS[one.mechanism]]
            for one in request.upsertions:
                kind = KINDS[one.mechanism]
                kept = from_salted(kind, bytes(one.salted_password), bytes(one.salt), one.iterations)
                self.users.setdefault(one.name, {})[kind] = kept
        self.users = {name: known for name, known in self.users.items() if known}
        row = ALTER.AlterUserScramCredentialsResult
        return ALTER(results=[row(user=name, error_code=code, error_message=message) for name in names])

    def describe(self, request: Any) -> Any:
        row = DESCRIBE.DescribeUserScramCredentialsResult
        wanted = list(self.users) if request.users is None else [one.name for one in request.users]
        return DESCRIBE(
            error_code=0,
            error_message=None,
            results=[
                row(
                    user=name,
                    error_code=0 if name in self.users else 91,
                    error_message="",
                    credential_infos=[
                        row.CredentialInfo(mechanism=kind.number, iterations=kept.iterations)
                        for kind, kept in self.users.get(name, {}).items()
                    ],
                )
                for name in wanted
            ],
        )


def users(server: FakeKafka, *arguments: str) -> int:
    return cli.run(["users", *arguments, "--bootstrap", server.address])


@pytest.fixture
def password(tmp_path: Path) -> str:
    path = tmp_path / "password"
    path.write_text("secret\n")
    return str(path)


def test_a_user_has_all_mechanisms_unless_they_are_named(
    password: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with Users() as server:
        assert users(server, "create", "alice", "--password-file", password) == 0
        one = ["create", "bob", "--mechanism", "SCRAM-SHA-512", "--iterations", "5000"]
        assert users(server, *one, "--password-file", password) == 0
        assert {name: set(known) for name, known in server.users.items()} == {
            "alice": set(Hash), "bob": {Hash.SHA_512},
        }  # fmt: skip
        assert all(is_password(kind, kept, "secret") for kind, kept in server.users["alice"].items())
        assert server.users["bob"][Hash.SHA_512].iterations == 5000
        salts = {kept.salt for known in server.users.values() for kept in known.values()}
        assert len(salts) == 3
    assert capsys.readouterr().out == "created alice\ncreated bob\n"


def test_who_is_there_gets_another_password_only_when_it_is_said(
    password: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    other.write_text("other")
    with Users() as server:
        assert users(server, "create", "alice", "--password-file", password) == 0
        assert users(server, "create", "alice", "--password-file", str(other)) == 2
        assert "there is a user alice already: add --replace" in capsys.readouterr().err
        assert is_password(Hash.SHA_256, server.users["alice"][Hash.SHA_256], "secret")
        assert users(server, "create", "alice", "--password-file", str(other), "--replace") == 0
        assert capsys.readouterr().out == "changed the password of alice\n"
        assert is_password(Hash.SHA_256, server.users["alice"][Hash.SHA_256], "other")


def test_users_are_listed(password: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Users() as server:
        assert (
            users(server, "create", "bob", "--mechanism", "SCRAM-SHA-256", "--password-file", password) == 0
        )
        assert users(server, "create", "alice", "--password-file", password) == 0
        capsys.readouterr()
        assert users(server, "list") == 0
        assert capsys.readouterr().out == (
            "USER   MECHANISM      ITERATIONS\n"
            "alice  SCRAM-SHA-256  4096\n"
            "alice  SCRAM-SHA-512  4096\n"
            "bob    SCRAM-SHA-256  4096\n"
        )
        assert users(server, "list", "--json") == 0
        assert json.loads(capsys.readouterr().out)[2] == {
            "user": "bob", "mechanism": "SCRAM-SHA-256", "iterations": 4096,
        }  # fmt: skip


def test_users_are_deleted_with_all_that_is_kept_of_them(
    password: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with Users() as server:
        for name in ("alice", "bob"):
            assert users(server, "create", name, "--password-file", password) == 0
        capsys.readouterr()
        assert users(server, "delete", "nobody", "alice") == 2
        assert "there is no user nobody. 'dafka users list'" in capsys.readouterr().err
        assert set(server.users) == {"alice", "bob"}
        assert users(server, "delete", "nobody", "alice", "--if-exists") == 0
        assert capsys.readouterr().out == "nobody is not there\ndeleted alice\n"
        assert set(server.users) == {"bob"}


def test_what_the_server_refuses_is_said(password: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Users() as server:
        server.refuses = 44, "There are enough"
        assert users(server, "create", "alice", "--password-file", password) == 2
        said = capsys.readouterr().err
        assert "cannot create alice for SCRAM-SHA-256: POLICY_VIOLATION (There are enough)" in said


def test_a_password_is_no_argument(capsys: pytest.CaptureFixture[str]) -> None:
    with Users() as server:
        assert users(server, "create", "alice", "--password", "secret") == 2
    assert "No such option" in capsys.readouterr().err
