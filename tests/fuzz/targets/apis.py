"""Requests about ACLs and delegation tokens, through their decoders and handlers.

Who may not change ACLs changes none, and whoever asks is never told another one's token.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any, Final, Self

import trio

from dafka.settings import Settings
from gateway.broker import Broker
from gateway.cluster.delegation_tokens import DelegationTokens, Wanted
from gateway.common.handlers import Request
from gateway.security.access import UNRESTRICTED, Access
from gateway.security.delegation_tokens import TokenSecret
from gateway.security.principal import USER, Principal
from gateway.security.sasl_session import SaslSession
from tests.fuzz.mutate import mutated
from tests.fuzz.target import Violation
from tests.unit.gateway.api.asking import (
    ADDRESS,
    ALICE,
    NOW_MS,
    REGISTRY,
    FakeBroker,
    allowed,
    encode_request,
    request_class,
)
from tests.unit.gateway.api.test_acls import creation, filter_fields, line
from tests.unit.gateway.api.test_delegation_tokens import (
    CREATE,
    DESCRIBE,
    EXPIRE,
    RENEW,
    SETTINGS,
    owners,
    renewers,
)
from tests.unit.gateway.api.test_delegation_tokens import request as about_tokens
from tests.unit.gateway.catalog.memory import MemoryCatalog
from tests.unit.gateway.log.fake_log import FakeLog
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import MalformedRequest
from wireproto.kafka.headers import parse_request_header
from wireproto.kafka.schemas import RESPONSE_CLASSES

ACL_KEYS: Final = (ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS)
TOKEN_KEYS: Final = (CREATE, RENEW, EXPIRE, DESCRIBE)
ASKED_OF_ONE: Final = 100
"""Requests to a broker until another one takes its place: what is made by request would add up."""

_NUMBERS: Final = (*range(-2, 17), -128, 127)
_NAMES: Final = (
    None,
    "",
    "*",
    "orders",
    "o",
    "kafka-cluster",
    "User:alice",
    "User:*",
    "User:",
    ":",
    "alice",
    "\x00",
    "\u202e",
    "10.0.0.1",
    "x" * 249,
    "x" * 5_000,
    "é" * 300,
)


class Apis:
    """Frames of requests of some APIs; in their last byte is who asks."""

    def __init__(self, name: str, keys: Sequence[int], good: Sequence[Any]) -> None:
        self.name = name
        self._keys = frozenset(keys)
        self.good = [bytes(encode_request(one)) + b"\0" for one in good]
        self._asked = itertools.count()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_how: object) -> None:
        pass

    def check(self, data: bytes) -> str:
        """See `Target.check`."""
        if next(self._asked) % ASKED_OF_ONE == 0:
            self.begin()
        frame, who = memoryview(data)[:-1], data[-1] if data else 0
        try:
            header = parse_request_header(frame)
            api = REGISTRY.lookup(header.api_key)
            if api is None or header.api_key not in self._keys:
                return "another API"
            if not api.min_version <= header.api_version <= api.max_version:
                return "another version"
            body = api.decoder(header.api_version, frame, header.body_offset)
        except MalformedRequest:
            return "malformed"
        request = Request(header, body, frame, ADDRESS, "client", trio.Event())
        request.access, request.sasl = self.asker(who)
        assert api.handler is not None
        broker: Any = self.broker(who)
        try:
            answer = trio.run(api.handler, request, broker)
        except MalformedRequest:
            return f"{api.name}: malformed"
        assert isinstance(answer, bytes)
        told = RESPONSE_CLASSES[header.api_key].decode(
            answer, version=header.api_version, header=True, framed=True
        )
        self.judge(who, answer)
        return f"{api.name}: {_error(told)}"

    def begin(self) -> None:
        """With brokers that know nothing yet."""
        raise NotImplementedError

    def broker(self, who: int) -> Any:
        """Whom it is asked of."""
        raise NotImplementedError

    def asker(self, who: int) -> tuple[Access, SaslSession | None]:
        """What he may, and how he has come in."""
        raise NotImplementedError

    def judge(self, who: int, answer: bytes) -> None:
        """What has to hold after an answer. Raises Violation."""
        raise NotImplementedError


def _error(told: Any) -> int:
    """The first error of an answer."""
    whole = told.to_dict(json=False)
    results = [whole, *whole.get("results", ()), *whole.get("filter_results", ())]
    return next((one["error_code"] for one in results if one.get("error_code")), 0)


class AclApis(Apis):
    """Every other one asks without the right to change anything."""

    def __init__(self) -> None:
        of = {key: request_class(key) for key in ACL_KEYS}
        describe, create, delete = (of[key] for key in ACL_KEYS)
        self._describe, self._create, self._delete = describe, create, delete
        lines = [creation(line()), creation(line("*", principal="User:*"))]
        some = [
            delete.DeleteAclsFilter(**filter_fields()),
            delete.DeleteAclsFilter(**filter_fields(2, "orders", 4)),
        ]
        good = [
            request
            for version in (1, 2, 3)
            for request in (
                describe(version=version, **filter_fields(2, "orders", 3)),
                create(version=version, creations=lines),
                delete(version=version, filters=some),
            )
        ]
        super().__init__("acl-filters", ACL_KEYS, good)

    def begin(self) -> None:
        """See `Apis.begin`."""
        self._of_admin, self._of_others = _gateway(UNRESTRICTED), _gateway(allowed())

    def broker(self, who: int) -> Any:
        """See `Apis.broker`."""
        return self._of_others if who & 1 else self._of_admin

    def asker(self, who: int) -> tuple[Access, SaslSession | None]:
        """See `Apis.asker`."""
        return self.broker(who).access, None

    def judge(self, who: int, answer: bytes) -> None:  # noqa: ARG002 - what is there says it
        """See `Apis.judge`."""
        if self._of_others.acls.all():
            raise Violation("who may not change ACLs has made some")

    def make(self, chooser: random.Random) -> bytes:
        """Every field of any value; of half of them bytes are changed as well."""
        number, name, version = _chosen(chooser, _NUMBERS), _chosen(chooser, _NAMES), chooser.randrange(1, 4)

        def fields() -> dict[str, Any]:
            return filter_fields(number(), name(), number(), name(), name(), number(), number())

        kind = chooser.randrange(4)
        if kind == 0:
            return mutated(chooser.choice(self.good), self.good, chooser)
        many = chooser.choice((0, 1, 1, 2, 30))
        if kind == 1:
            request = self._describe(version=version, **fields())
        elif kind == 2:
            request = self._delete(
                version=version, filters=[self._delete.DeleteAclsFilter(**fields()) for _ in range(many)]
            )
        else:
            codes = ("resource_type", "resource_pattern_type", "operation", "permission_type")
            odd = dict.fromkeys(codes, number)
            odd |= dict.fromkeys(("resource_name", "host", "principal"), lambda: name() or "")
            changed = [chooser.sample(sorted(odd), chooser.randrange(1, 4)) for _ in range(many)]
            request = self._create(
                version=version,
                creations=[creation(line(), **{one: odd[one]() for one in some}) for some in changed],
            )
        return _finished(request, self.good, chooser)


class TokenApis(Apis):
    """Alice, somebody without a name, somebody who has come in by a token; Bob has a token of his own."""

    def __init__(self) -> None:
        good = [about_tokens(key, version) for key in TOKEN_KEYS for version in (1, 2)]
        bob = Principal(USER, "bob")
        good += [
            about_tokens(CREATE, 3, renewers=renewers(bob), max_lifetime_ms=5),
            about_tokens(DESCRIBE, 3, owners=owners(bob)),
        ]
        super().__init__("delegation-tokens", TOKEN_KEYS, good)
        self._bob = bob
        self._secret = TokenSecret(b"of the gateways, and of nobody else")

    def begin(self) -> None:
        """See `Apis.begin`."""
        self._broker = FakeBroker()
        tokens = DelegationTokens(MemoryCatalog(), self._secret, SETTINGS, lambda: NOW_MS)
        self._broker.delegation_tokens = tokens
        self._bobs, self._bobs_hmac = trio.run(tokens.create, Wanted(self._bob, self._bob, ()))

    def broker(self, who: int) -> Any:  # noqa: ARG002 - all ask the same one
        """See `Apis.broker`."""
        return self._broker

    def asker(self, who: int) -> tuple[Access, SaslSession | None]:
        """See `Apis.asker`."""
        if who % 4 == 3:
            return allowed(), None
        session = SaslSession({})
        session.principal, session.token_id = ALICE, "A" * 22 if who % 4 == 2 else ""
        return allowed(), session

    def judge(self, who: int, answer: bytes) -> None:
        """See `Apis.judge`."""
        if self._bobs_hmac in answer:
            raise Violation("Alice is told the password of Bob's token")
        of_all = [token for token, _ in self._broker.delegation_tokens.all()]
        if self._bobs not in of_all:
            raise Violation("Bob's token is not as it was")
        if any(token.owner not in {ALICE, self._bob} for token in of_all):
            raise Violation("Alice has made a token for somebody else")
        if who % 4 == 2 and len(of_all) > self._before_token:
            raise Violation("who has come in by a token has made another one")
        self._before_token = len(of_all)

    _before_token = 1 << 30

    def make(self, chooser: random.Random) -> bytes:
        """As of ACLs; some name Bob's token by its id, or by its password with a byte changed."""
        name, key = _chosen(chooser, (*_NAMES, "User", "bob", "Gateway")), chooser.choice(TOKEN_KEYS)
        if chooser.random() < 0.25:
            return mutated(chooser.choice(self.good), self.good, chooser)
        version = chooser.randrange(1, 4 if key in {CREATE, DESCRIBE} else 3)
        principals = [Principal(name() or "", name() or "") for _ in range(chooser.choice((0, 1, 3, 30)))]
        period = chooser.choice((-(2**63), -2, -1, 0, 1, 1_000, 2**63 - 1))
        hmac = chooser.choice((b"", b"x", chooser.randbytes(64), bytes(5_000)))
        if key == CREATE:
            fields: dict[str, Any] = {"renewers": renewers(*principals), "max_lifetime_ms": period}
            if version == 3:
                fields |= {"owner_principal_type": name(), "owner_principal_name": name()}
        elif key == DESCRIBE:
            fields = {"owners": chooser.choice((None, owners(*principals)))}
        else:
            fields = {"hmac": hmac, "renew_period_ms" if key == RENEW else "expiry_time_period_ms": period}
        return _finished(about_tokens(key, version, **fields), self.good, chooser)


def _gateway(access: Access) -> Any:
    log = FakeLog()
    settings = Settings(authorizer="acl", super_user=("User:admin",))
    broker: Any = Broker(log.context, log.stores, settings, lambda: None)
    broker.access = access
    return broker


def _chosen(chooser: random.Random, values: Sequence[Any]) -> Any:
    return lambda: chooser.choice(values)


def _finished(request: Any, good: Sequence[bytes], chooser: random.Random) -> bytes:
    made = bytes(encode_request(request))
    if chooser.random() < 0.3:
        made = mutated(made, good, chooser)
    return made + bytes([chooser.randrange(256)])
