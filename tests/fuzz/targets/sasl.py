"""The messages of each SASL mechanism, through the session of a connection (`SaslSession`).

Nobody comes in but who says, to the letter, what somebody with the right password or token says: a proof that
was made for other messages counts for none.
"""

from __future__ import annotations

import random
from base64 import b64decode
from collections.abc import Callable, Sequence
from typing import Final, Self

from gateway.security.mechanism import Exchange
from gateway.security.oauthbearer import OauthBearerExchange
from gateway.security.plain import PlainExchange
from gateway.security.principal import USER, Principal
from gateway.security.sasl_session import SaslSession, Stage
from gateway.security.scram import MIN_ITERATIONS, Hash, Known, ScramExchange, credential_of
from tests.fuzz.mutate import joined, mutated, taken_apart
from tests.fuzz.target import Violation
from tests.fuzz.targets.web_tokens import GOOD_TOKENS, VALIDATOR
from tests.unit.gateway.security.test_scram import Client
from wireproto.kafka.errors import ErrorCode

MOST_MESSAGES: Final = 6
"""Of one input."""

ALICE: Final = Principal(USER, "alice")

PLAIN_GOOD: Final = (b"\0alice\0secret", b"alice\0alice\0secret")


class Sasl:
    """One mechanism. `rightly` says whether these messages let `alice` in."""

    def __init__(
        self,
        mechanism: str,
        begin: Callable[[], Exchange],
        good: Sequence[Sequence[bytes]],
        rightly: Callable[[Sequence[bytes]], bool],
    ) -> None:
        self.name = mechanism.lower()
        self._mechanism = mechanism
        self._begin = begin
        self.good = [joined(messages) for messages in good]
        self._messages = [message for messages in good for message in messages]
        self._good = good
        self._rightly = rightly

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_how: object) -> None:
        pass

    def make(self, chooser: random.Random) -> bytes:
        """Messages of which one was changed, or the whole input with its sizes."""
        if chooser.random() < 0.2:
            return mutated(chooser.choice(self.good), self.good, chooser)
        messages = list(chooser.choice(self._good))
        at = chooser.randrange(len(messages))
        messages[at] = mutated(messages[at], self._messages, chooser)
        return joined([message[:0xFFFF] for message in messages])

    def check(self, data: bytes) -> str:
        """See `Target.check`."""
        messages = taken_apart(data)[:MOST_MESSAGES]
        session = SaslSession({self._mechanism: self._begin})
        session.handshake(self._mechanism, 1, 0)
        why = ""
        for number, message in enumerate(messages):
            session.takes_long(message)
            told = session.authenticate(message, 2, 0)
            if (told.error is ErrorCode.SASL_AUTHENTICATION_FAILED) != (told.closes and bool(told.why)):
                raise Violation(f"{told} is neither a failure nor none")
            if session.stage is Stage.OPEN:
                return self._let_in(session, messages[: number + 1])
            if told.closes:
                why = told.why
                break
        if session.principal is not None:
            raise Violation(f"{session.principal} is not let in, and known")
        return f"refused: {why.split(':')[0][:60]}" if why else "goes on"

    def _let_in(self, session: SaslSession, messages: Sequence[bytes]) -> str:
        if session.principal != ALICE or not self._rightly(messages):
            raise Violation(f"{session.principal} is let in by {messages!r}")
        return "let in, rightly"


def plain() -> Sasl:
    """SASL PLAIN. Its password is compared, not hashed: that takes milliseconds, whatever it is."""

    def begin() -> Exchange:
        return PlainExchange(lambda user, password: (user, password) == ("alice", "secret"))

    wrong = [[b"\0alice\0wrong"], [b"\0nobody\0secret"], [b"bob\0alice\0secret"]]
    return Sasl(
        "PLAIN", begin, [*([one] for one in PLAIN_GOOD), *wrong], lambda messages: messages[-1] in PLAIN_GOOD
    )


def scram(kind: Hash) -> Sasl:
    """One of the two. The server's nonce is always the same, so a good login can be written down."""
    known = {
        ("alice", False): Known(credential_of(kind, "secret", b"0123456789abcdef", MIN_ITERATIONS), ALICE),
        ("B" * 22, True): Known(credential_of(kind, "hmac", b"fedcba9876543210", MIN_ITERATIONS), ALICE),
    }

    def begin() -> Exchange:
        return ScramExchange(kind, lambda *who: known.get(who), b"of the cluster", b"eighteen bytes ...")

    clients = [
        Client(kind), Client(kind, header="n,a=alice,"), Client(kind, extensions=",some=thing"),
        Client(kind, "B" * 22, "hmac", ",tokenauth=true"),
    ]  # fmt: skip
    good = [_login(begin(), client) for client in clients]
    wrong = [Client(kind, password="wrong"), Client(kind, "nobody"), Client(kind, "B" * 22, "hmac")]

    def rightly(messages: Sequence[bytes]) -> bool:
        return any(messages[0] == first and _same(messages[1], last) for first, last in good)

    return Sasl(kind.value, begin, [*good, *(_login(begin(), client) for client in wrong)], rightly)


def _login(server: Exchange, client: Client) -> list[bytes]:
    first = client.first()
    return [first, client.last(server.step(first).token)]


def _same(one: bytes, other: bytes) -> bool:
    """Whether these last messages say the same: in base64 a proof can be written in several ways."""
    said, _, proof = one.rpartition(b",p=")
    its, _, wanted = other.rpartition(b",p=")
    return said == its and b64decode(proof) == b64decode(wanted)


def oauthbearer() -> Sasl:
    """SASL OAUTHBEARER, over the real check of tokens."""
    good = [
        message.encode()
        for token in GOOD_TOKENS
        for message in (
            f"n,,\x01auth=Bearer {token}\x01\x01",
            f"n,a=alice,\x01auth=bearer {token}\x01extension=value\x01\x01",
        )
    ]
    wrong = [
        b"n,,\x01auth=Bearer x.y.z\x01\x01",
        f"n,a=bob,\x01auth=Bearer {GOOD_TOKENS[0]}\x01\x01".encode(),
    ]

    def rightly(messages: Sequence[bytes]) -> bool:
        message = messages[0]
        is_signed = any(token.rpartition(".")[0].encode() in message for token in GOOD_TOKENS)
        return len(messages) == 1 and is_signed and message.startswith((b"n,,", b"n,a=alice,"))

    def begin() -> Exchange:
        return OauthBearerExchange(VALIDATOR.validate)

    return Sasl("OAUTHBEARER", begin, [[one] for one in good] + [[one, b"\x01"] for one in wrong], rightly)
