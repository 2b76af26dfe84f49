"""A gateway with a store in this process: a topic, a group, an open transaction and a delegation token. And a
client whose rights are recorded.
"""

from __future__ import annotations

import inspect
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import trio
from kafka.protocol.admin import CreateTopicsRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from dafka.processes.standalone import Standalone
from gateway.broker import Broker
from gateway.cluster.acls import BY_ACLS, Acls
from gateway.cluster.delegation_tokens import Wanted
from gateway.security.principal import USER, Principal
from tests.differential import offsets, transactions
from tests.docs.authorization.findings import Ask
from tests.docs.authorization.recording import Question, Recording
from tests.in_process.in_process import RawClient, running
from wireproto.kafka.schemas import RESPONSE_CLASSES

TOPIC: Final = "topic"
GROUP: Final = "group"
TRANSACTION: Final = "transaction"
DOOMED: Final = "doomed"
OWNER: Final = Principal(USER, "owner")
"""Of the delegation token."""

PATIENCE_SECONDS: Final = 30
ALREADY_EXISTS: Final = 36
NOT_READY: Final = {14, 15, 16}
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR."""


class Scene:
    """What requests are made of, and who sends them."""

    def __init__(self, client: RawClient, recording: Recording) -> None:
        self.client = client
        self.recording = recording
        self._ids: dict[str, uuid.UUID] = {}
        self._made = 0

    def id_of(self, name: str) -> uuid.UUID:
        """That of `TOPIC`, or of `DOOMED`."""
        return self._ids[name]

    def new_name(self) -> str:
        """One that no topic has."""
        self._made += 1
        return f"new-{self._made}"

    async def doomed(self) -> str:
        """A topic that is there, to be deleted."""
        await self._create(DOOMED)
        return DOOMED

    async def commit(self) -> None:
        """The group has an offset of the topic."""
        await self._until(
            offsets.commit(GROUP, {TOPIC: [offsets.offset(0, 0)]}, version=9),
            lambda answer: answer["topics"][0]["partitions"][0]["error_code"],
        )

    async def set_up(self) -> None:
        """The topic, the group and the transaction."""
        await self._create(TOPIC)
        await self.commit()
        begin = transactions.init_producer_id(TRANSACTION, 4)
        begun = await self._until(begin, lambda answer: answer["error_code"])
        who = begun["producer_id"], begun["producer_epoch"]
        await self._until(
            transactions.add_partitions(TRANSACTION, *who, {TOPIC: [0]}),
            lambda answer: answer["results_by_topic_v3_and_below"][0]["results_by_partition"][0][
                "partition_error_code"
            ],
        )

    async def _create(self, name: str) -> None:
        one = CreateTopicsRequest.CreatableTopic(
            name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
        answer = await self.send(CreateTopicsRequest(version=7, topics=[one], timeout_ms=5000))
        (created,) = answer["topics"]
        assert created["error_code"] in {0, ALREADY_EXISTS}, created
        if created["error_code"] == 0:
            self._ids[name] = created["topic_id"]

    async def _until(self, request: Any, error: Callable[[dict[str, Any]], int]) -> dict[str, Any]:
        """Asks for the coordinators, and then this, until they have read their logs."""
        with trio.fail_after(PATIENCE_SECONDS):
            while True:
                for kind, name in enumerate((GROUP, TRANSACTION)):
                    await self.send(FindCoordinatorRequest(version=1, key=name, key_type=kind))
                answer = await self.send(request)
                if (code := error(answer)) not in NOT_READY:
                    assert code == 0, answer
                    return answer

    async def send(self, request: Any) -> dict[str, Any]:
        with trio.fail_after(PATIENCE_SECONDS):
            answer = await self.client.ask(request, RESPONSE_CLASSES[request.API_KEY])
        found: dict[str, Any] = answer.to_dict(json=False)
        return found

    def asking(self, make: Callable[[], Any]) -> Ask:
        """Sends what is made, or awaited, anew each time."""

        async def ask(denied: frozenset[Question]) -> tuple[list[Question], dict[str, Any]]:
            request = make()
            if inspect.isawaitable(request):
                request = await request
            recording = self.recording
            recording.asked, recording.denied = {}, denied
            answer = await self.send(request)
            asked, recording.denied = list(recording.asked), frozenset()
            return asked, answer

        return ask


@asynccontextmanager
async def scene(data: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    """The scene, while the block runs."""
    recording = Recording()
    monkeypatch.setattr(Acls, "grant", lambda *_: recording)
    brokers: list[Broker] = []
    monkeypatch.setattr(Standalone, "_register_metrics", lambda _self, broker: brokers.append(broker))
    secret = data / "secret"
    secret.write_bytes(b"of the gateways, and of nobody else")
    secret.chmod(0o600)
    settings = {"authorizer": BY_ACLS, "delegation_token_secret_file": secret}
    async with (
        running(data / "gateway", monkeypatch, **settings) as (_, port),
        await RawClient.connect(port) as client,
    ):
        made = Scene(client, recording)
        await made.set_up()
        (broker,) = brokers
        await broker.change_tokens(partial(broker.delegation_tokens.create, Wanted(OWNER, OWNER)))
        yield made
