"""`dafka groups`, against a server that answers as told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from dafka import cli
from tests.unit.dafka.commands.fake_kafka import FakeKafka
from tests.unit.gateway.groups.test_consumer_protocol import assignment
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.schemas import REQUEST_CLASSES, RESPONSE_CLASSES

LOADING, GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP = 14, 69, 68


class Coordinator:
    """One group, `payments`, on a fake server: what it committed, its members, and errors to answer next."""

    def __init__(self, server: FakeKafka) -> None:
        self.server = server
        self.committed: dict[tuple[str, int], int] = {("orders", 0): 3, ("orders", 1): 5}
        self.members: list[tuple[str, str | None, bytes]] = []
        self.errors: dict[ApiKey, list[int]] = {}
        self.deleted: list[str] = []
        answers: dict[ApiKey, Any] = {
            ApiKey.FIND_COORDINATOR: self.find,
            ApiKey.LIST_GROUPS: self.list,
            ApiKey.DESCRIBE_GROUPS: self.describe,
            ApiKey.OFFSET_FETCH: self.offsets,
            ApiKey.OFFSET_COMMIT: self.commit,
            ApiKey.DELETE_GROUPS: self.delete,
        }
        for key, answer in answers.items():
            server.answers[key] = answer
            server.versions[key] = REQUEST_CLASSES[key].valid_versions

    def error(self, key: ApiKey) -> int:
        left = self.errors.get(key)
        return left.pop(0) if left else 0

    def find(self, _: Any) -> Any:
        cls: Any = RESPONSE_CLASSES[ApiKey.FIND_COORDINATOR]
        error = self.error(ApiKey.FIND_COORDINATOR)
        return cls(error_code=error, error_message=None, node_id=1, host="127.0.0.1", port=self.server.port)

    def list(self, _: Any) -> Any:
        cls: Any = RESPONSE_CLASSES[ApiKey.LIST_GROUPS]
        rows = [("payments", "consumer", "Empty"), ("audit", "", "Stable")]
        return cls(
            error_code=self.error(ApiKey.LIST_GROUPS),
            groups=[cls.ListedGroup(group_id=g, protocol_type=t, group_state=s) for g, t, s in rows],
        )

    def describe(self, request: Any) -> Any:
        cls: Any = RESPONSE_CLASSES[ApiKey.DESCRIBE_GROUPS]
        known = request.groups == ["payments"]
        members = [
            cls.DescribedGroup.DescribedGroupMember(
                member_id=f"{client}-1", group_instance_id=instance, client_id=client,
                client_host="/10.0.0.7", member_metadata=b"", member_assignment=assigned,
            )
            for client, instance, assigned in self.members
        ]  # fmt: skip
        return cls(
            groups=[
                cls.DescribedGroup(
                    error_code=self.error(ApiKey.DESCRIBE_GROUPS) if known else GROUP_ID_NOT_FOUND,
                    error_message=None,
                    group_id=request.groups[0],
                    group_state="Stable" if members else "Empty",
                    protocol_type="consumer",
                    protocol_data="range" if members else "",
                    members=members,
                )
            ]
        )

    def offsets(self, request: Any) -> Any:
        cls: Any = RESPONSE_CLASSES[ApiKey.OFFSET_FETCH]
        row = cls.OffsetFetchResponseTopic
        committed = self.committed if request.group_id == "payments" else {}
        return cls(
            error_code=self.error(ApiKey.OFFSET_FETCH),
            topics=[
                row(
                    name=topic,
                    partitions=[
                        row.OffsetFetchResponsePartition(
                            partition_index=index, committed_offset=offset, committed_leader_epoch=-1,
                            metadata="", error_code=0,
                        )
                    ],
                )
                for (topic, index), offset in committed.items()
            ],
        )  # fmt: skip

    def commit(self, request: Any) -> Any:
        cls: Any = RESPONSE_CLASSES[ApiKey.OFFSET_COMMIT]
        error = self.error(ApiKey.OFFSET_COMMIT)
        assert (request.generation_id_or_member_epoch, request.member_id) == (-1, "")
        rows = []
        for topic in request.topics:
            for one in topic.partitions:
                if not error:
                    self.committed[topic.name, one.partition_index] = one.committed_offset
            one_row = cls.OffsetCommitResponseTopic
            rows.append(
                one_row(
                    name=topic.name,
                    partitions=[
                        one_row.OffsetCommitResponsePartition(
                            partition_index=one.partition_index, error_code=error
                        )
                        for one in topic.partitions
                    ],
                )
            )
        return cls(topics=rows)

    def delete(self, request: Any) -> Any:
        cls: Any = RESPONSE_CLASSES[ApiKey.DELETE_GROUPS]
        (name,) = request.groups_names
        error = self.error(ApiKey.DELETE_GROUPS)
        if not error:
            self.deleted.append(name)
        return cls(results=[cls.DeletableGroupResult(group_id=name, error_code=error)])

    def run(self, *arguments: str) -> int:
        return cli.run(["groups", *arguments, "--bootstrap", self.server.address])


@pytest.fixture
def coordinator() -> Iterator[Coordinator]:
    with FakeKafka({"orders": 2, "payments": 1}) as server:
        server.ends = {("orders", 0): 10, ("orders", 1): 5, ("payments", 0): 7}
        yield Coordinator(server)


def test_groups_are_listed_by_name(coordinator: Coordinator, capsys: pytest.CaptureFixture[str]) -> None:
    assert coordinator.run("list") == 0
    assert capsys.readouterr().out == (
        "group     state   type\naudit     Stable  -\npayments  Empty   consumer\n"
    )
    assert coordinator.run("list", "--json") == 0
    assert json.loads(capsys.readouterr().out)[1] == {
        "group": "payments", "type": "consumer", "state": "Empty"
    }  # fmt: skip


def test_a_group_is_described_with_lag_and_readers(
    coordinator: Coordinator, capsys: pytest.CaptureFixture[str]
) -> None:
    coordinator.members = [
        ("one", None, assignment({"orders": [1, 0]})),
        ("two", "static", assignment({"payments": [0]})),
        ("three", None, b""),
        ("four", None, b"?"),
    ]
    assert coordinator.run("describe", "payments") == 0
    assert capsys.readouterr().out == (
        "group payments: Stable, 4 members, protocol range\n"
        "  one at /10.0.0.7: orders[0,1]\n"
        "  static at /10.0.0.7: payments[0]\n"
        "  three at /10.0.0.7: no partitions\n"
        "  four at /10.0.0.7: an assignment that is not a consumer's\n"
        "  topic     partition  committed  end  lag  read by\n"
        "  orders    0          3          10   7    one\n"
        "  orders    1          5          5    0    one\n"
        "  payments  0          -          7    -    static\n"
    )


def test_offsets_of_a_topic_that_is_gone_are_shown(
    coordinator: Coordinator, capsys: pytest.CaptureFixture[str]
) -> None:
    coordinator.committed = {("gone", 0): 3}
    assert coordinator.run("describe", "payments", "--json") == 0
    assert json.loads(capsys.readouterr().out)[0]["offsets"] == [
        {"topic": "gone", "partition": 0, "committed": 3, "end": None, "lag": None, "member": None}
    ]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--to-earliest"], {("orders", 0): 0, ("orders", 1): 0}),
        (["--to-latest"], {("orders", 0): 10, ("orders", 1): 5}),
        (["--to-offset", "7"], {("orders", 0): 7, ("orders", 1): 5}),
        (["--shift", "-4"], {("orders", 0): 0, ("orders", 1): 1}),
        (["--shift", "2", "--partition", "0"], {("orders", 0): 5, ("orders", 1): 5}),
        (["--topic", "payments", "--to-latest"], {("orders", 0): 3, ("orders", 1): 5, ("payments", 0): 7}),
        (["--to-latest", "--dry-run"], {("orders", 0): 3, ("orders", 1): 5}),
        (["--to-time", "2026-11-20T08:00:00+00:00"], {("orders", 0): 10, ("orders", 1): 5}),
    ],
)
def test_a_reset_commits_within_the_log(
    coordinator: Coordinator, arguments: list[str], expected: dict[tuple[str, int], int]
) -> None:
    assert coordinator.run("reset", "payments", *arguments) == 0
    assert coordinator.committed == expected


def test_a_reset_to_a_time_asks_for_it_in_milliseconds(coordinator: Coordinator) -> None:
    assert coordinator.run("reset", "payments", "--to-time", "2026-11-20T09:00:00+01:00") == 0
    asked = [r for r in coordinator.server.requests if type(r).__name__ == "ListOffsetsRequest"]
    timestamps = {one.timestamp for request in asked for topic in request.topics for one in topic.partitions}
    assert timestamps == {-2, -1, 1_795_161_600_000}


def test_a_reset_tells_before_and_after(coordinator: Coordinator, capsys: pytest.CaptureFixture[str]) -> None:
    assert coordinator.run("reset", "new", "--topic", "orders", "--to-latest", "--partition", "0") == 0
    assert capsys.readouterr().out == "topic   partition  before  after\norders  0          -       10\n"


def test_a_coordinator_that_is_not_ready_is_asked_again(coordinator: Coordinator) -> None:
    coordinator.errors = {ApiKey.FIND_COORDINATOR: [15], ApiKey.OFFSET_FETCH: [LOADING, 16]}
    assert coordinator.run("reset", "payments", "--to-latest") == 0
    assert coordinator.committed == {("orders", 0): 10, ("orders", 1): 5}


def test_groups_are_deleted_one_by_one(coordinator: Coordinator, capsys: pytest.CaptureFixture[str]) -> None:
    coordinator.errors = {ApiKey.DELETE_GROUPS: [0, NON_EMPTY_GROUP]}
    assert coordinator.run("delete", "payments", "busy", "last") == 2
    assert coordinator.deleted == ["payments", "last"]
    out, err = capsys.readouterr()
    assert out == "group payments is deleted\ngroup last is deleted\n"
    assert err == "dafka: group busy: NON_EMPTY_GROUP, its consumers are running. Stop them first.\n"


@pytest.mark.parametrize(
    ("arguments", "errors", "text"),
    [
        (["reset", "payments"], {}, "where to? Give one of --to-earliest"),
        (["reset", "payments", "--to-latest", "--to-offset", "3"], {}, "where to?"),
        (["reset", "payments", "--to-time", "yesterday"], {}, "write it as 2026-11-20T08:00:00+00:00"),
        (["reset", "other", "--to-latest"], {}, "group other has no offsets. Give --topic."),
        (["reset", "payments", "--topic", "nope", "--to-latest"], {}, "nope: UNKNOWN_TOPIC_OR_PARTITION"),
        (["reset", "payments", "--partition", "7", "--to-latest"], {}, "no partition 7"),
        (["reset", "payments", "--topic", "payments", "--shift", "1"], {}, "has no offset there to shift"),
        (["reset", "payments", "--to-latest"], {ApiKey.OFFSET_COMMIT: [25]}, "Stop them first"),
        (["describe", "nope"], {}, "'dafka groups list' shows those that are there"),
        (["describe", "payments"], {ApiKey.OFFSET_FETCH: [29]}, "TOPIC_AUTHORIZATION_FAILED"),
        (["list"], {ApiKey.LIST_GROUPS: [15]}, "cannot list groups: COORDINATOR_NOT_AVAILABLE. Try again."),
    ],
)  # fmt: skip
def test_a_refusal_names_the_cause_and_the_next_step(
    coordinator: Coordinator,
    arguments: list[str],
    errors: dict[ApiKey, list[int]],
    text: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = dict(coordinator.committed)
    coordinator.errors = errors
    assert coordinator.run(*arguments) == 2
    assert text in capsys.readouterr().err
    assert coordinator.committed == before
