"""`python -m kafka_streams.scenarios SCENARIO BOOTSTRAP`: words are counted while processes die."""

from __future__ import annotations

import sys

from frameworks.checks import equal, until
from frameworks.main import Stage, main

from kafka_streams.app import PARTITIONS, TASKS, App, await_tasks, tasks


def word_count(stage: Stage) -> None:
    app = App(stage)
    instance = app.instance("only")
    instance.start()
    app.write(300)
    app.await_all()
    check_internal_topics(app)
    instance.stop()
    app.check_exact()
    app.write(100)
    instance.start()
    app.await_all()
    app.write(100)
    app.await_all()
    repartition = app.internal("by-word-repartition")
    until(
        lambda: all(start > 0 for start, _ in app.server.bounds(repartition)),
        "DeleteRecords of what was read",
    )
    instance.stop()
    app.check_exact()


def instance_killed(stage: Stage) -> None:
    app = App(stage)
    instance = app.instance("only")
    instance.start()
    app.write(100)
    app.await_all()
    for forget in (False, True):
        with app.writing():
            app.await_some_results()
            instance.kill9()
            if forget:
                app.forget_state("only")
            instance.start()
            app.await_some_results()
        app.await_all()
    instance.stop()
    app.check_at_least()


def instances_share(stage: Stage) -> None:
    app = App(stage)
    first, second = app.instance("first"), app.instance("second")
    first.start()
    app.write(100)
    await_tasks(len(TASKS), first)
    with app.writing():
        app.await_some_results()
        second.start()
        await_tasks(len(TASKS) // 2, first, second)
        app.await_some_results()
    app.await_all()
    with app.writing():
        second.stop()
        await_tasks(len(TASKS), first)
        app.await_some_results()
    app.await_all()
    first.stop()
    app.check_exact()


def gateway_killed(stage: Stage) -> None:
    app = App(stage)
    instance = app.instance("only")
    instance.start()
    app.write(100)
    app.await_all()
    with app.writing():
        app.await_some_results()
        stage.kill_server()
        app.await_some_results()
    app.await_all()
    equal(tasks(instance), TASKS, "tasks of the only instance")
    instance.stop()
    app.check_at_least()


def check_internal_topics(app: App) -> None:
    """Streams makes them itself, with configs of its own."""
    policies = {
        "counts-changelog": {"compact"},
        "places-changelog": {"compact"},
        "windows-changelog": {"compact", "delete"},
        "by-word-repartition": {"delete"},
    }
    there = app.server.topics()
    internal = {name for name in there if name.startswith(f"{app.id}-")}
    equal(internal, {app.internal(name) for name in policies}, "internal topics")
    for name, policy in policies.items():
        equal(there[app.internal(name)], PARTITIONS, f"partitions of {name}")
        configs = app.server.configs(app.internal(name))
        equal(set(configs["cleanup.policy"].split(",")), policy, f"cleanup.policy of {name}")
        equal(configs["message.timestamp.type"], "CreateTime", f"message.timestamp.type of {name}")
    repartition = app.server.configs(app.internal("by-word-repartition"))
    equal(repartition["retention.ms"], "-1", "retention.ms of the repartition topic")


SCENARIOS = {
    "word-count": word_count,
    "instance-killed": instance_killed,
    "instances-share": instances_share,
    "gateway-killed": gateway_killed,
}

if __name__ == "__main__":
    sys.exit(main(SCENARIOS))
