"""Delegation tokens in the catalog: made, renewed, ended, swept, and told of."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from gateway.catalog import keys
from gateway.cluster import delegation_tokens
from gateway.cluster.delegation_tokens import BadToken, DelegationTokens, Wanted, pack, unpack
from gateway.common.settings import LogSettings
from gateway.security.delegation_tokens import DelegationToken, TokenSecret
from gateway.security.principal import Principal
from gateway.security.scram import Hash, Known
from tests.unit.gateway.catalog.memory import MemoryCatalog
from wireproto.kafka.errors import ErrorCode, KafkaError

SECRET = TokenSecret(b"of the gateways, and of nobody else")
OTHER_SECRET = TokenSecret(b"that somebody gave to another gateway")
ALICE, BOB, CAROL = (Principal("User", name) for name in ("alice", "bob", "carol"))
START, RENEWAL, MAX = 1_700_000_000_000, 1_000, 5_000
SETTINGS = LogSettings(delegation_token_max_lifetime_ms=MAX, delegation_token_expiry_time_ms=RENEWAL)


class Scene:
    """Gateways on one catalog, and the time of day."""

    def __init__(self) -> None:
        self.catalog = MemoryCatalog()
        self.now_ms = START
        self.tokens = self.gateway()

    def gateway(self, secret: TokenSecret | None = SECRET) -> DelegationTokens:
        """One that starts now."""
        return DelegationTokens(self.catalog, secret, SETTINGS, lambda: self.now_ms)

    async def create(self, **wanted: Any) -> tuple[DelegationToken, bytes]:
        return await self.tokens.create(
            Wanted(**{"owner": ALICE, "requester": ALICE, "renewers": (BOB,)} | wanted)
        )

    def ids(self) -> list[str]:
        """Of those in the catalog."""
        return [keys.token_of(entry.key) for entry in self.catalog.range(keys.TOKENS)]


def played(body: Callable[[Scene], Awaitable[None]]) -> None:
    async def main() -> None:
        await body(Scene())

    trio.run(main)


async def refused(awaitable: Awaitable[Any]) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        await awaitable
    return caught.value.code


@pytest.mark.parametrize(
    ("asked_ms", "max_ms", "expires_ms"),
    [(-1, MAX, RENEWAL), (0, MAX, RENEWAL), (MAX * 2, MAX, RENEWAL), (2_000, 2_000, RENEWAL), (7, 7, 7)],
)
def test_how_long_a_new_one_lasts(asked_ms: int, max_ms: int, expires_ms: int) -> None:
    async def body(scene: Scene) -> None:
        token, hmac = await scene.create(max_lifetime_ms=asked_ms, requester=CAROL)
        times = (START, START + expires_ms, START + max_ms)
        assert token == DelegationToken(token.id, ALICE, CAROL, (BOB,), *times)
        assert hmac == SECRET.hmac_of(token.id)
        for gateway in (scene.tokens, scene.gateway()):
            assert list(gateway.all()) == [(token, hmac)]

    played(body)


def test_the_catalog_has_nothing_that_lets_anybody_in() -> None:
    async def body(scene: Scene) -> None:
        token, hmac = await scene.create()
        (entry,) = scene.catalog.range(keys.TOKENS)
        assert unpack(token.id, entry.value) == (token, SECRET.mark)
        assert hmac.hex().encode() not in entry.value
        assert sorted(keys.unpack(entry.value)) == [
            "expires_ms", "issued_ms", "max_ms", "owner", "renewers", "requester", "secret",
        ]  # fmt: skip

    played(body)


def test_who_comes_in_by_one() -> None:
    async def body(scene: Scene) -> None:
        token, _ = await scene.create()
        for kind in Hash:
            known = Known(SECRET.credential(kind, token.id), ALICE, START + RENEWAL, token.id)
            assert scene.tokens.known(kind, token.id) == known
            assert scene.tokens.known(kind, "A" * 22) is None
        scene.now_ms += RENEWAL - 1
        assert scene.tokens.known(Hash.SHA_256, token.id) is not None
        scene.now_ms += 1
        assert scene.tokens.known(Hash.SHA_256, token.id) is None, "it is over, and not swept yet"

    played(body)


def test_what_clients_come_in_by_is_derived_once(monkeypatch: pytest.MonkeyPatch) -> None:
    derived: list[tuple[Hash, str]] = []
    derive = TokenSecret.credential

    def counted(secret: TokenSecret, kind: Hash, token_id: str) -> Any:
        derived.append((kind, token_id))
        return derive(secret, kind, token_id)

    monkeypatch.setattr(TokenSecret, "credential", counted)

    async def body(scene: Scene) -> None:
        token, hmac = await scene.create()
        assert derived == []
        for _ in range(3):
            scene.tokens.known(Hash.SHA_256, token.id)
            scene.tokens.known(Hash.SHA_256, "B" * 22)
            await scene.tokens.renew(hmac, ALICE, -1)  # it is the same token
        scene.tokens.known(Hash.SHA_512, token.id)
        assert derived == [(Hash.SHA_256, token.id), (Hash.SHA_512, token.id)]

    played(body)


@pytest.mark.parametrize(
    ("period_ms", "after_ms", "expires_ms"),
    [(-1, 500, 1_500), (0, 500, 1_500), (100, 500, 600), (10**15, 500, 1_500), (-1, 0, 1_000)],
)
def test_renewal(period_ms: int, after_ms: int, expires_ms: int) -> None:
    async def body(scene: Scene) -> None:
        token, hmac = await scene.create()
        other = scene.gateway()
        scene.now_ms += after_ms
        for who in (BOB, ALICE):
            assert await scene.tokens.renew(hmac, who, period_ms) == START + expires_ms
        other.take(keys.token_key(token.id))
        for gateway in (scene.tokens, other):
            assert list(gateway.all()) == [(token._replace(expires_ms=START + expires_ms), hmac)]

    played(body)


def test_no_renewal_goes_past_the_end_for_good() -> None:
    async def body(scene: Scene) -> None:
        _, hmac = await scene.create()
        ends = []
        for _ in range(5):
            scene.now_ms += RENEWAL - 1
            ends.append(await scene.tokens.renew(hmac, ALICE, -1))
        assert [one - START for one in ends] == [1_999, 2_998, 3_997, 4_996, 5_000]
        scene.now_ms = START + MAX
        assert await refused(scene.tokens.renew(hmac, ALICE, -1)) is ErrorCode.DELEGATION_TOKEN_EXPIRED

    played(body)


@pytest.mark.parametrize("operation", ["renew", "expire"])
@pytest.mark.parametrize("period_ms", [-1, 10])
@pytest.mark.parametrize(
    ("who", "is_there", "is_over", "expected"),
    [
        (CAROL, False, False, ErrorCode.DELEGATION_TOKEN_NOT_FOUND),
        (CAROL, True, False, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH),
        (ALICE, True, True, ErrorCode.DELEGATION_TOKEN_EXPIRED),
    ],
)
def test_what_is_refused_changes_nothing(
    operation: str, period_ms: int, who: Principal, is_there: bool, is_over: bool, expected: ErrorCode
) -> None:
    if operation == "expire" and period_ms < 0 and is_over:
        return  # that is allowed, and has a test of its own

    async def body(scene: Scene) -> None:
        token, hmac = await scene.create(requester=CAROL)
        scene.now_ms += RENEWAL * is_over
        before = scene.catalog.revision
        ask = getattr(scene.tokens, operation)
        assert await refused(ask(hmac if is_there else b"x", who, period_ms)) is expected
        assert (scene.catalog.revision, scene.ids()) == (before, [token.id])

    played(body)


def test_of_who_is_nobody_to_a_token_that_is_over() -> None:
    """Renewal looks at the time first, and ending at who asks (`DelegationTokenControlManager`)."""

    async def body(scene: Scene) -> None:
        _, hmac = await scene.create()
        scene.now_ms += RENEWAL
        assert await refused(scene.tokens.renew(hmac, CAROL, -1)) is ErrorCode.DELEGATION_TOKEN_EXPIRED
        for period_ms in (-1, 10):
            refusal = await refused(scene.tokens.expire(hmac, CAROL, period_ms))
            assert refusal is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH

    played(body)


@pytest.mark.parametrize(("period_ms", "ends_ms"), [(0, 0), (300, 300), (10**15, MAX)])
def test_one_ends_after_a_time(period_ms: int, ends_ms: int) -> None:
    async def body(scene: Scene) -> None:
        token, hmac = await scene.create()
        assert await scene.tokens.expire(hmac, BOB, period_ms) == START + ends_ms
        assert list(scene.tokens.all()) == [(token._replace(expires_ms=START + ends_ms), hmac)]

    played(body)


@pytest.mark.parametrize("is_over", [False, True])
def test_one_goes_at_once(is_over: bool) -> None:
    async def body(scene: Scene) -> None:
        _, hmac = await scene.create()
        scene.now_ms += RENEWAL * is_over
        assert await scene.tokens.expire(hmac, BOB, -7) == -7
        assert (scene.ids(), list(scene.tokens.all())) == ([], [])
        assert await refused(scene.tokens.renew(hmac, BOB, -1)) is ErrorCode.DELEGATION_TOKEN_NOT_FOUND

    played(body)


def test_those_that_are_over_are_swept_by_whoever_is_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delegation_tokens, "SWEPT_AT_ONCE", 2)

    async def body(scene: Scene) -> None:
        made = [await scene.create(max_lifetime_ms=life) for life in (100, 200, 300)]
        stays, hmac = await scene.create()
        other = scene.gateway()
        scene.now_ms += 500
        assert await scene.tokens.sweep()
        assert not await scene.tokens.sweep()
        assert not await scene.tokens.sweep()
        assert scene.ids() == [stays.id]
        while await other.sweep():  # it has not heard of it yet
            for token, _ in made:
                other.take(keys.token_key(token.id))
        assert scene.ids() == [stays.id]
        assert list(scene.tokens.all()) == [(stays, hmac)]

    played(body)


def test_one_that_was_renewed_elsewhere_is_not_swept() -> None:
    async def body(scene: Scene) -> None:
        token, hmac = await scene.create()
        other = scene.gateway()
        scene.now_ms += RENEWAL - 1
        await scene.tokens.renew(hmac, ALICE, -1)
        scene.now_ms += 1
        await other.sweep()  # which has not heard of it yet
        assert scene.ids() == [token.id]

    played(body)


def test_which_connections_are_cut_off() -> None:
    async def body(scene: Scene) -> None:
        told: list[str] = []
        scene.tokens.on_revoked(told.append)
        kept, of_kept = await scene.create()
        gone, of_gone = await scene.create()
        for one in (kept, gone):
            assert scene.tokens.known(Hash.SHA_512, one.id) is not None
        _, of_unused = await scene.create()
        await scene.tokens.expire(of_unused, ALICE, -1)
        scene.now_ms += 10
        await scene.tokens.renew(of_kept, ALICE, -1)
        scene.tokens.take(keys.token_key(kept.id))
        assert told == []
        await scene.tokens.renew(of_kept, ALICE, 100)  # sooner than its connections know
        await scene.tokens.expire(of_gone, ALICE, -1)
        assert told == [kept.id, gone.id]
        scene.now_ms += 100
        await scene.tokens.sweep()
        assert told[2:] == [kept.id]

    played(body)


def test_there_is_a_bound_and_what_is_over_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delegation_tokens, "MAX_TOKENS", 3)
    monkeypatch.setattr(delegation_tokens, "MAX_TOKENS_OF_OWNER", 2)

    async def body(scene: Scene) -> None:
        first, _ = await scene.create(max_lifetime_ms=100)
        second, of_second = await scene.create()
        assert await refused(scene.create()) is ErrorCode.POLICY_VIOLATION
        third, _ = await scene.create(owner=BOB)
        assert await refused(scene.create(owner=BOB)) is ErrorCode.POLICY_VIOLATION, "in all"
        assert sorted(scene.ids()) == sorted([first.id, second.id, third.id])
        scene.now_ms += 100
        fourth, _ = await scene.create()
        assert sorted(scene.ids()) == sorted([second.id, third.id, fourth.id])
        await scene.tokens.expire(of_second, ALICE, -1)
        await scene.create()
        assert await refused(scene.gateway().create(Wanted(ALICE, ALICE))) is ErrorCode.POLICY_VIOLATION

    played(body)


def test_renewers_are_bounded() -> None:
    async def body(scene: Scene) -> None:
        some = tuple(
            Principal("User", f"renewer {number}") for number in range(delegation_tokens.MAX_RENEWERS)
        )
        token, hmac = await scene.create(renewers=some)
        assert await scene.tokens.renew(hmac, some[-1], -1) == START + RENEWAL
        assert await refused(scene.create(renewers=(*some, BOB))) is ErrorCode.POLICY_VIOLATION
        long = (Principal("User", "x" * delegation_tokens.MAX_TOKEN_BYTES),)
        assert await refused(scene.create(renewers=long)) is ErrorCode.POLICY_VIOLATION
        assert scene.ids() == [token.id]

    played(body)


def test_without_a_secret_there_are_none() -> None:
    async def body(scene: Scene) -> None:
        token, hmac = await scene.create()
        off = scene.gateway(None)
        assert (scene.tokens.is_on, off.is_on) == (True, False)
        assert off.known(Hash.SHA_256, token.id) is None
        assert list(off.all()) == []
        for ask in (
            off.create(Wanted(ALICE, ALICE)),
            off.renew(hmac, ALICE, -1),
            off.expire(hmac, ALICE, -1),
        ):
            assert await refused(ask) is ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        scene.now_ms += MAX
        await off.sweep()
        assert scene.ids() == []

    played(body)


def test_a_gateway_with_another_secret_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    async def body(scene: Scene) -> None:
        token, hmac = await scene.create()
        await scene.create()
        with caplog.at_level(logging.WARNING):
            other = scene.gateway(OTHER_SECRET)
        assert [record.message.partition(":")[0] for record in caplog.records] == [
            "some delegation tokens were made with another secret, and nobody comes in by them here"
        ]
        assert other.known(Hash.SHA_256, token.id) is None
        assert list(other.all()) == []
        for which in (hmac, OTHER_SECRET.hmac_of(token.id), b""):
            assert await refused(other.renew(which, ALICE, -1)) is ErrorCode.DELEGATION_TOKEN_NOT_FOUND

    played(body)


GOOD = pack(DelegationToken("A" * 22, ALICE, BOB, (CAROL,), 1, 2, 3), "mark")


@pytest.mark.parametrize(
    ("token_id", "value"),
    [
        ("A" * 21, GOOD),
        ("A" * 22, b"[]"),
        ("A" * 22, b"{"),
        ("A" * 22, b"[" * 100_000),
        ("A" * 22, GOOD.replace(b'"max_ms":3', b'"max_ms":-3')),
        ("A" * 22, GOOD.replace(b'"max_ms":3', b'"max_ms":true')),
        ("A" * 22, GOOD.replace(b'"max_ms"', b'"other"')),
        ("A" * 22, GOOD.replace(b'"mark"', b"7")),
        ("A" * 22, GOOD.replace(b'["User","alice"]', b'["Gateway","1"]')),
        ("A" * 22, GOOD.replace(b'["User","bob"]', b'["User",7]')),
        ("A" * 22, GOOD.replace(b'[["User","carol"]]', b'["User"]')),
    ],
)
def test_what_cannot_be_read_is_none(token_id: str, value: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def body(scene: Scene) -> None:
        assert unpack("A" * 22, GOOD)[0].owner == ALICE
        with pytest.raises(BadToken):
            unpack(token_id, value)
        token, _ = await scene.create()
        assert scene.tokens.known(Hash.SHA_256, token.id) is not None
        told: list[str] = []
        scene.tokens.on_revoked(told.append)
        await scene.catalog.transact([], {keys.token_key(token_id): value, keys.token_key(token.id): b"[]"})
        scene.tokens.take(keys.token_key(token_id))
        scene.tokens.take(keys.token_key(token.id))
        assert (list(scene.tokens.known_keys()), told) == ([], [token.id])
        assert "nobody comes in by the token at /tokens/" in caplog.text

    played(body)
