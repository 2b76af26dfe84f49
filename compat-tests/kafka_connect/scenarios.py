"""`python -m kafka_connect.scenarios SCENARIO BOOTSTRAP`: a file goes through Connect into another."""

from __future__ import annotations

import sys

from frameworks.checks import equal, same_but_for_steps_back, same_lines, until
from frameworks.main import Stage, main
from frameworks.security import come_in

from kafka_connect.mirror import mirror
from kafka_connect.pipe import Pipe
from kafka_connect.workers import COMPACTED_SOON, OVER_KILLS, PATIENT, PROMPT_SINK, SHORT_SESSIONS, Cluster

# Connect's defaults for the topics that it keeps its state in.
PARTITIONS = {"config": 1, "offset": 25, "status": 5}
SERVER_KILLS = 3
EXACTLY_ONCE = {"exactly.once.source.support": "enabled"}
# A transaction ends often, so that some is in the middle of one when it is killed.
REQUIRED = {
    "exactly.once.support": "required",
    "transaction.boundary": "interval",
    "transaction.boundary.interval.ms": "200",
}
WITH_A_REBALANCE_SECONDS = 120.0


def file_to_file(stage: Stage) -> None:
    pipe = started(stage, workers=1)
    cluster = pipe.cluster
    check_internal_topics(cluster)
    pipe.append(500)
    pipe.await_all()
    equal(
        pipe.server.configs(pipe.topic)["compression.type"], "lz4", "compression.type of the source's topic"
    )
    equal(
        cluster.ask("GET", f"/connectors/{pipe.sink}/topics"),
        {pipe.sink: {"topics": [pipe.topic]}},
        "topics of the sink",
    )

    cluster.ask("PUT", f"/connectors/{pipe.sink}/pause")
    cluster.await_state(pipe.sink, "PAUSED")
    pipe.append(500)
    until(lambda: len(pipe.server.values(pipe.topic)) == len(pipe.lines), "the lines in the topic")
    same_lines(pipe.written(), pipe.lines[:501], "output while the sink is paused")
    cluster.ask("PUT", f"/connectors/{pipe.sink}/resume")
    pipe.await_all()

    cluster.ask("POST", f"/connectors/{pipe.source}/restart?includeTasks=true")
    cluster.ask("POST", f"/connectors/{pipe.sink}/restart?includeTasks=true")
    pipe.append(500)
    pipe.await_all()
    cluster.await_state(pipe.source, "RUNNING")
    cluster.await_state(pipe.sink, "RUNNING")

    for name in (pipe.source, pipe.sink):
        cluster.ask("DELETE", f"/connectors/{name}")
    until(lambda: cluster.ask("GET", "/connectors") == [], "both to be gone")
    cluster.workers[0].process.stop()
    pipe.check_exact()


def secured(stage: Stage) -> None:
    """Over TLS, with a password: the settings of a client, for worker, producers and consumers."""
    prefixes = ("", "producer.", "consumer.")
    settings = {f"{prefix}{name}": value for prefix in prefixes for name, value in come_in().items()}
    pipe = started(stage, workers=1, **settings)
    pipe.append(500)
    pipe.await_all()
    pipe.cluster.workers[0].process.stop()
    pipe.check_exact()


def offsets(stage: Stage) -> None:
    pipe = started(stage, workers=1)
    cluster = pipe.cluster
    pipe.append(500)
    pipe.await_all()
    for name in (pipe.source, pipe.sink):
        cluster.ask("PUT", f"/connectors/{name}/stop")
        cluster.await_state(name, "STOPPED")
    file = {"filename": str(pipe.input)}
    place = {"kafka_topic": pipe.topic, "kafka_partition": 0}
    # What is committed when a task stops.
    read = [{"partition": file, "offset": {"position": pipe.input.stat().st_size}}]
    written = [{"partition": place, "offset": {"kafka_offset": len(pipe.lines)}}]
    equal(offsets_of(cluster, pipe.source), read, "source's offsets")
    equal(offsets_of(cluster, pipe.sink), written, "sink's offsets")

    # To the middle of both: AlterConsumerGroupOffsets for the sink.
    position = sum(len(line) + 1 for line in pipe.lines[:200])
    alter(cluster, pipe.source, file, {"position": position})
    alter(cluster, pipe.sink, place, {"kafka_offset": 100})
    pipe.forget_output()
    resume(pipe)
    wanted = [*pipe.lines[100:], *pipe.lines[200:]]
    until(lambda: len(pipe.written()) >= len(wanted), "the lines from the new offsets on")
    same_lines(pipe.written(), wanted, "output after the offsets were altered")

    # An offset of null is OffsetDelete for the sink: it begins at the beginning.
    cluster.ask("PUT", f"/connectors/{pipe.sink}/stop")
    cluster.await_state(pipe.sink, "STOPPED")
    alter(cluster, pipe.sink, place, None)
    await_no_offsets(cluster, pipe.sink)
    pipe.forget_output()
    resume(pipe)
    wanted = [*pipe.lines, *pipe.lines[200:]]
    until(lambda: len(pipe.written()) >= len(wanted), "all lines of the topic")
    same_lines(pipe.written(), wanted, "output after the sink's offset was deleted")

    # All of a connector: DeleteGroups for the sink, tombstones for the source.
    for name in (pipe.source, pipe.sink):
        cluster.ask("PUT", f"/connectors/{name}/stop")
        cluster.await_state(name, "STOPPED")
        cluster.ask("DELETE", f"/connectors/{name}/offsets")
        await_no_offsets(cluster, name)
    pipe.forget_output()
    resume(pipe)
    wanted = [*pipe.lines, *pipe.lines[200:], *pipe.lines]
    until(lambda: len(pipe.written()) >= len(wanted), "all lines of the topic, and all of the file")
    same_lines(pipe.written(), wanted, "output after all offsets were deleted")
    cluster.workers[0].process.stop()
    same_lines(pipe.server.values(pipe.topic), wanted, "topic")


def worker_stopped(stage: Stage) -> None:
    pipe = started(stage, workers=2, **PROMPT_SINK)
    cluster = pipe.cluster
    with pipe.appending():
        pipe.await_some()
        first = cluster.worker_of(pipe.source)
        first.process.stop()
        pipe.await_some()
        first.process.start()
        first.await_ready()
        pipe.await_some()
        second = cluster.other(first)
        second.process.stop()
        pipe.await_some()
    pipe.await_all()
    first.process.stop()
    pipe.append(100)
    second.process.start()
    second.await_ready()
    pipe.await_all()
    second.process.stop()
    pipe.check_exact()


def worker_killed(stage: Stage) -> None:
    pipe = started(stage, workers=2, **SHORT_SESSIONS)
    cluster = pipe.cluster
    for name in (pipe.source, pipe.sink):
        with pipe.appending():
            pipe.await_some()
            killed = cluster.worker_of(name)
            killed.process.kill9()
            killed.process.start()
            killed.await_ready()
            pipe.await_some()
        pipe.await_all()
    for worker in cluster.workers:
        worker.process.stop()
    # Either kill may hit both connectors: a step back for each, to the last offset that was committed.
    topic = pipe.server.values(pipe.topic)
    same_but_for_steps_back(topic, pipe.lines, 2, "topic")
    same_but_for_steps_back(pipe.written(), pipe.lines, 4, "output")


def gateway_killed(stage: Stage) -> None:
    pipe = started(stage, workers=1, **PATIENT)
    with pipe.appending():
        for _ in range(SERVER_KILLS):
            pipe.await_some()
            stage.kill_server()
        pipe.await_some()
    pipe.await_all()
    pipe.cluster.workers[0].process.stop()
    pipe.check_exact()


def lasting(stage: Stage) -> None:
    """Two workers; the runner may kill the server meanwhile, which hits neither of them."""
    pipe = started(stage, workers=2, **OVER_KILLS)
    pipe.append_slowly(stage.seconds)
    pipe.await_all()
    for worker in pipe.cluster.workers:
        worker.process.stop()
    pipe.check_exact()


def all_killed(stage: Stage) -> None:
    pipe = started(stage, workers=1, **SHORT_SESSIONS, **COMPACTED_SOON)
    (worker,) = pipe.cluster.workers
    offsets = pipe.cluster.internal["offset"]
    with pipe.appending():
        pipe.await_some()
        until(lambda: pipe.server.is_compacted(offsets), "compaction of the topic of offsets")
        worker.process.kill9()
        stage.kill_server()
        worker.process.start()
        worker.await_ready()
        pipe.await_some()
    pipe.await_all()
    worker.process.stop()
    same_but_for_steps_back(pipe.server.values(pipe.topic), pipe.lines, 1, "topic")
    same_but_for_steps_back(pipe.written(), pipe.lines, 2, "output")


def exactly_once(stage: Stage) -> None:
    """Lines and the source's offset are one transaction: killed in the middle, it goes no step back."""
    cluster = Cluster(stage, 2, **EXACTLY_ONCE, **SHORT_SESSIONS)
    cluster.start()
    pipe = Pipe(stage, cluster)
    pipe.create_source(**REQUIRED)
    pipe.append(1)
    with pipe.appending():
        for _ in range(SERVER_KILLS):
            await_lines(pipe, more_than=len(lines_of(pipe)))
            killed = cluster.worker_of(pipe.source)
            killed.process.kill9()
            killed.process.start()
            await_lines(pipe, more_than=len(lines_of(pipe)))
            stage.kill_server()
            killed.await_ready()
        await_lines(pipe, more_than=len(lines_of(pipe)))
    await_lines(pipe, more_than=len(pipe.lines) - 1)
    for worker in cluster.workers:
        worker.process.stop()
    same_lines(pipe.server.values(pipe.topic), pipe.lines, "topic")


def lines_of(pipe: Pipe) -> list[str]:
    """What is committed in the topic, which the source makes with the first line."""
    return pipe.server.values(pipe.topic) if pipe.topic in pipe.server.topics() else []


def await_lines(pipe: Pipe, more_than: int) -> None:
    until(lambda: len(lines_of(pipe)) > more_than, f"more than {more_than} lines", WITH_A_REBALANCE_SECONDS)


def started(stage: Stage, workers: int, **settings: str) -> Pipe:
    """Both connectors run, and the first line is in the topic."""
    cluster = Cluster(stage, workers, **settings)
    cluster.start()
    pipe = Pipe(stage, cluster)
    pipe.create()
    return pipe


def check_internal_topics(cluster: Cluster) -> None:
    """Connect makes them itself, and refuses to start where they are not compacted."""
    server = cluster.server
    there = server.topics()
    for what, topic in cluster.internal.items():
        equal(there.get(topic), PARTITIONS[what], f"partitions of {topic}")
        equal(server.configs(topic)["cleanup.policy"], "compact", f"cleanup.policy of {topic}")


def offsets_of(cluster: Cluster, name: str) -> object:
    return cluster.ask("GET", f"/connectors/{name}/offsets")["offsets"]


def await_no_offsets(cluster: Cluster, name: str) -> None:
    """The worker shows a source's offsets as its topic was when it looked last."""
    until(lambda: offsets_of(cluster, name) == [], f"offsets of {name} to be gone")


def alter(cluster: Cluster, name: str, partition: object, offset: object) -> None:
    cluster.ask(
        "PATCH", f"/connectors/{name}/offsets", {"offsets": [{"partition": partition, "offset": offset}]}
    )


def resume(pipe: Pipe) -> None:
    for name in (pipe.source, pipe.sink):
        pipe.cluster.ask("PUT", f"/connectors/{name}/resume")
        pipe.cluster.await_state(name, "RUNNING")


SCENARIOS = {
    "file-to-file": file_to_file,
    "secured": secured,
    "offsets": offsets,
    "worker-stopped": worker_stopped,
    "worker-killed": worker_killed,
    "gateway-killed": gateway_killed,
    "all-killed": all_killed,
    "mirror": mirror,
    "exactly-once": exactly_once,
    "lasting": lasting,
}

if __name__ == "__main__":
    sys.exit(main(SCENARIOS))
