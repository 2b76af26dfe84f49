"""Groups: commits, rebalances, and what it costs a producer that many groups heartbeat."""

import statistics
from collections.abc import Iterator

from tests.bench import clients
from tests.bench.measurement import Context, Figure, Measurement
from tests.bench.wire import messages
from tests.bench.wire.connection import Connection
from tests.bench.wire.groups import Group, Member, await_coordinator, form
from tests.bench.wire.heartbeats import formed, heartbeating
from tests.bench.wire.load import Lane, measure
from wireproto.kafka.api_keys import ApiKey

MEMBERS = 3

# So many groups commit, each member with so many commits in flight: a few busy jobs, and many.
COMMITTING_GROUPS = (10, 100)
COMMITS_IN_FLIGHT = 5
COMMITS_TO_WARM_UP = 20_000
JAVA_WARM_UP_SECONDS = 4.0
COMMIT_SECONDS = 3.0
# One commit is of this offset, the next of another one: nothing is gained by remembering the last one.
COMMITTED_OFFSETS = range(1_000_000, 1_000_064)
JAVA_GROUPS = 4

REBALANCING_MEMBERS = 50
REBALANCES_TO_WARM_UP = 20
REBALANCES = 20
# JoinGroup, SyncGroup and a heartbeat of each member, with the newcomer and again without it.
REQUESTS_OF_A_REBALANCE = 2 * 3 * REBALANCING_MEMBERS
JAVA_REBALANCES_TO_WARM_UP = 3
JAVA_REBALANCES = 9
# Kafka's default of three seconds would be most of the time, on both sides.
JAVA_HEARTBEAT_MS = 100

GROUPS_BESIDE = 1_000
PASSES = 3
RECORDS_BESIDE = 4_000
WARM_UP_BESIDE = 8_000


def commits(context: Context) -> Iterator[Measurement]:
    clients.create_topic(context.bootstrap, "commits", MEMBERS)
    for count in COMMITTING_GROUPS:
        groups = formed(context.bootstrap, "commits", count, MEMBERS, prefix=f"commits-{count}")
        lanes = [_committing(group, index) for group in groups for index in range(MEMBERS)]
        rate = measure(
            context.server,
            lanes,
            in_flight=COMMITS_IN_FLIGHT,
            warm_up=context.scaled(COMMITS_TO_WARM_UP),
            seconds=context.seconds(COMMIT_SECONDS),
        )
        for lane in lanes:
            lane.socket.close()
        yield Measurement(f"commits of {count} groups of {MEMBERS}", "1/s", rate.per_second, True, rate.cost)
    warm_up, seconds = context.seconds(JAVA_WARM_UP_SECONDS), context.seconds(COMMIT_SECONDS)
    java = clients.java_commits(
        context.bootstrap,
        "commits",
        groups=JAVA_GROUPS,
        members=MEMBERS,
        in_flight=COMMITS_IN_FLIGHT,
        warm_up=warm_up,
        seconds=seconds,
    )
    yield Measurement(f"commits of {JAVA_GROUPS} groups of {MEMBERS}, Java", "1/s", java, True)


def _committing(group: Group, index: int) -> Lane:
    member = group.members[index]
    requests = [member.commit(group.topic, {index: offset}) for offset in COMMITTED_OFFSETS]
    answer = member.connection.ask(requests[0])
    values = messages.decoded(ApiKey.OFFSET_COMMIT, messages.OFFSET_COMMIT_VERSION, answer)
    assert [found["error_code"] for found in values["topics"][0]["partitions"]] == [0], values
    return Lane(member.connection.socket, requests, answer)


def rebalance(context: Context) -> Iterator[Measurement]:
    topic = "rebalance"
    clients.create_topic(context.bootstrap, topic, REBALANCING_MEMBERS)
    await_coordinator(context.bootstrap, topic)
    members = [Member(Connection(context.bootstrap), topic, topic) for _ in range(REBALANCING_MEMBERS)]
    group = Group(topic, topic, members[:-1])
    form([group])
    newcomer = members[-1]
    milliseconds = []
    with context.used() as used:
        for _ in range(context.times(REBALANCES_TO_WARM_UP + REBALANCES)):
            milliseconds.append(group.rebalance(newcomer) * 1e3)
            newcomer = Member(group.dismiss().connection, topic, topic)
    # Each time there are two generations: with the newcomer, and without it again.
    cost = used.per_request(REQUESTS_OF_A_REBALANCE * len(milliseconds))
    for member in members:
        member.connection.close()
    median = statistics.median(milliseconds[len(milliseconds) // 2 :])
    yield Measurement(f"rebalance of {REBALANCING_MEMBERS} members", "ms", median, False, cost)
    java = clients.java_rebalance(
        context.bootstrap,
        topic,
        members=REBALANCING_MEMBERS,
        heartbeat_ms=JAVA_HEARTBEAT_MS,
        warm_up=context.times(JAVA_REBALANCES_TO_WARM_UP),
        times=context.times(JAVA_REBALANCES),
    )
    yield Measurement(f"rebalance of {REBALANCING_MEMBERS} Java consumers", "ms", java, False)


def produce_beside_groups(context: Context) -> Iterator[Measurement]:
    clients.create_topic(context.bootstrap, "beside", MEMBERS)
    groups = context.times(GROUPS_BESIDE)
    alone, beside = [], []
    with (
        heartbeating(context.bootstrap, "beside", groups, MEMBERS) as heartbeats,
        clients.latency_passes(
            context.server,
            "beside",
            warm_up=context.scaled(WARM_UP_BESIDE),
            records=context.scaled(RECORDS_BESIDE),
        ) as one_pass,
    ):
        for _ in range(PASSES):
            alone.append(one_pass())
            with heartbeats.on():
                beside.append(one_pass())
    for name in ("p50", "p99"):
        with_groups = statistics.median(getattr(found, name) for found in beside)
        without = statistics.median(getattr(found, name) for found in alone)
        what = f"produce {name} beside {groups:,} groups"
        yield Measurement(what, "us", with_groups, False)
        yield Measurement(f"{what}, growth", "x", with_groups / without, False)


FIGURES = {
    "rebalance-50": Figure(rebalance),
    "commits": Figure(commits),
    "produce-beside-groups": Figure(produce_beside_groups),
}
