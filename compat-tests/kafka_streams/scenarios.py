"""`python -m kafka_streams.scenarios SCENARIO BOOTSTRAP`: words are counted while processes die."""

from __future__ import annotations

import sys

from frameworks.checks import equal, until
from frameworks.main import Stage, main
from frameworks.security import come_in

from kafka_streams.app import COMPACTED_SOON, PARTITIONS, TASKS, App, await_tasks, tasks

CHANGELOGS = ("counts-changelog", "places-changelog", "windows-changelog")
SERVER_KILLS = 3
# Who is gone is missed soon.
SHORT_SESSION = "consumer.session.timeout.ms=6000"
# Longer than the server is away: nobody joins the group again.
LONG_SESSION = "consumer.session.timeout.ms=45000"
EXACTLY_ONCE = "processing.guarantee=exactly_once_v2"


def word_count(stage: Stage) -> None:
    app = App(stage)
    instance = app.instance("only", SHORT_SESSION)
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


def secured(stage: Stage) -> None:
    """Over TLS, with a password: the settings of a client, once."""
    app = App(stage)
    instance = app.instance("only", *(f"{name}={value}" for name, value in come_in().items()))
    instance.start()
    app.write(300)
    app.await_all()
    instance.stop()
    app.check_exact()


def instance_killed(stage: Stage) -> None:
    app = App(stage)
    instance = app.instance("only", *COMPACTED_SOON)
    instance.start()
    app.write(100)
    app.await_all()
    for forget in (False, True):
        with app.writing():
            app.await_some_results()
            if forget:
                until(lambda: all(map(app.is_compacted, CHANGELOGS)), "compaction of the changelogs")
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


def standby_takes_over(stage: Stage) -> None:
    app = App(stage)
    settings = ("num.standby.replicas=1", SHORT_SESSION)
    first, second = (app.instance(name, *settings) for name in ("first", "second"))
    first.start()
    second.start()
    with app.writing():
        await_tasks(len(TASKS) // 2, first, second)
        app.await_some_results()
        second.kill9()
        await_tasks(len(TASKS), first)
        app.await_some_results()
        app.forget_state("second")
        second.start()
        await_tasks(len(TASKS) // 2, first, second)
        app.await_some_results()
    app.await_all()
    second.stop()
    first.stop()
    app.check_at_least()


def reset(stage: Stage) -> None:
    app = App(stage)
    instance = app.instance("only")
    instance.start()
    app.write(200)
    app.await_all()
    instance.stop()
    app.reset()
    equal(app.internal_topics(), set(), "internal topics after the reset")
    app.forget_state("only")
    app.write(100)
    instance.start()
    app.await_all()
    instance.stop()
    app.check_exact()


def gateway_killed(stage: Stage) -> None:
    app = App(stage)
    instance = app.instance("only", LONG_SESSION)
    instance.start()
    app.write(100)
    app.await_all()
    with app.writing():
        for _ in range(SERVER_KILLS):
            app.await_some_results()
            stage.kill_server()
        app.await_some_results()
    app.await_all()
    equal(tasks(instance), TASKS, "tasks of the only instance")
    instance.stop()
    app.check_exact()


def exactly_once(stage: Stage) -> None:
    """Words, join and windows as without a kill, where at-least-once would count some again."""
    app = App(stage)
    instance = app.instance("only", EXACTLY_ONCE, SHORT_SESSION)
    instance.start()
    app.write(100)
    app.await_all()
    with app.writing():
        for _ in range(SERVER_KILLS):
            app.await_some_results()
            instance.kill9()
            instance.start()
            app.await_some_results()
            stage.kill_server()
        app.await_some_results()
    app.await_all()
    instance.stop()
    app.check_exact()


def lasting(stage: Stage) -> None:
    """Two instances; the runner may kill the server meanwhile, which hits neither of them."""
    app = App(stage)
    first, second = (app.instance(name, LONG_SESSION) for name in ("first", "second"))
    first.start()
    second.start()
    await_tasks(len(TASKS) // 2, first, second)
    app.write_slowly(stage.seconds)
    app.await_all()
    second.stop()
    first.stop()
    app.check_exact()


def check_internal_topics(app: App) -> None:
    """Streams makes them itself, with configs of its own."""
    policies = {
        "counts-changelog": {"compact"},
        "places-changelog": {"compact"},
        "windows-changelog": {"compact", "delete"},
        "by-word-repartition": {"delete"},
    }
    there = app.server.topics()
    equal(app.internal_topics(), {app.internal(name) for name in policies}, "internal topics")
    for name, policy in policies.items():
        equal(there[app.internal(name)], PARTITIONS, f"partitions of {name}")
        configs = app.server.configs(app.internal(name))
        equal(set(configs["cleanup.policy"].split(",")), policy, f"cleanup.policy of {name}")
        equal(configs["message.timestamp.type"], "CreateTime", f"message.timestamp.type of {name}")
    repartition = app.server.configs(app.internal("by-word-repartition"))
    equal(repartition["retention.ms"], "-1", "retention.ms of the repartition topic")


SCENARIOS = {
    "word-count": word_count,
    "secured": secured,
    "instance-killed": instance_killed,
    "instances-share": instances_share,
    "standby-takes-over": standby_takes_over,
    "reset": reset,
    "gateway-killed": gateway_killed,
    "exactly-once": exactly_once,
    "lasting": lasting,
}

if __name__ == "__main__":
    sys.exit(main(SCENARIOS))
