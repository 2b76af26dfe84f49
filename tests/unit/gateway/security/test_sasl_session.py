"""What a connection may do before it is known who it is, and for how long afterwards."""

from __future__ import annotations

import pytest

from gateway.security.mechanism import Authenticated, Refused, Step
from gateway.security.principal import Principal
from gateway.security.sasl_session import (
    MAX_UNKNOWN_VERSIONS,
    SaslSession,
    Shaken,
    Stage,
    Told,
    Verdict,
)
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode

NOW = 1_000_000
NONE, ILLEGAL = ErrorCode.NONE, ErrorCode.ILLEGAL_SASL_STATE
FAILED, UNSUPPORTED = ErrorCode.SASL_AUTHENTICATION_FAILED, ErrorCode.UNSUPPORTED_SASL_MECHANISM
INVALID = "Authentication failed during authentication due to invalid credentials with SASL mechanism ONE"
OTHERS = [ApiKey.PRODUCE, ApiKey.METADATA, ApiKey.API_VERSIONS, ApiKey.FIND_COORDINATOR]


class Script:
    """An exchange of two tokens: `hello`, and then who it is; `alice 500` is alice, until NOW + 500;
    `alice by token` has come in by a token.
    """

    def __init__(self) -> None:
        self._is_greeted = False

    def takes_long(self, token: bytes) -> bool:
        return token == b"hello"

    def step(self, token: bytes) -> Step:
        if not self._is_greeted:
            if token != b"hello":
                raise Refused("it does not greet")
            self._is_greeted = True
            return Step(b"who are you?")
        said, _, token_id = token.decode().partition(" by ")
        name, _, expires = said.partition(" ")
        if name == "nobody":
            raise Refused("it is nobody", "nobody may come in")
        expires_ms = NOW + int(expires) if expires else None
        return Step(b"welcome", Authenticated(Principal("User", name), expires_ms, token_id))


def session(max_session_ms: int = 0) -> SaslSession:
    return SaslSession({"ONE": Script, "TWO": Script}, max_session_ms)


def opened(who: str = "alice", max_session_ms: int = 0, version: int = 2) -> tuple[SaslSession, Told]:
    made = session(max_session_ms)
    assert made.handshake("ONE", 1, NOW) == Shaken(NONE, ("ONE", "TWO"), False)
    assert made.authenticate(b"hello", version, NOW) == Told(token=b"who are you?")
    return made, made.authenticate(who.encode(), version, NOW)


def again(made: SaslSession, who: str, now_ms: int, mechanism: str = "ONE") -> Told:
    assert made.handshake(mechanism, 1, now_ms) == Shaken(NONE, ("ONE", "TWO"), False)
    first = made.authenticate(b"hello", 2, now_ms)
    return first if first.closes else made.authenticate(who.encode(), 2, now_ms)


def test_who_is_known_may_do_everything() -> None:
    made, told = opened()
    assert told == Told(token=b"welcome")
    assert (made.principal, made.stage) == (Principal("User", "alice"), Stage.OPEN)
    for api in OTHERS * 2:
        assert made.judge(api, NOW + 10**12) is Verdict.SERVE


@pytest.mark.parametrize("version", [0, 1])
def test_before_that_nothing_but_one_question_for_versions(version: int) -> None:
    made = session()
    assert made.judge(ApiKey.API_VERSIONS, NOW, is_known_version=False) is Verdict.SERVE
    assert made.judge(ApiKey.API_VERSIONS, NOW) is Verdict.SERVE
    for api in OTHERS:
        assert made.judge(api, NOW) is Verdict.CLOSE
    made.handshake("ONE", version, NOW)
    for api in OTHERS:
        assert made.judge(api, NOW) is Verdict.ILLEGAL_STATE
    assert made.handshake("ONE", 1, NOW) == Shaken(ILLEGAL, (), True)
    assert made.principal is None


def test_unknown_versions_are_not_answered_without_end() -> None:
    made = session()
    for _ in range(MAX_UNKNOWN_VERSIONS):
        assert made.judge(ApiKey.API_VERSIONS, NOW, is_known_version=False) is Verdict.SERVE
    assert made.judge(ApiKey.API_VERSIONS, NOW, is_known_version=False) is Verdict.CLOSE


def test_a_token_without_a_handshake() -> None:
    told = session().authenticate(b"hello", 2, NOW)
    assert (told.error, told.closes) == (ILLEGAL, True)


def test_a_mechanism_that_there_is_not() -> None:
    made = session()
    assert made.handshake("GSSAPI", 1, NOW) == Shaken(UNSUPPORTED, ("ONE", "TWO"), True)
    assert made.judge(ApiKey.METADATA, NOW) is Verdict.CLOSE


def test_who_fails_is_told_no_more_than_that_or_what_the_mechanism_says() -> None:
    made = session()
    made.handshake("ONE", 1, NOW)
    assert made.authenticate(b"what?", 2, NOW) == Told(FAILED, INVALID, closes=True, why="it does not greet")
    made, told = opened("nobody")
    assert told == Told(FAILED, "nobody may come in", closes=True, why="it is nobody")
    assert made.principal is None


def test_frames_without_requests() -> None:
    made = session(max_session_ms=60_000)
    made.handshake("ONE", 0, NOW)
    assert made.stage is Stage.FRAMES
    assert made.frame(b"hello", NOW).token == b"who are you?"
    assert made.frame(b"alice", NOW).token == b"welcome"
    # It is not told how long it lasts, and that holds all the same.
    assert made.judge(ApiKey.METADATA, NOW + 59_999) is Verdict.SERVE
    assert made.judge(ApiKey.METADATA, NOW + 60_000) is Verdict.CLOSE


@pytest.mark.parametrize(
    ("who", "max_session_ms", "lifetime_ms"),
    [
        ("alice", 0, 0),
        ("alice", 60_000, 60_000),
        ("alice 500", 0, 500),
        ("alice 500", 60_000, 500),
        ("alice 70000", 60_000, 60_000),
    ],
)
def test_how_long_a_session_lasts(who: str, max_session_ms: int, lifetime_ms: int) -> None:
    for version in (0, 1, 2):
        made, told = opened(who, max_session_ms, version)
        assert told.lifetime_ms == (lifetime_ms if version else 0)
        assert made.judge(ApiKey.PRODUCE, NOW + lifetime_ms - 1 if lifetime_ms else NOW) is Verdict.SERVE
        ended = made.judge(ApiKey.PRODUCE, NOW + lifetime_ms)
        assert ended is (Verdict.CLOSE if lifetime_ms else Verdict.SERVE)


def test_what_was_over_when_it_came_opens_a_session_that_is_over() -> None:
    """It is told 0, which means for ever; the next request closes (KAFKA-13848)."""
    made, told = opened("alice -5")
    assert (told.error, told.lifetime_ms) == (NONE, 0)
    assert made.judge(ApiKey.METADATA, NOW) is Verdict.CLOSE


def test_a_session_goes_on_when_it_is_authenticated_again() -> None:
    made, _ = opened(max_session_ms=60_000)
    for at in (NOW + 50_000, NOW + 200_000):  # also behind its end
        assert again(made, "alice", at) == Told(token=b"welcome", lifetime_ms=60_000)
        assert made.judge(ApiKey.PRODUCE, at + 59_999) is Verdict.SERVE
        assert made.judge(ApiKey.PRODUCE, at + 60_000) is Verdict.CLOSE


def test_meanwhile_no_other_request_is_served() -> None:
    made, _ = opened(max_session_ms=60_000)
    made.handshake("ONE", 1, NOW + 50_000)
    assert made.judge(ApiKey.PRODUCE, NOW + 50_000) is Verdict.ILLEGAL_STATE
    assert made.handshake("ONE", 1, NOW + 50_000) == Shaken(ILLEGAL, (), True)


def test_neither_another_mechanism_nor_another_principal() -> None:
    doing = INVALID.replace("during authentication", "during re-authentication")
    made, _ = opened(max_session_ms=60_000)
    told = again(made, "alice", NOW + 50_000, "TWO")
    assert (told.error, told.message, told.closes) == (FAILED, doing, True)
    made, _ = opened(max_session_ms=60_000)
    told = again(made, "bob", NOW + 50_000)
    changed = "Cannot change principals during re-authentication from User:alice: User:bob"
    assert (told.error, told.message, told.closes) == (FAILED, changed, True)
    assert made.principal == Principal("User", "alice")


@pytest.mark.parametrize(("max_session_ms", "at"), [(0, NOW + 5_000), (60_000, NOW + 1_000)])
def test_one_that_need_not_or_comes_too_soon_is_told_so_and_goes_on(max_session_ms: int, at: int) -> None:
    made, _ = opened(max_session_ms=max_session_ms)
    assert made.handshake("ONE", 1, at) == Shaken(ILLEGAL, (), False)
    told = made.authenticate(b"hello", 2, at)
    assert (told.error, told.closes) == (ILLEGAL, False)
    assert made.judge(ApiKey.PRODUCE, at) is Verdict.SERVE


def test_it_is_known_by_which_token_somebody_has_come_in() -> None:
    made, _ = opened("alice", max_session_ms=60_000)
    assert made.token_id == ""
    for number, (who, token_id) in enumerate(
        [("alice by one", "one"), ("alice by two", "two"), ("alice", "")]
    ):
        assert again(made, who, NOW + 2_000 * (number + 1)).error is NONE
        assert made.token_id == token_id


def test_what_takes_long_is_known_before_it_is_done() -> None:
    made = session()
    assert not made.takes_long(b"hello"), "there is nothing under way"
    made.handshake("ONE", 1, NOW)
    assert made.takes_long(b"hello")
    assert not made.takes_long(b"alice")
