"""Somebody's rights are taken away while one of three gateways is stopped: it hears of it later, or dies.

What counts is the order, not the time: a gateway that lets somebody in who was made after the revocation has
heard of both, since what the catalog says comes in one order. From then on it has nothing for whoever was
revoked, and his connections with it have ended. A gateway that hears nothing answers nobody once its lease is
old (`test_alive.py`); one that was stopped for longer has lost its place when it goes on.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from tests.differential.wire import Connection
from tests.peers.supervised import Supervised
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.schemas import REQUEST_CLASSES

SECONDS = 60.0
TOPIC = "orders"
ADMIN, PASSWORD, OTHER = "admin", "right", "another"
SALT, ITERATIONS, SHA_256 = b"salt of the client", 4096, 1
READ, ALLOW, LITERAL, OF_TOPIC = 3, 3, 3, 2
SERVED, DENIED, CLOSED = "served", "denied", "closed"

AlterUsers: Any = REQUEST_CLASSES[51]
CreateTopics: Any = REQUEST_CLASSES[19]
CreateAcls: Any = REQUEST_CLASSES[30]
DeleteAcls: Any = REQUEST_CLASSES[31]

pytestmark = pytest.mark.slow


class Secured(Supervised):
    """Three gateways that ask who comes, over one store."""

    def __init__(self, directory: Path) -> None:
        own = ("--authorizer", "acl", "--super-user", f"User:{ADMIN}")
        super().__init__(directory, 3, 1, *own)
        self.listen = "SASL_PLAINTEXT://127.0.0.1:0"
        password = directory / "password"
        password.write_text(PASSWORD)
        password.chmod(0o600)
        made = ["init", "--data", str(self.data), "--kind", "gateways", "--admin", ADMIN]
        command = [sys.executable, "-m", "dafka", *made, "--password-file", str(password)]
        subprocess.run(command, check=True, capture_output=True)
        self._numbers = itertools.count()

    def come_in(self, address: str, user: str, password: str = PASSWORD) -> Connection | None:
        """A connection as somebody; None: he is not let in, or nobody is there."""
        try:
            one = Connection(address, timeout=SECONDS)
        except OSError:
            return None
        try:
            one.ask(SaslHandshakeRequest(version=1, mechanism="PLAIN"))
            token = f"\0{user}\0{password}".encode()
            if one.ask(SaslAuthenticateRequest(version=1, auth_bytes=token)).error_code == ErrorCode.NONE:
                return one
        except ConnectionError:
            pass
        one.close()
        return None

    def wait_until_let_in(self, address: str, user: str, password: str = PASSWORD) -> Connection:
        """As soon as it is."""
        deadline = time.monotonic() + SECONDS
        while (one := self.come_in(address, user, password)) is None:
            assert time.monotonic() < deadline, f"{user} is not let in by {address}: {self.tail()}"
            time.sleep(0.05)
        return one

    def change(self, request: Any) -> None:
        """By the administrator, at the first gateway; it counts when this returns."""
        with self.wait_until_let_in(self.addresses[0], ADMIN) as one:
            told = one.ask(request).to_dict(json=False)
        results = told.get("results") or told.get("filter_results") or told["topics"]
        assert [result["error_code"] for result in results] == [0], told

    def make_user(self, name: str = "", password: str = PASSWORD) -> str:
        """Or give one that is there another password."""
        name = name or f"user-{next(self._numbers)}"
        salted = hashlib.pbkdf2_hmac("sha256", password.encode(), SALT, ITERATIONS)
        upsertion = AlterUsers.ScramCredentialUpsertion(
            name=name, mechanism=SHA_256, iterations=ITERATIONS, salt=SALT, salted_password=salted
        )
        self.change(AlterUsers(version=0, deletions=[], upsertions=[upsertion]))
        return name

    def allow(self, user: str) -> None:
        """Have him read the topic."""
        creation = CreateAcls.AclCreation(
            resource_type=OF_TOPIC, resource_name=TOPIC, resource_pattern_type=LITERAL,
            principal=f"User:{user}", host="*", operation=READ, permission_type=ALLOW,
        )  # fmt: skip
        self.change(CreateAcls(version=3, creations=[creation]))

    def delete_user(self, user: str) -> None:
        deletion = AlterUsers.ScramCredentialDeletion(name=user, mechanism=SHA_256)
        self.change(AlterUsers(version=0, deletions=[deletion], upsertions=[]))

    def change_password(self, user: str) -> None:
        self.make_user(user, OTHER)

    def forbid(self, user: str) -> None:
        """Delete his ACLs."""
        which = DeleteAcls.DeleteAclsFilter(
            resource_type_filter=OF_TOPIC, resource_name_filter=TOPIC, pattern_type_filter=LITERAL,
            principal_filter=f"User:{user}", host_filter=None, operation=1, permission_type=1,
        )  # fmt: skip
        self.change(DeleteAcls(version=3, filters=[which]))


def looked_at(one: Connection) -> str:
    """What becomes of a question about the topic."""
    topic = MetadataRequest.MetadataRequestTopic(name=TOPIC)
    try:
        told = one.ask(MetadataRequest(version=8, topics=[topic], allow_auto_topic_creation=False))
    except ConnectionError:
        return CLOSED
    code = told.topics[0].error_code
    return {ErrorCode.NONE: SERVED, ErrorCode.TOPIC_AUTHORIZATION_FAILED: DENIED}[code]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    made = Secured(tmp_path_factory.mktemp("secured"))
    try:
        made.start()
        topic = CreateTopics.CreatableTopic(
            name=TOPIC, num_partitions=3, replication_factor=1, assignments=[], configs=[]
        )
        made.change(CreateTopics(version=4, topics=[topic], timeout_ms=60_000, validate_only=False))
        yield made
    finally:
        for pid in made.pids.values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)  # where a test has failed
        made.kill9()
        made.wait_until_all_are_gone()


TROUBLES: dict[str, Callable[[Secured], None]] = {}


def trouble(do: Callable[[Secured], None]) -> Callable[[Secured], None]:
    TROUBLES[do.__name__] = do
    return do


@trouble
def goes_on(secured: Secured) -> None:
    secured.kill("gateway-2", signal.SIGCONT)


@trouble
def is_killed(secured: Secured) -> None:
    serves = secured.log.count("gateway-2 serves again")
    secured.kill("gateway-2")
    secured.wait_until_it_serves_again("gateway-2", serves + 1)


@trouble
def goes_on_after_its_lease(secured: Secured) -> None:
    """What it led, another one leads."""
    serves = secured.log.count("gateway-2 serves again")
    deadline = time.monotonic() + SECONDS
    with secured.wait_until_let_in(secured.addresses[0], ADMIN) as one:
        while 2 in leaders(one):
            assert time.monotonic() < deadline, "nobody takes its place"
            time.sleep(0.1)
    secured.kill("gateway-2", signal.SIGCONT)
    secured.wait_until_it_serves_again("gateway-2", serves + 1)


def leaders(one: Connection) -> set[int]:
    topic = MetadataRequest.MetadataRequestTopic(name=TOPIC)
    told = one.ask(MetadataRequest(version=8, topics=[topic], allow_auto_topic_creation=False))
    return {partition.leader_id for partition in told.topics[0].partitions}


@pytest.mark.parametrize("name", TROUBLES)
@pytest.mark.parametrize("revoke", [Secured.delete_user, Secured.change_password, Secured.forbid])
def test_what_was_taken_away_is_gone_at_every_gateway_that_has_heard_of_it(
    secured: Secured, revoke: Callable[[Secured, str], None], name: str
) -> None:
    user = secured.make_user()
    secured.allow(user)
    last = secured.make_user()
    for address in secured.addresses:
        secured.wait_until_let_in(address, last).close()  # so it knows what came before
    sessions = [secured.wait_until_let_in(address, user) for address in secured.addresses]
    assert [looked_at(one) for one in sessions] == [SERVED] * 3
    secured.kill("gateway-2", signal.SIGSTOP)
    revoke(secured, user)
    marker = secured.make_user()
    is_known_still = revoke is Secured.forbid
    for number in (0, 2):  # where nothing is wrong
        check(secured, number, user, marker, sessions[number], is_known_still=is_known_still)
    TROUBLES[name](secured)
    check(secured, 1, user, marker, sessions[1], is_known_still=is_known_still, was_away=True)
    if revoke is Secured.change_password:
        for address in secured.addresses:
            secured.wait_until_let_in(address, user, OTHER).close()


def check(
    secured: Secured,
    number: int,
    user: str,
    marker: str,
    session: Connection,
    *,
    is_known_still: bool,
    was_away: bool = False,
) -> None:
    """Once a gateway knows somebody who was made later, it has nothing for the one who was revoked."""
    address = secured.addresses[number]
    secured.wait_until_let_in(address, marker).close()
    became = looked_at(session)
    assert became in (
        {DENIED, CLOSED} if was_away and is_known_still else {DENIED if is_known_still else CLOSED}
    )
    session.close()
    again = secured.come_in(address, user)
    assert (again is not None) == is_known_still
    if again is not None:
        with again:
            assert looked_at(again) == DENIED
