"""kcat, a program and no library: its command line is given what the other clients are told by calls.

It has no admin but listing, so topics with several partitions or with configs are made with confluent-kafka.
"""

from __future__ import annotations

import sys
import traceback
import uuid
from collections.abc import Callable
from contextlib import ExitStack, closing

from kcat import security, transactions
from kcat.members import Member
from kcat.program import Kcat, NotInKcat
from python_client.checks import equal, until

NOT_IN_CLIENT_STATUS = 77
PARTITIONS = 6
MANY = 5000
T0 = 1_700_000_000_000


def lines(count: int, label: str = "value") -> list[str]:
    """Keys and values that differ and compress, in kcat's form KEY:VALUE."""
    return [f"key {n}:{f'{label} {n:06d} ' * 10}" for n in range(count)]


def codec(kcat: Kcat, name: str) -> None:
    topic = fresh("codec")
    records = lines(500)
    kcat.produce(topic, records, "-z", name, "-X", "linger.ms=50")
    equal(kcat.read(topic), records, "records")
    print(f"check-codec {topic} {name}", flush=True)


def headers(kcat: Kcat) -> None:
    topic = fresh("headers")
    kcat.produce(topic, ["k:none"])
    kcat.produce(topic, ["k:some"], "-H", "b=2", "-H", "a=1", "-H", "b=3", "-H", "empty=")
    kcat.produce(topic, ["k:one"], "-H", "\u00e9\u4e16=\u00e9")
    found = kcat.read(topic, form="%s %h\n")
    equal(found, ["none ", "some b=2,a=1,b=3,empty=", "one \u00e9\u4e16=\u00e9"], "values and headers")


def empty_values(kcat: Kcat) -> None:
    """An empty value is null with -Z; without it, empty. Lengths tell them apart: -1 is null."""
    topic = fresh("empty")
    kcat.produce(topic, ["k:v", "k:", ":v"], "-Z")
    kcat.produce(topic, ["k:", ":v"])
    wanted = ["1 k 1 v", "1 k -1 ", "-1  1 v", "1 k 0 ", "0  1 v"]
    equal(kcat.read(topic, form="%K %k %S %s\n"), wanted, "lengths and contents")


def batches(kcat: Kcat) -> None:
    topic = fresh("batches")
    records = lines(MANY)
    kcat.produce(topic, records, "-X", "linger.ms=20")
    equal(kcat.read(topic), records, "records")


def single_records(kcat: Kcat) -> None:
    topic = fresh("single")
    records = lines(10)
    for record in records:
        kcat.produce(topic, [record])
    equal(kcat.read(topic), records, "records")


def large_messages(kcat: Kcat) -> None:
    topic = fresh("large")
    room = ("-X", "message.max.bytes=4000000")
    records = ["k:small", "k:" + "0123456789" * 100_000, "k:after"]
    kcat.produce(topic, records[:2], *room)
    refused = kcat.run("-P", "-t", topic, *room, stdin="x" * 2_000_000, check=False)
    assert "Message size too large" in refused.stderr, refused.stderr
    kcat.produce(topic, records[2:])
    equal(kcat.read(topic), records, "records")


def idempotence(kcat: Kcat) -> None:
    topic = fresh("idempotence")
    records = lines(2000)
    kcat.produce(topic, records, "-X", "enable.idempotence=true", "-X", "linger.ms=1")
    equal(kcat.read(topic, form="%o %k:%s\n"), [f"{n} {r}" for n, r in enumerate(records)], "records")


def seek(kcat: Kcat) -> None:
    topic = fresh("seek")
    records = lines(100)
    kcat.produce(topic, records)
    for start, first in (("42", 42), ("-7", 93), ("beginning", 0), ("end", 100)):
        equal(kcat.read(topic, "-o", start), records[first:], f"records from {start}")


def timestamps(kcat: Kcat) -> None:
    """kcat gives no times to records: they have those of its clock, and it finds offsets by them."""
    topic = fresh("timestamps")
    for record in lines(3):
        kcat.produce(topic, [record])
    times = [int(time) for time in kcat.read(topic, form="%T\n")]
    equal(sorted(times), times, "times in order")
    assert min(times) > T0, times
    for offset, time in enumerate(times):
        found = kcat.run("-Q", "-t", f"{topic}:0:{time}").stdout
        first = times.index(time)
        equal(found, f"{topic} [0] offset {first}\n", f"offset at the time of record {offset}")
        equal(kcat.read(topic, "-o", f"s@{time}"), lines(3)[first:], f"records from {time} on")


def commits(kcat: Kcat) -> None:
    """A member that reads so many, commits as it leaves, and another that goes on."""
    topic, group = fresh("commits"), fresh("group")
    records = lines(100)
    kcat.produce(topic, records)
    settings = ("-X", "auto.offset.reset=earliest", "-X", "enable.auto.offset.store=true")
    for first, count in ((0, 50), (50, 50)):
        found = kcat.member(group, topic, *settings, "-c", str(count))
        equal(found, records[first : first + count], f"records from {first} on")
    more = lines(10, "more")
    kcat.produce(topic, more)
    equal(kcat.member(group, topic, *settings, "-c", "10"), more, "records that came later")


def _several(kcat: Kcat) -> str:
    topic = fresh("group")
    kcat.make_topic(topic, PARTITIONS)
    return topic


def _one(kcat: Kcat) -> str:
    topic = fresh("transactions")
    kcat.make_topic(topic, 1)
    return topic


def _produce_everywhere(kcat: Kcat, topic: str, label: str) -> set[str]:
    wanted = set()
    for partition in range(PARTITIONS):
        values = [f"{label} {partition} {n}" for n in range(10)]
        kcat.produce(topic, [f"k:{value}" for value in values], "-p", str(partition))
        wanted |= {f"{partition} {value}" for value in values}
    return wanted


def _settled(*members: Member) -> bool:
    owned = [one for member in members for one in member.owned()]
    return all(member.owned() for member in members) and sorted(owned) == list(range(PARTITIONS))


def _arrive(kcat: Kcat, topic: str, label: str, *members: Member) -> None:
    wanted = _produce_everywhere(kcat, topic, label)
    until(lambda: {one for m in members for one in m.records()} >= wanted, f"records {label!r}")


def group_join_leave(kcat: Kcat) -> None:
    topic, group = _several(kcat), fresh("group")
    with ExitStack() as stack:
        first = stack.enter_context(closing(Member(kcat, group, topic)))
        until(lambda: _settled(first), "the first to own all")
        _arrive(kcat, topic, "alone", first)
        second = stack.enter_context(closing(Member(kcat, group, topic)))
        until(lambda: _settled(first, second), "both to share the partitions")
        _arrive(kcat, topic, "shared", first, second)
        second.leave()
        until(lambda: _settled(first), "the first to own all again")
        _arrive(kcat, topic, "alone again", first)


def group_killed(kcat: Kcat) -> None:
    topic, group = _several(kcat), fresh("group")
    with ExitStack() as stack:
        first, second = (stack.enter_context(closing(Member(kcat, group, topic))) for _ in range(2))
        until(lambda: _settled(first, second), "both to share the partitions")
        _arrive(kcat, topic, "shared", first, second)
        second.close()
        until(lambda: _settled(first), "the first to own all")
        _arrive(kcat, topic, "the other is gone", first)


def no_offsets(_kcat: Kcat) -> None:
    raise NotInKcat("kcat commits no offsets in a transaction")


def changes(_kcat: Kcat) -> None:
    raise NotInKcat("kcat is called once for each thing")


def missing(_kcat: Kcat) -> None:
    raise NotInKcat("kcat has no admin but listing")


def reconnect(_kcat: Kcat) -> None:
    raise NotInKcat("kcat ends by itself when its only server is gone")


def fresh(name: str) -> str:
    return f"kcat-{name}-{uuid.uuid4().hex[:12]}"


SCENARIOS: dict[str, Callable[[Kcat], None]] = {
    "headers": headers,
    "empty-values": empty_values,
    "batches": batches,
    "single-records": single_records,
    "large-messages": large_messages,
    "idempotence": idempotence,
    "seek": seek,
    "timestamps": timestamps,
    "commits": commits,
    "group-join-leave": group_join_leave,
    "group-killed": group_killed,
    "reconnect": reconnect,
    "transactions": lambda kcat: transactions.transactions(kcat, _one(kcat)),
    "transactions-fencing": lambda kcat: transactions.fencing(kcat, _one(kcat)),
    "transactions-offsets": no_offsets,
    "tls": lambda kcat: security.tls(kcat, fresh("tls")),
    "certificate-exchanged": changes,
    "password-changed": changes,
    "reauthentication": changes,
    "transactions-timeout": lambda kcat: transactions.timeout(kcat, _one(kcat)),
}


def main() -> int:
    name, bootstrap = sys.argv[1:]
    kcat = Kcat(bootstrap)
    try:
        if name.startswith("codec-"):
            codec(kcat, name.removeprefix("codec-"))
        elif name.startswith("sasl-"):
            security.sasl(kcat, fresh("sasl"), name.removeprefix("sasl-").upper())
        else:
            SCENARIOS.get(name, missing)(kcat)
    except NotInKcat as why:
        print(why, file=sys.stderr)
        return NOT_IN_CLIENT_STATUS
    except Exception:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
