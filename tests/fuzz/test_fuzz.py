"""Some hundred malformed inputs of each kind, and whether what watches over them would notice anything.

`make fuzz` gives all targets together COUNT of them (100,000).
"""

from __future__ import annotations

import gc
import random
import ssl
import tracemalloc
from collections.abc import Iterator
from itertools import islice
from typing import Any, Self

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.security.mechanism import Authenticated, Step
from gateway.security.oauthbearer import BadToken, Bearer
from gateway.security.principal import USER, Principal
from gateway.security.scram import Hash, ScramExchange
from tests.fuzz.__main__ import SHARES
from tests.fuzz.campaign import MOST_PROBLEMS, SLOW_SECONDS, inputs, run
from tests.fuzz.target import Target, Violation
from tests.fuzz.targets import TARGETS
from tests.fuzz.targets.apis import ASKED_OF_ONE
from tests.fuzz.targets.sasl import scram
from tests.fuzz.targets.tls import Tls
from tests.fuzz.targets.web_tokens import VALIDATOR, WebTokens

COUNT = 600
LEFT_BYTES = 32 * 1024
"""What may be left of a few hundred inputs that came before: caches of the libraries, no part of each."""

NAMED = {
    "tls": {"hello: goes on", "hello: BAD_EXTENSION", "records: DECRYPTION_FAILED_OR_BAD_RECORD_MAC"},
    "plain": {"refused: wrong user or password", "refused: its token is not UTF-8", "let in, rightly"},
    "scram-sha-256": {"refused: wrong user or password", "refused: its proof is not in base64"},
    "scram-sha-512": {"refused: wrong user or password", "refused: its proof is not in base64"},
    "oauthbearer": {"refused: its message is malformed", "refused: its token is not valid", "goes on"},
    "jwt": {"refused: it is no JSON Web Token", "refused: InvalidSignatureError", "let in, rightly"},
    "jwks": {"2 keys", "3 keys"},
    "sasl-frames": {"0 answers", "1 answers", "2 answers", "3 answers"},
    "acl-filters": {
        "malformed",
        "DeleteAcls: 31",
        "DeleteAcls: 42",
        "CreateAcls: 0",
        "DescribeAcls: malformed",
    },
    "delegation-tokens": {"malformed", "CreateDelegationToken: 0", "RenewDelegationToken: 62"},
    "principal-rules": {"no rules", "named", "nobody: its certificate cannot be read"},
}
"""Some of what has to become of inputs: a target that refuses all of them for one reason tests little."""


@pytest.fixture(params=sorted(TARGETS))
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    with TARGETS[request.param]() as made:
        yield made


def test_nothing_is_wrong_with_what_becomes_of_them(target: Target) -> None:
    for data in target.good:
        target.check(data)
    outcome = run(target, COUNT, seed=1)
    slow = "of processor time"
    assert [one for one in outcome.problems if slow not in one.what] == []
    assert NAMED[target.name] <= set(outcome.became), outcome.became


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_whatever_else_comes(target: Target, data: st.DataObject) -> None:
    good = st.sampled_from(target.good)
    cut = st.tuples(good, st.binary(max_size=40), good, st.integers(0, 200), st.integers(0, 200)).map(
        lambda drawn: drawn[0][: drawn[3]] + drawn[1] + drawn[2][drawn[4] :]
    )
    target.check(data.draw(st.one_of(st.binary(max_size=300), cut)))


@pytest.mark.parametrize("name", sorted(set(TARGETS) - {"sasl-frames"}))
def test_nothing_is_left_of_them(name: str) -> None:
    """The same inputs again leave nothing more. (A server's is in its ledger, which its target checks.)"""
    with TARGETS[name]() as target:
        some = list(islice(inputs(target, 2), ASKED_OF_ONE))

        def give_all() -> None:
            for data in some:
                target.check(data)
            gc.collect()

        give_all()
        tracemalloc.start()
        try:
            give_all()
            before, _ = tracemalloc.get_traced_memory()
            give_all()
            assert tracemalloc.get_traced_memory()[0] - before < LEFT_BYTES
        finally:
            tracemalloc.stop()


def test_all_are_run_by_the_command() -> None:
    assert set(SHARES) == set(TARGETS) == set(NAMED)
    assert sum(SHARES.values()) == 100


# what would be noticed -----------------------------------------------------------------------------------


def problems(target: Target, count: int = 2_000) -> list[str]:
    with target:
        return [one.what for one in run(target, count, 1).problems]


def test_a_signature_that_is_not_checked_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    known = VALIDATOR.validate

    def validate(token: str) -> Bearer:
        try:
            return known(token)
        except BadToken as refused:
            if "Signature" not in str(refused):
                raise
            return Bearer("alice", 1)

    monkeypatch.setattr(VALIDATOR, "validate", validate)
    found = problems(WebTokens())
    assert len(found) == MOST_PROBLEMS
    assert "its signature is wrong" in found[0]


def test_a_proof_that_is_not_compared_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    alice = Principal(USER, "alice")
    target = scram(Hash.SHA_256)
    monkeypatch.setattr(ScramExchange, "_end", lambda _self, _text: Step(b"v=", Authenticated(alice)))
    assert "is let in by" in problems(target)[0]


def test_what_a_parser_must_not_raise_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def begin(_self: ScramExchange, _text: str) -> Step:
        raise IndexError("planted")

    target = scram(Hash.SHA_512)
    monkeypatch.setattr(ScramExchange, "_begin", begin)
    assert "IndexError: planted" in problems(target)[0]


def test_a_handshake_without_a_certificate_is_found() -> None:
    with Tls() as target:
        target._server.context.verify_mode = ssl.CERT_OPTIONAL
        found = [one.what for one in run(target, 2_000, 1).problems]
    assert "a handshake is over without a right certificate" in found[0]


class Odd:
    """A target that is wrong as the test wants it."""

    name = "odd"

    def __init__(self, check: Any) -> None:
        self.good = [b"x"]
        self.check = check

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_how: object) -> None:
        pass

    def make(self, chooser: random.Random) -> bytes:
        return chooser.randbytes(4)


def test_a_slow_one_and_one_that_keeps_something_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("tests.fuzz.campaign.time.process_time", lambda: now[0])

    def takes_long(data: bytes) -> str:
        now[0] += 2 * SLOW_SECONDS if data[0] == 7 else 0.001
        return "x"

    (first, *_) = problems(Odd(takes_long))
    assert first == "it takes 0.50 s of processor time"
    resident = iter([0, 1 << 30])
    monkeypatch.setattr("tests.fuzz.campaign.resident_bytes", lambda: next(resident))
    assert problems(Odd(lambda _data: "x")) == ["the process is 1024 MiB larger"]


def test_a_violation_names_its_input() -> None:
    def check(data: bytes) -> str:
        if data[0] < 9:
            raise Violation("planted")
        return "x"

    outcome = run(Odd(check), 2_000, 1)
    assert all(one.data[0] < 9 and "planted" in one.what for one in outcome.problems)
    assert len(outcome.problems) == MOST_PROBLEMS
