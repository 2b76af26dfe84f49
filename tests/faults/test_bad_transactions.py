"""Transactional producers that are ill meant: little memory, no harm, and answers that say how to go on."""

from __future__ import annotations

import time
from typing import Any

import pytest
from kafka.protocol.admin import DescribeTransactionsRequest, ListTransactionsRequest

from gateway.transactions.adding import MAX_TRANSACTION_PARTITIONS
from tests.differential.side import OF_TRANSACTIONS, await_coordinator, await_transactions
from tests.differential.transactional import add_offsets, add_partitions, end, init
from tests.differential.wire import Connection, decode, encode
from tests.faults.victim import MIB, Victim

NO_ERROR, FENCED, MAPPING, WRONG_STATE, POLICY_VIOLATION, NOT_FOUND = 0, 90, 49, 48, 44, 105


@pytest.fixture
def connection(victim: Victim) -> Any:
    """The ids are served, all of them: a coordinator that is found may still read its log."""
    with victim.connect() as made:
        await_coordinator(made, OF_TRANSACTIONS)
        await_transactions(made)
        yield made


def begun(connection: Connection, name: str) -> tuple[int, int]:
    answer = connection.ask(init(name))
    assert answer.error_code == NO_ERROR
    return answer.producer_id, answer.producer_epoch


def describe(connection: Connection, *names: str) -> list[Any]:
    answer = connection.ask(DescribeTransactionsRequest(version=0, transactional_ids=list(names)))
    return list(answer.transaction_states)


def test_very_many_transactional_ids(victim: Victim, connection: Connection) -> None:
    """Each is remembered, in some kilobytes; long names as well."""
    with victim.bounded(64 * MIB):
        for batch in range(20):
            requests = [init(f"many-{batch}-{number}") for number in range(200)]
            connection.send(b"".join(encode(one) for one in requests))
            for request in requests:
                answer = connection.receive()
                assert answer is not None
                assert decode(request.API_KEY, 4, answer).error_code == NO_ERROR
        assert connection.ask(init("x" * 32_767)).error_code == NO_ERROR
        assert [one.error_code for one in describe(connection, "x" * 32_767, "many-7-7")] == [NO_ERROR] * 2


def test_a_transaction_of_very_many_partitions(victim: Victim, connection: Connection) -> None:
    """It may have so many and no more, each is named once however often it is asked for, and it ends."""
    topics = [victim.new_topic(partitions=4_000) for _ in range(3)]
    pid, epoch = begun(connection, "wide")
    with victim.bounded(256 * MIB):
        codes = []
        for topic in topics:
            answer = connection.ask(add_partitions("wide", pid, epoch, {topic: range(4_000)}))
            (found,) = answer.results_by_topic_v3_and_below
            codes.append({one.partition_error_code for one in found.results_by_partition})
        assert 2 * 4_000 < MAX_TRANSACTION_PARTITIONS < 3 * 4_000
        assert codes == [{NO_ERROR}, {NO_ERROR}, {POLICY_VIOLATION}]
        states = describe(connection, *["wide"] * 100)
        assert {one.error_code for one in states} == {NO_ERROR, POLICY_VIOLATION}
        assert connection.ask(end("wide", pid, epoch, commit=False)).error_code == NO_ERROR
        deadline = time.monotonic() + 60
        while describe(connection, "wide")[0].transaction_state != "CompleteAbort":
            assert time.monotonic() < deadline
            time.sleep(0.2)


def test_who_has_no_transaction_changes_nothing(victim: Victim, connection: Connection) -> None:
    topic = victim.new_topic()
    with victim.bounded(32 * MIB):
        pid, epoch = begun(connection, "mine")
        for name, producer_id, producer_epoch, error in (
            ("nobody", pid, epoch, MAPPING),
            ("mine", pid + 1, epoch, MAPPING),
            ("mine", -1, epoch, MAPPING),
            ("mine", pid, epoch + 1, FENCED),
            ("mine", pid, -1, FENCED),
            ("mine", pid, 32_767, FENCED),
        ):
            asked = connection.ask(add_partitions(name, producer_id, producer_epoch, {topic: [0]}))
            (found,) = asked.results_by_topic_v3_and_below
            assert [one.partition_error_code for one in found.results_by_partition] == [error]
            assert connection.ask(add_offsets(name, producer_id, producer_epoch, "g")).error_code == error
            assert connection.ask(end(name, producer_id, producer_epoch)).error_code == error
        assert connection.ask(end("mine", pid, epoch)).error_code == WRONG_STATE
        (state, unknown) = describe(connection, "mine", "nobody")
        assert (state.transaction_state, state.producer_id, state.producer_epoch) == ("Empty", pid, epoch)
        assert unknown.error_code == NOT_FOUND


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|aa)+b", "(a*)*b", "(x?){30}(a?){30}b"])
def test_patterns_that_take_for_ever(victim: Victim, connection: Connection, pattern: str) -> None:
    """They would with Python's own regular expressions."""
    with victim.bounded(32 * MIB):
        begun(connection, "a" * 1_000)
        request = ListTransactionsRequest(
            version=2, state_filters=[], producer_id_filters=[], transactional_id_pattern=pattern
        )
        answer = connection.ask(request)
        assert (answer.error_code, answer.transaction_states) == (NO_ERROR, [])
