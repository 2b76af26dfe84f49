"""The four APIs of delegation tokens: who may ask, what is answered in each version, who sees what."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import trio

from gateway.cluster import delegation_tokens
from gateway.cluster.delegation_tokens import DelegationTokens, Wanted
from gateway.common.settings import LogSettings
from gateway.security.access import Access, Unrestricted
from gateway.security.acls import Operation, ResourceType
from gateway.security.delegation_tokens import DelegationToken, TokenSecret
from gateway.security.principal import ANONYMOUS, Principal
from gateway.security.sasl_session import SaslSession
from tests.unit.gateway.api.asking import ALICE, FakeBroker, allowed, ask, request_class
from tests.unit.gateway.catalog.memory import MemoryCatalog
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode

CREATE, RENEW = ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.RENEW_DELEGATION_TOKEN
EXPIRE, DESCRIBE = ApiKey.EXPIRE_DELEGATION_TOKEN, ApiKey.DESCRIBE_DELEGATION_TOKEN
BOB, CAROL = Principal("User", "bob"), Principal("User", "carol")
NOW, MAX, RENEWAL = 1_700_000_000_000, 5_000, 1_000
SETTINGS = LogSettings(delegation_token_max_lifetime_ms=MAX, delegation_token_expiry_time_ms=RENEWAL)
SECRET = TokenSecret(b"of the gateways, and of nobody else")
NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
DENIED = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
OFF = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
WRONG_TYPE = ErrorCode.INVALID_PRINCIPAL_TYPE
LAST = {CREATE: 3, RENEW: 2, EXPIRE: 2, DESCRIBE: 3}
VERSIONS = [(key, version) for key, last in LAST.items() for version in range(1, last + 1)]


def known(principal: Principal = ALICE, token_id: str = "") -> SaslSession:
    """The session of who has said who he is."""
    made = SaslSession({})
    made.principal, made.token_id = principal, token_id
    return made


def broker(access: Access | None = None, *, secret: TokenSecret | None = SECRET) -> FakeBroker:
    made = FakeBroker()
    made.delegation_tokens = DelegationTokens(MemoryCatalog(), secret, SETTINGS, lambda: NOW)
    made.access, made.sasl = access or allowed(), known()
    return made


def token_of(made: FakeBroker, owner: Principal = ALICE, *renewers: Principal) -> DelegationToken:
    token, _ = trio.run(made.delegation_tokens.create, Wanted(owner, CAROL, renewers))
    assert isinstance(token, DelegationToken)
    return token


def request(key: int, version: int, **fields: Any) -> Any:
    """One with which nothing is wrong."""
    of = request_class(key)
    own: dict[int, dict[str, Any]] = {
        CREATE: {"renewers": [], "max_lifetime_ms": -1},
        RENEW: {"hmac": b"x", "renew_period_ms": -1},
        EXPIRE: {"hmac": b"x", "expiry_time_period_ms": -1},
        DESCRIBE: {"owners": None},
    }
    if key == CREATE and version >= 3:
        own[CREATE] |= {"owner_principal_type": None, "owner_principal_name": None}
    return of(version=version, **own[key] | fields)


def renewers(*principals: Principal) -> list[Any]:
    of = request_class(CREATE).CreatableRenewers
    return [of(principal_type=one.type, principal_name=one.name) for one in principals]


def owners(*principals: Principal) -> list[Any]:
    of = request_class(DESCRIBE).DescribeDelegationTokenOwner
    return [of(principal_type=one.type, principal_name=one.name) for one in principals]


def for_owner(owner: Principal, **fields: Any) -> Any:
    return request(CREATE, 3, owner_principal_type=owner.type, owner_principal_name=owner.name, **fields)


@pytest.mark.parametrize(("key", "version"), VERSIONS)
@pytest.mark.parametrize(
    ("sasl", "access", "error"),
    [
        (None, Unrestricted(ANONYMOUS), NOT_ALLOWED),
        (None, Unrestricted(ALICE), OFF),  # by a certificate
        (known(), Unrestricted(ALICE), OFF),
        (known(ANONYMOUS), Unrestricted(ANONYMOUS), OFF),  # a user of that name
        (known(token_id="A" * 22), Unrestricted(ALICE), NOT_ALLOWED),
    ],
)
def test_who_may_ask(
    key: int, version: int, sasl: SaslSession | None, access: Access, error: ErrorCode
) -> None:
    made = broker(access, secret=None)
    made.sasl = sasl
    answer = ask(made, request(key, version))
    assert answer["error_code"] == error
    time = -1 if error is NOT_ALLOWED else 0
    assert {value for name, value in answer.items() if "timestamp" in name} <= {time}
    if key == CREATE:
        assert (answer["principal_name"], answer["token_id"], answer["hmac"]) == (
            access.principal.name,
            "",
            b"",
        )
    assert not answer.get("tokens")
    assert made.waits_for_stores == 0


@pytest.mark.parametrize("version", [1, 2, 3])
def test_one_is_made(version: int) -> None:
    made = broker()
    answer = ask(made, request(CREATE, version, renewers=renewers(BOB), max_lifetime_ms=3_000))
    ((token, hmac),) = made.delegation_tokens.all()
    assert token == (token.id, ALICE, ALICE, (BOB,), NOW, NOW + RENEWAL, NOW + 3_000)
    expected = {
        "error_code": 0,
        "principal_type": "User",
        "principal_name": "alice",
        "issue_timestamp_ms": NOW,
        "expiry_timestamp_ms": NOW + RENEWAL,
        "max_timestamp_ms": NOW + 3_000,
        "token_id": token.id,
        "hmac": hmac,
        "throttle_time_ms": 0,
    }
    if version >= 3:
        expected |= {"token_requester_principal_type": "User", "token_requester_principal_name": "alice"}
    assert answer == expected
    assert made.waits_for_stores == 1


def test_for_somebody_else_it_takes_a_right_on_him() -> None:
    may = allowed((Operation.CREATE_TOKENS, ResourceType.USER, "User:bob"))
    for owner, access, error in (
        (BOB, may, ErrorCode.NONE),
        (CAROL, may, DENIED),
        (BOB, allowed(), DENIED),
        (ALICE, allowed(), ErrorCode.NONE),
        (Principal("User", ""), allowed(), ErrorCode.NONE),  # that is who asks
    ):
        made = broker(access)
        answer = ask(made, for_owner(owner))
        assert answer["error_code"] == error
        assert answer["principal_name"] == (owner.name or "alice")
        assert answer["token_requester_principal_name"] == "alice"
        assert [(one.owner, one.requester) for one, _ in made.delegation_tokens.all()] == (
            [(owner if owner.name else ALICE, ALICE)] if error is ErrorCode.NONE else []
        )


@pytest.mark.parametrize(
    ("access", "owner", "renewer", "secret", "error"),
    [
        (allowed(), BOB, Principal("Group", "g"), None, DENIED),
        (None, ALICE, Principal("Group", "g"), None, WRONG_TYPE),
        (None, ALICE, BOB, None, OFF),
        (None, Principal("Gateway", "1"), BOB, SECRET, WRONG_TYPE),
        (None, ALICE, Principal("Gateway", "1"), SECRET, WRONG_TYPE),
    ],
)
def test_what_is_against_it_comes_in_kafkas_order(
    access: Access | None, owner: Principal, renewer: Principal, secret: TokenSecret | None, error: ErrorCode
) -> None:
    made = broker(access or Unrestricted(ALICE), secret=secret)
    answer = ask(made, for_owner(owner, renewers=renewers(renewer)))
    assert answer["error_code"] == error
    assert answer["issue_timestamp_ms"] == (0 if error is OFF else -1)
    assert list(made.delegation_tokens.all()) == []


def test_an_owner_without_a_type_is_nobody() -> None:
    made = broker(Unrestricted(ALICE))
    answer = ask(made, request(CREATE, 3, owner_principal_type=None, owner_principal_name="bob"))
    assert (answer["error_code"], answer["principal_type"], answer["principal_name"]) == (
        WRONG_TYPE,
        "",
        "bob",
    )


@pytest.mark.parametrize(("count", "error"), [(32, ErrorCode.NONE), (33, ErrorCode.POLICY_VIOLATION)])
def test_renewers_are_bounded(count: int, error: ErrorCode) -> None:
    some = [Principal("User", f"renewer {number}") for number in range(count)]
    assert ask(broker(), request(CREATE, 3, renewers=renewers(*some)))["error_code"] == error
    assert (
        ask(broker(), request(CREATE, 3, renewers=renewers(*some, *some)))["error_code"]
        == ErrorCode.POLICY_VIOLATION
    )


def test_there_is_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delegation_tokens, "MAX_TOKENS", 1)
    made = broker()
    errors = [ask(made, request(CREATE, 3))["error_code"] for _ in range(2)]
    assert errors == [ErrorCode.NONE, ErrorCode.POLICY_VIOLATION]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("key", "period_ms", "expires_ms"),
    [(RENEW, -1, NOW + RENEWAL), (RENEW, 10, NOW + 10), (EXPIRE, 20, NOW + 20), (EXPIRE, -5, -5)],
)
def test_the_end_of_one_is_another(version: int, key: ApiKey, period_ms: int, expires_ms: int) -> None:
    name = {RENEW: "renew_period_ms", EXPIRE: "expiry_time_period_ms"}[key]
    made = broker()
    token = token_of(made, BOB, ALICE)
    asked = request(key, version, hmac=SECRET.hmac_of(token.id), **{name: period_ms})
    assert ask(made, asked) == {"error_code": 0, "expiry_timestamp_ms": expires_ms, "throttle_time_ms": 0}
    left = [one.expires_ms for one, _ in made.delegation_tokens.all()]
    assert left == ([] if period_ms == -5 else [expires_ms])
    assert made.waits_for_stores == 1


@pytest.mark.parametrize("key", [RENEW, EXPIRE])
def test_whose_it_is_not_may_not_whatever_acls_say(key: int) -> None:
    made = broker(Unrestricted(ALICE))
    token = token_of(made, BOB)
    for hmac, error in (
        (SECRET.hmac_of(token.id), ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH),
        (b"", ErrorCode.DELEGATION_TOKEN_NOT_FOUND),
    ):
        answer = ask(made, request(key, 2, hmac=hmac))
        assert answer == {"error_code": error, "expiry_timestamp_ms": 0, "throttle_time_ms": 0}
    assert made.waits_for_stores == 0


@pytest.mark.parametrize("version", [1, 2, 3])
def test_one_is_described(version: int) -> None:
    made = broker()
    token = token_of(made, BOB, ALICE, CAROL)
    answer = ask(made, request(DESCRIBE, version))
    expected = {
        "principal_type": "User",
        "principal_name": "bob",
        "issue_timestamp": NOW,
        "expiry_timestamp": NOW + RENEWAL,
        "max_timestamp": NOW + MAX,
        "token_id": token.id,
        "hmac": SECRET.hmac_of(token.id),
        "renewers": [
            {"principal_type": "User", "principal_name": "alice"},
            {"principal_type": "User", "principal_name": "carol"},
        ],
    }
    if version >= 3:
        expected |= {"token_requester_principal_type": "User", "token_requester_principal_name": "carol"}
    assert answer == {"error_code": 0, "tokens": [expected], "throttle_time_ms": 0}


def seen(made: FakeBroker, *wanted: Principal, all_of_them: bool = False) -> list[str]:
    answer = ask(made, request(DESCRIBE, 3, owners=None if all_of_them else owners(*wanted)))
    assert answer["error_code"] == 0
    return sorted(one["token_id"] for one in answer["tokens"])


def test_who_sees_which() -> None:
    made = broker()
    own, to_renew, bobs = token_of(made), token_of(made, BOB, ALICE).id, token_of(made, BOB).id
    carols = token_of(made, CAROL).id
    see = partial(seen, made)
    for access, visible in (
        (allowed(), [own.id, to_renew]),
        (allowed((Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, bobs)), [own.id, to_renew, bobs]),
        (allowed((Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, "*")), [own.id, to_renew, bobs, carols]),
        (allowed((Operation.DESCRIBE_TOKENS, ResourceType.USER, "User:carol")), [own.id, to_renew, carols]),
        (allowed((Operation.DESCRIBE_TOKENS, ResourceType.USER, "carol")), [own.id, to_renew]),
        (allowed((Operation.CREATE_TOKENS, ResourceType.USER, "User:carol")), [own.id, to_renew]),
        (Unrestricted(ALICE), [own.id, to_renew, bobs, carols]),
    ):
        made.access = access
        assert see(all_of_them=True) == sorted(visible)
        assert see() == []
        assert see(BOB, CAROL, BOB) == sorted({to_renew, bobs, carols} & set(visible))
        assert see(Principal("Group", "alice")) == []
