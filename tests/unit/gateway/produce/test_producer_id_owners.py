"""A batch with a producer id that was given to somebody else: it is refused before anything of it is looked
at, and leaves nothing behind that the id's producer would notice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from gateway.api.produce import begin
from gateway.common.handlers import Request
from gateway.security.access import Access, Unrestricted
from gateway.security.principal import ANONYMOUS, Principal
from gateway.security.producer_ids import HTTP_CLIENTS, Whom
from tests.unit.gateway.api.asking import ALICE, allowed
from tests.unit.gateway.log.fake_log import FakeLog, batch, produce_request
from tests.unit.gateway.log.test_partition_appends import logged
from tests.unit.gateway.log.transactional import append, transactional
from tests.unit.gateway.produce.test_access import ID_DENIED, WRITES
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.schemas import RESPONSE_CLASSES

NOT_HIS, NOT_ITS = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.INVALID_PRODUCER_ID_MAPPING
NONE, GAP = ErrorCode.NONE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
BOB = Unrestricted(Principal("User", "bob"))
HERS = Unrestricted(ALICE)
LAST_EPOCH = 32_767


async def given(log: FakeLog, whom: Whom, count: int = 7) -> int:
    await log.broker.producer_id_owners.prepare()
    producer_id: int = log.broker.producer_id_owners.bind(count, whom)
    return producer_id


async def code_of(
    log: FakeLog, access: Access, content: bytes, name: str | None = None, *, version: int = 9
) -> ErrorCode:
    """What a Produce of one batch is answered; what is appended is durable at once."""
    return (await answer_of(log, access, content, name, version=version))[0]


async def answer_of(
    log: FakeLog, access: Access, content: bytes, name: str | None = None, *, version: int = 9
) -> tuple[ErrorCode, str]:
    request: Request = produce_request({0: content}, version=version)
    request.body = replace(request.body, transactional_id=name)
    request.access = access
    pending = await begin(request, log.broker)
    if not pending.ready:
        await wait_all_tasks_blocked()
        log.acknowledge()
    framed = pending.response()
    assert isinstance(framed, bytes)
    found = RESPONSE_CLASSES[0].decode(framed, version=version, header=True, framed=True)
    (part,) = found.responses[0].partition_responses
    return ErrorCode(part.error_code), getattr(part, "error_message", "") or ""


def kept(log: FakeLog) -> list[bytes]:
    return [content for contents in log.producer.kept.values() for content in contents]


FORGERIES: list[Callable[[int], bytes]] = [
    lambda pid: batch(b"forged", pid=pid, sequence=1),
    lambda pid: batch(b"forged", pid=pid, sequence=0),
    lambda pid: batch(b"forged", pid=pid, sequence=100),
    lambda pid: batch(b"forged", pid=pid, epoch=LAST_EPOCH),
]
"""The next sequence, one that is there, one that is to come, an epoch that fences."""


@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize("forge", FORGERIES)
def test_another_principal_neither_uses_up_a_sequence_nor_fences(
    forge: Callable[[int], bytes], is_known: bool
) -> None:
    async def body(log: FakeLog) -> None:
        pid = await given(log, ALICE)
        records = [b"first", b"second", b"third"]
        sent = [batch(value, pid=pid, sequence=sequence) for sequence, value in enumerate(records)]
        if is_known:
            assert await code_of(log, HERS, sent.pop(0)) is NONE
        before = log.partition.producers.state.count, kept(log)
        for _ in range(2):
            assert await code_of(log, BOB, forge(pid)) is NOT_HIS
        assert (log.partition.producers.state.count, kept(log)) == before
        for content in sent:
            assert await code_of(log, HERS, content) is NONE
        assert [value for content in kept(log) for value in records if value in content] == records
        assert not any(b"forged" in content for content in kept(log))

    logged(body)


def test_the_answer_says_why_and_what_to_do() -> None:
    async def body(log: FakeLog) -> None:
        pid = await given(log, ALICE)
        _, said = await answer_of(log, BOB, batch(b"x", pid=pid))
        assert f"producer id {pid} was not given to User:bob" in said
        assert "make a new producer" in said

    logged(body)


@pytest.mark.parametrize(
    ("access", "code"),
    [
        (HERS, NONE),
        (allowed(WRITES), NONE),  # she, by an authorizer
        (Unrestricted(ANONYMOUS), NOT_HIS),
        (Unrestricted(HTTP_CLIENTS), NOT_HIS),
        (Unrestricted(Principal("Gateway", "alice")), NOT_HIS),
    ],
)
def test_whose_an_id_is(access: Access, code: ErrorCode) -> None:
    async def body(log: FakeLog) -> None:
        assert await code_of(log, access, batch(b"x", pid=await given(log, ALICE))) is code

    logged(body)


@pytest.mark.parametrize("pid", [0, 7, 10**15, (1 << 62) - 1])
def test_ids_that_were_given_before_are_anybodys(pid: int) -> None:
    async def body(log: FakeLog) -> None:
        await given(log, ALICE)
        assert await code_of(log, HERS, batch(b"x", pid=pid)) is NONE
        assert await code_of(log, BOB, batch(b"x", pid=pid, sequence=1)) is NONE

    logged(body)


@pytest.mark.parametrize("name", [None, "tx", "ty"])
def test_a_transactional_producers_id_is_of_no_use_outside_its_transactions(name: str | None) -> None:
    """Such a request may name any transactional id: nobody asks who may use it."""

    async def body(log: FakeLog) -> None:
        pid = await given(log, "tx")
        for access in (HERS, BOB):
            assert await code_of(log, access, batch(b"forged", pid=pid, epoch=LAST_EPOCH), name) is NOT_HIS
        assert (log.partition.producers.state.count, kept(log)) == (0, [])

    logged(body)


class AlwaysOpen:
    """A coordinator that finds nothing wrong with anybody."""

    def cost(self, *_: object, **__: object) -> int:
        return 0

    async def check(self, _who: object, places: Collection[object], _client: str) -> dict[object, ErrorCode]:
        await trio.lowlevel.checkpoint()
        return dict.fromkeys(places, NONE)


def part(pid: int, sequence: int = 0) -> bytes:
    return transactional(b"part", pid=pid, sequence=sequence)


@pytest.mark.parametrize(
    ("name", "code"),
    [("tx", NONE), ("ty", NOT_ITS), ("", NOT_ITS), (None, ErrorCode(ID_DENIED)), ("t" * 300, NOT_ITS)],
)
@pytest.mark.parametrize("version", [9, 12])
def test_inside_an_open_transaction_the_id_has_to_be_that_of_the_transactional_id(
    name: str | None, code: ErrorCode, version: int
) -> None:
    """The coordinator is not asked where the transaction is open."""

    async def body(log: FakeLog) -> None:
        pid = await given(log, "tx")
        append(log.partition, part(pid))
        assert await code_of(log, BOB, part(pid, 1), name, version=version) is code
        # What was refused is not waited for.
        log.acknowledge()
        following = 2 if code is NONE else 1
        assert await code_of(log, HERS, part(pid, following), "tx", version=version) is NONE

    logged(body)


def test_long_transactional_ids_have_their_producers_as_well() -> None:
    async def body(log: FakeLog) -> None:
        name = "t" * 32_000
        pid = await given(log, name)
        append(log.partition, part(pid))
        assert await code_of(log, BOB, part(pid, 1), name) is NONE
        assert await code_of(log, BOB, part(pid, 2), name[:-1]) is NOT_ITS

    logged(body)


def test_an_idempotent_producers_id_is_of_no_use_in_a_transaction() -> None:
    async def body(log: FakeLog) -> None:
        log.broker.verifier = AlwaysOpen()
        pid = await given(log, ALICE)
        assert await code_of(log, HERS, batch(b"first", pid=pid)) is NONE
        assert await code_of(log, HERS, part(pid, 1), "User:alice") is NOT_ITS
        assert await code_of(log, HERS, batch(b"second", pid=pid, sequence=1)) is NONE

    logged(body)
