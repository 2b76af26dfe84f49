"""The command as its users have it: killed by SIGKILL with its JVM and tasks, told to stop, on executors."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dafka_pipeline.kafka.cluster import Cluster
from dafka_pipeline.kafka.options import KafkaOptions
from dafka_pipeline.producing.plan import AUTO, NO
from tests.clients.sample import small_records
from tests.clients.stored import put
from tests.pipelines.archiving import archive_once
from tests.pipelines.processes import Pipeline, die, run
from tests.pipelines.replaying import assert_replayed
from tests.pipelines.test_replay_restarts import await_end

pytestmark = [pytest.mark.slow, pytest.mark.matrix]
RECORDS = 300
CLUSTER = "local-cluster[2,1,1024]"


@pytest.fixture
def source(spark: SparkSession, bootstrap: str, new_topic: Callable[..., str], tmp_path: Path) -> str:
    topic = new_topic(2)
    for partition in (0, 1):
        put(bootstrap, topic, small_records(RECORDS, str(partition)), partition=partition)
    archive_once(spark, bootstrap, tmp_path / "a", topic)
    return topic


def command(bootstrap: str, folder: Path, source: str, *more: str) -> list[str]:
    return [
        *("replay", str(folder / "a"), "--topics", source, "--to-prefix", "again-", "--id", "r"),
        *("--bootstrap", bootstrap, "--delivery-timeout", "4", "--create", "--json", *more),
    ]


@pytest.mark.parametrize(
    "place",
    [
        pytest.param("replay-created", marks=pytest.mark.long),
        pytest.param("publish-leased", marks=pytest.mark.long),
        "publish-sent",
    ],
)
def test_killed_with_all_it_started(bootstrap: str, source: str, tmp_path: Path, place: str) -> None:
    """The same command again goes on."""
    call = command(bootstrap, tmp_path, source)
    die(tmp_path, *call, at=place)
    said = run(tmp_path, *call)
    result = json.loads([line for line in said.splitlines() if '"result"' in line][-1])
    assert result["equal"] is True
    assert_replayed(bootstrap, "r", source, f"again-{source}", 2)


@pytest.mark.long
def test_killed_in_the_middle_of_a_round(bootstrap: str, source: str, tmp_path: Path) -> None:
    """While its tasks send."""
    target = f"again-{source}"
    call = command(bootstrap, tmp_path, source)
    with Pipeline(tmp_path, *call, "--rate", "100") as killed:
        await_topic(bootstrap, target)
        await_end(bootstrap, target, 30)
        killed.kill9()
    run(tmp_path, *call)
    assert_replayed(bootstrap, "r", source, target, 2)


@pytest.mark.long
def test_told_to_stop(bootstrap: str, source: str, tmp_path: Path) -> None:
    """SIGTERM ends it when its round has ended, not as a success; the same command goes on without
    waiting."""
    target = f"again-{source}"
    call = command(bootstrap, tmp_path, source)
    with Pipeline(tmp_path, *call, "--rate", "30") as stopped:
        await_topic(bootstrap, target)
        await_end(bootstrap, target, 30)
        stopped.terminate()
        assert "start the same command again" in stopped.end(4)
    said = run(tmp_path, *call)
    assert "waiting" not in said
    assert_replayed(bootstrap, "r", source, target, 2)


@pytest.mark.long
@pytest.mark.parametrize("transactions", [AUTO, NO])
def test_an_executor_dies(bootstrap: str, source: str, tmp_path: Path, transactions: str) -> None:
    """On two executors; the one that is killed has sent a part of its records. In transactions Spark starts
    its task again, as that ends what the first one had open; without them a next round goes on.
    """
    target = f"again-{source}"
    more = ("--rate", "100", "--transactions", transactions)
    with Pipeline(tmp_path, *command(bootstrap, tmp_path, source, *more), master=CLUSTER) as call:
        await_topic(bootstrap, target)
        await_end(bootstrap, target, 30)
        executor = executors(call.pid)[0]
        os.kill(executor, signal.SIGKILL)
        said = call.end(0)
    assert ("A round of sending failed" in said) == (transactions == NO)
    assert_replayed(bootstrap, "r", source, target, 2)


def executors(group: int) -> list[int]:
    """Spark's executors in a process group."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                same = os.getpgid(int(folder.name)) == group
                text = (folder / "cmdline").read_text()
            except (OSError, ProcessLookupError):
                continue
            if same and "CoarseGrainedExecutorBackend" in text:
                found.append(int(folder.name))
    return found


def await_topic(bootstrap: str, topic: str) -> None:
    cluster = Cluster(KafkaOptions(bootstrap))
    deadline = time.monotonic() + 120
    while topic not in cluster.topics([topic]):
        assert time.monotonic() < deadline
        time.sleep(0.2)
