"""`dafka transactions` on a gateway with transactions of a real client."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from dafka.cli import run
from tests.backup.scene import create, settle
from tests.backup.test_transactions import SECONDS, consumed
from tests.peers.standalone import Standalone


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with Standalone(None, "--fsync", "never", directory=tmp_path_factory.mktemp("transactions")) as server:
        yield server


def test_they_are_listed_described_and_aborted(
    server: Standalone, capsys: pytest.CaptureFixture[str]
) -> None:
    at = server.bootstrap

    def dafka(*arguments: str, code: int = 0) -> str:
        assert run(["transactions", *arguments, "--bootstrap", at]) == code
        said = capsys.readouterr()
        return said.err if code else said.out

    assert json.loads(dafka("list", "--json")) == []
    create(at, "orders", 2)
    to = {name: Producer({"bootstrap.servers": at, "transactional.id": name}) for name in ("done", "open")}
    for one in to.values():
        one.init_transactions(SECONDS)
        one.begin_transaction()
        one.produce("orders", b"1", partition=1)
        assert one.flush(SECONDS) == 0
    to["done"].commit_transaction(SECONDS)
    settle(lambda: "CompleteCommit" in dafka("list"), "it has its markers")
    listed = json.loads(dafka("list", "--json"))
    assert [(one["transactional_id"], one["state"]) for one in listed] == [
        ("done", "CompleteCommit"),
        ("open", "Ongoing"),
    ]
    assert [one["transactional_id"] for one in json.loads(dafka("list", "--state", "Ongoing", "--json"))] == [
        "open"
    ]
    assert "there is no state Nonsense. States are Empty, Ongoing, " in dafka(
        "list", "--state", "Nonsense", code=2
    )
    (described,) = json.loads(dafka("describe", "open", "--json"))
    assert described["partitions"] == [{"topic": "orders", "partition": 1}]
    assert (described["state"], described["timeout_ms"]) == ("Ongoing", 60_000)
    assert described["producer_id"] == listed[1]["producer_id"]
    text = dafka("describe", "open", "done")
    assert "transactional id open: Ongoing, producer" in text
    assert "transactional id done: CompleteCommit, producer" in text
    assert "there is no such id" in dafka("describe", "nobody", code=2)
    where = ("--partition", "1", "--start-offset")
    assert "open begin at: 1." in dafka("abort", "orders", *where, "0", code=2)
    assert "has no partition 7: it has 2." in dafka(
        "abort", "orders", "--partition", "7", "--start-offset", "0", code=2
    )
    assert "is that of transactional id open (Ongoing)" in dafka("abort", "orders", *where, "1", code=2)
    assert json.loads(dafka("describe", "open", "--json")) == [described]
    assert f"producer {described['producer_id']} is aborted" in dafka(
        "abort", "orders", *where, "1", "--force"
    )
    assert "None is open there." in dafka("abort", "orders", *where, "1", code=2)
    assert consumed(at, "orders") == []  # of the other partition
