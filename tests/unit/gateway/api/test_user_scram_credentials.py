"""Users are made, changed, deleted and told by the administration's two APIs (KIP-554)."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from gateway.answers import element_limit
from gateway.api import alter_user_scram_credentials
from gateway.cluster import scram_users
from gateway.security.principal import Principal
from gateway.security.scram import Hash, Known, credential_of
from tests.unit.gateway.api.asking import FakeBroker, ask, request_class
from wireproto.kafka.errors import ErrorCode, KafkaError, MalformedRequest

Alter = request_class(51)
Describe = request_class(50)

SALT = b"salt of the client"


def upsertion(user: str, mechanism: int = 1, iterations: int = 4096, password: str = "secret") -> Any:
    kind = Hash.SHA_512 if mechanism == Hash.SHA_512.number else Hash.SHA_256
    return Alter.ScramCredentialUpsertion(
        name=user,
        mechanism=mechanism,
        iterations=iterations,
        salt=SALT,
        salted_password=salted(kind, password, iterations),
    )


def salted(kind: Hash, password: str, iterations: int) -> bytes:
    """As clients salt it."""
    return hashlib.pbkdf2_hmac(kind.algorithm, password.encode(), SALT, iterations)


def deletion(user: str, mechanism: int = 1) -> Any:
    return Alter.ScramCredentialDeletion(name=user, mechanism=mechanism)


def alter(broker: FakeBroker, upsertions: Any = (), deletions: Any = ()) -> list[tuple[str, int]]:
    request = Alter(version=0, upsertions=list(upsertions), deletions=list(deletions))
    results = ask(broker, request)["results"]
    assert all(bool(one["error_message"]) is bool(one["error_code"]) for one in results)
    return [(one["user"], one["error_code"]) for one in results]


def described(broker: FakeBroker, *names: str) -> list[tuple[str, int, list[tuple[int, int]]]]:
    answer = ask(broker, Describe(version=0, users=[Describe.UserName(name=name) for name in names] or None))
    assert answer["error_code"] == 0
    return [
        (
            one["user"],
            one["error_code"],
            [(info["mechanism"], info["iterations"]) for info in one["credential_infos"]],
        )
        for one in answer["results"]
    ]


def test_without_users_there_are_none() -> None:
    assert described(FakeBroker()) == []
    assert described(FakeBroker(), "u", "v", "u") == [("u", 92, []), ("v", 91, [])]


def test_who_was_made_is_told_and_comes_in() -> None:
    broker = FakeBroker()
    assert alter(broker, [upsertion("b", 2, 5000), upsertion("a")]) == [("a", 0), ("b", 0)]
    assert broker.waits_for_stores == 1
    assert alter(broker, [upsertion("a", 2)]) == [("a", 0)]
    assert described(broker) == [("a", 0, [(1, 4096), (2, 4096)]), ("b", 0, [(2, 5000)])]
    assert described(broker, "b") == [("b", 0, [(2, 5000)])]
    assert broker.scram_users.known(Hash.SHA_512, "b") == Known(
        credential_of(Hash.SHA_512, "secret", SALT, 5000), Principal("User", "b")
    )
    assert alter(broker, deletions=[deletion("a"), deletion("b", 2)]) == [("a", 0), ("b", 0)]
    assert described(broker) == [("a", 0, [(2, 4096)])]


def test_each_user_has_his_own_answer() -> None:
    broker = FakeBroker()
    upsertions = [
        upsertion(""), upsertion("bad mechanism", 3), upsertion("few", 1, 4095), upsertion("good"),
        upsertion("twice"), upsertion("twice", 2), upsertion("\u00e4"),
    ]  # fmt: skip
    assert alter(broker, upsertions, [deletion("nobody")]) == [
        ("", 93), ("bad mechanism", 33), ("few", 93), ("good", 0), ("nobody", 91), ("twice", 92),
        ("\u00e4", 93),
    ]  # fmt: skip
    assert described(broker) == [("good", 0, [(1, 4096)])]


def test_stores_are_waited_for_only_if_something_was_changed() -> None:
    broker = FakeBroker()
    assert alter(broker, deletions=[deletion("nobody")]) == [("nobody", 91)]
    assert broker.waits_for_stores == 0


@pytest.mark.parametrize("code", [ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT])
def test_a_catalog_that_is_away_is_said_of_each_user(code: ErrorCode) -> None:
    broker = FakeBroker()
    broker.failure = KafkaError(code, "the catalog is away")
    assert alter(broker, [upsertion("a"), upsertion("few", 1, 1), upsertion("b")]) == [
        ("a", code), ("b", code), ("few", 93),
    ]  # fmt: skip
    assert broker.waits_for_stores == 0


def test_the_bound_on_users_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scram_users, "MAX_USERS", 1)
    broker = FakeBroker()
    assert alter(broker, [upsertion("a"), upsertion("b")]) == [("a", 0), ("b", ErrorCode.POLICY_VIOLATION)]


def test_a_request_names_no_more_users_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    assert element_limit.MAX_CHANGED == 10_000
    monkeypatch.setattr(alter_user_scram_credentials, "MAX_CHANGED", 1)
    broker = FakeBroker()
    with pytest.raises(MalformedRequest, match="2 users in one request, more than 1"):
        alter(broker, [upsertion("a")], [deletion("b")])
    assert described(broker) == []
