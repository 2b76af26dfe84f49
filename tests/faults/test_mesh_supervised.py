"""Several gateways of one machine, started and kept running by one process that has their catalog."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient, TopicPartition

from tests.faults.several_gateways import PARTITIONS, SECONDS, TOPIC, Sender, clients_of, create, read
from tests.peers.process import ServerEnded
from tests.peers.supervised import Supervised

USAGE, DATA_REFUSED = 2, 3

pytestmark = pytest.mark.slow


class Three(Supervised):
    """Gateways and stores, three of each."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        super().__init__(directory, 3, 3, *arguments)

    @property
    def clients(self) -> dict[str, str]:
        return clients_of(self.bootstrap)

    def leaders(self, at: int = 0) -> list[int]:
        admin = AdminClient({"bootstrap.servers": self.addresses[at]})
        told = admin.list_topics(TOPIC, timeout=SECONDS).topics[TOPIC].partitions
        return [told[index].leader for index in sorted(told)]

    def ask(self, *arguments: str) -> subprocess.Popen[str]:
        """An operator's command about gateways, asked of the first one."""
        command = [
            sys.executable,
            "-m",
            "dafka",
            "gateways",
            *arguments,
            "--data",
            str(self.data / "gateway-1"),
        ]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def list_gateways(self) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = json.loads(self.ask("list", "--json").communicate(timeout=SECONDS)[0])
        return listed

    def wait_until_even(self, at: int = 0) -> None:
        deadline = time.monotonic() + SECONDS
        while sorted(self.leaders(at).count(number) for number in (1, 2, 3)) != [PARTITIONS // 3] * 3:
            assert time.monotonic() < deadline, self.leaders(at)
            time.sleep(0.1)


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Three]:
    made = Three(tmp_path)
    try:
        made.start()
        create(made.bootstrap, TOPIC, PARTITIONS)
        yield made
    finally:
        made.kill9()
        made.wait_until_all_are_gone()


def test_each_process_is_killed_under_load_and_started_again(three: Three) -> None:
    """Also one that is stopped: it has lost its place when it goes on, and is started again."""
    three.wait_until_even()
    addresses = three.addresses
    sender = Sender(three)
    sender.send_until_all_partitions_acknowledge()
    for name in ("gateway-1", "store-2", "gateway-2", "tower", "gateway-3", "store-1"):
        three.kill(name)
        sender.send_until_all_partitions_acknowledge()
        three.wait_until_it_serves_again(name)
    three.kill("gateway-2", signal.SIGSTOP)
    # What was under way when it was stopped may be acknowledged still: its place is lost later.
    sender.send_until(lambda: 2 not in three.leaders())
    sender.send_until_all_partitions_acknowledge()
    three.kill("gateway-2", signal.SIGCONT)
    three.wait_until_it_serves_again("gateway-2", 2)
    three.wait_until_even(at=1)
    sender.send_until_all_partitions_acknowledge()
    sender.finish(three)
    assert three.addresses == addresses
    everything = sum(map(len, sender.sent.values()))
    assert read(three, everything, **{"group.id": "readers"}) == sender.sent


def test_all_end_in_order_and_go_on_with_the_same_data(three: Three) -> None:
    sender = Sender(three)
    sender.send_until_all_partitions_acknowledge()
    sender.finish(three)
    assert three.terminate() == 0
    three.wait_until_all_are_gone()
    assert not three.port_file.exists()
    three.start()
    assert read(three, sum(map(len, sender.sent.values()))) == sender.sent


def test_an_operator_drains_one_under_load_and_not_for_good(three: Three) -> None:
    three.wait_until_even()
    sender = Sender(three)
    sender.send_until_all_partitions_acknowledge()
    drain = three.ask("drain", "2", "--wait", "60")
    sender.send_until(lambda: drain.poll() is not None)
    assert (drain.returncode, drain.communicate()[0]) == (0, "gateway 2 leads nothing\n")
    assert 2 not in three.leaders()
    states = {one["id"]: (one["state"], one["partitions"]) for one in three.list_gateways()}
    assert states == {1: ("serves", PARTITIONS // 2), 2: ("drained", 0), 3: ("serves", PARTITIONS // 2)}
    sender.send_until_all_partitions_acknowledge()
    refused = three.ask("remove", "2")
    assert "gateway 2 is alive: stop it first" in refused.communicate(timeout=SECONDS)[1]
    assert refused.returncode == USAGE
    assert three.ask("drain", "2", "--stop").communicate(timeout=SECONDS)[1] == ""
    three.wait_until_even()
    sender.send_until_all_partitions_acknowledge()
    sender.finish(three)


def test_partitions_are_moved_by_hand_under_load_and_back_after_a_kill(three: Three) -> None:
    three.wait_until_even()
    sender = Sender(three)
    sender.send_until_all_partitions_acknowledge()
    admin = KafkaAdminClient(bootstrap_servers=three.addresses[0])
    everything = {TopicPartition(TOPIC, index): [2] for index in range(PARTITIONS)}
    assert admin.alter_partition_reassignments(everything) == dict.fromkeys(everything)
    sender.send_until(lambda: set(three.leaders()) == {2})
    assert admin.list_partition_reassignments() == {}
    sender.send_until_all_partitions_acknowledge()
    three.kill("gateway-2")
    sender.send_until(lambda: 2 not in three.leaders())
    three.wait_until_it_serves_again("gateway-2")
    sender.send_until(lambda: set(three.leaders()) == {2})
    shared = three.ask("share", TOPIC).communicate(timeout=SECONDS)
    assert shared == (f"{PARTITIONS} partitions of {TOPIC} are shared evenly again\n", "")
    three.wait_until_even()
    sender.send_until_all_partitions_acknowledge()
    admin.close()
    sender.finish(three)


def test_none_is_left_when_the_one_that_has_started_them_is_killed(three: Three) -> None:
    sender = Sender(three)
    sender.send_until_all_partitions_acknowledge()
    sender.finish(three)
    three.kill9()
    three.wait_until_all_are_gone()
    three.port_file.unlink()
    three.start()
    assert read(three, sum(map(len, sender.sent.values()))) == sender.sent


def test_one_that_cannot_start_ends_all_with_its_reason(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        three = Three(tmp_path)
        three.listen = f"127.0.0.1:{port - 1}"
        with pytest.raises(ServerEnded):
            three.start()
    assert three.returncode == USAGE
    last = three.log.splitlines()[-1]
    assert last.startswith("dafka: gateway-")
    assert "before it served: dafka: cannot listen on 127.0.0.1:" in last
    three.wait_until_all_are_gone()


def test_data_of_the_other_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data" / "gateway").mkdir(parents=True)
    three = Three(tmp_path)
    with pytest.raises(ServerEnded):
        three.start()
    assert three.returncode == DATA_REFUSED
    assert "it has the data of one process" in three.log
