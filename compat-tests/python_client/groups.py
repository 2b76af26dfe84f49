"""Consumer groups: members are processes, so that one can be killed."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing
from typing import Self

from python_client.adapter import SECONDS, Adapter, Record
from python_client.checks import POLL_SECONDS, equal, fresh_topic, read, same_records, send_all
from python_client.records import sample

PARTITIONS = 6
MEMBER = "member"
"""A role besides the scenarios: `member:TOPIC:GROUP` says in JSON lines what it owns and reads."""


def member(adapter: Adapter, topic: str, group: str) -> None:
    """Reads as a member until a line comes on standard input, and then leaves in order."""
    told = threading.Event()

    def listen() -> None:
        sys.stdin.readline()
        told.set()

    threading.Thread(target=listen, daemon=True).start()
    said: set[int] | None = None
    with closing(adapter.consumer(group, auto_commit=True)) as consumer:
        consumer.subscribe(topic)
        while not told.is_set():
            for record in consumer.poll(POLL_SECONDS):
                assert record.value is not None
                _say({"record": [record.partition, record.offset, record.value.decode()]})
            if (owned := consumer.owned()) != said:
                said = owned
                _say({"owned": sorted(owned)})


def _say(what: object) -> None:
    print(json.dumps(what), flush=True)


class Member:
    """A member in a process of its own; `records` are all it read, as (partition, offset, value)."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self.owned: set[int] = set()
        self.records: list[tuple[int, int, str]] = []
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        command = [*sys.orig_argv[:-2], f"{MEMBER}:{topic}:{group}", bootstrap]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.kill()

    def look(self) -> None:
        """Take in what it has said."""
        while not self._lines.empty():
            said = json.loads(self._lines.get())
            if "owned" in said:
                self.owned = set(said["owned"])
            else:
                partition, offset, value = said["record"]
                self.records.append((partition, offset, value))

    def leave(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("leave\n")
        self._process.stdin.flush()
        equal(self._process.wait(SECONDS), 0, "exit status of the member that left")
        self._reader.join()

    def kill(self) -> None:
        """SIGKILL: the group is told nothing."""
        self._process.kill()
        self._process.wait()
        self._reader.join()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)


class _Group:
    """A topic with records in every partition, and the members that read it."""

    def __init__(self, adapter: Adapter, bootstrap: str, name: str, stack: ExitStack) -> None:
        self._bootstrap, self._stack = bootstrap, stack
        self.topic = fresh_topic(adapter, name, PARTITIONS)
        self.group = f"{name}-{uuid.uuid4().hex[:12]}"
        self._producer = stack.enter_context(closing(adapter.producer()))
        self._members: list[Member] = []
        self._sent: dict[tuple[int, int], str] = {}

    def join(self) -> Member:
        new = self._stack.enter_context(Member(self._bootstrap, self.topic, self.group))
        self._members.append(new)
        return new

    def settle(self, *members: Member) -> None:
        """Until these have all partitions between them, each has some, nobody has another's."""

        def settled() -> bool:
            owned = [partition for one in members for partition in one.owned]
            return all(one.owned for one in members) and sorted(owned) == list(range(PARTITIONS))

        self._wait(settled, f"{len(members)} members to share the partitions", members)

    def send_and_see(self, label: str, *members: Member) -> None:
        """Records to every partition arrive at these members, with their contents."""
        values = [f"{label} {n}" for n in range(PARTITIONS * 10)]
        records = [Record(value.encode(), partition=n % PARTITIONS) for n, value in enumerate(values)]
        offsets = send_all(self._producer, self.topic, records)
        new = {(n % PARTITIONS, offset): values[n] for n, offset in enumerate(offsets)}
        self._sent |= new

        def arrived() -> bool:
            seen = {(p, o) for one in members for p, o, _ in one.records}
            return seen >= new.keys()

        self._wait(arrived, f"records {label!r} to arrive", members)
        for one in members:
            for partition, offset, value in one.records:
                equal(value, self._sent[partition, offset], f"value at {partition}/{offset}")

    def check_all_seen(self) -> None:
        seen = {(p, o): value for one in self._members for p, o, value in one.records}
        equal(seen, self._sent, "all that the members read")

    def _wait(self, true: Callable[[], bool], what: str, members: Iterable[Member]) -> None:
        deadline = time.monotonic() + SECONDS
        while True:
            for one in self._members:
                one.look()
            if true():
                return
            owned = [sorted(one.owned) for one in members]
            assert time.monotonic() < deadline, f"waited {SECONDS:g} s for {what}; they own {owned}"
            time.sleep(0.05)


def join_leave(adapter: Adapter, bootstrap: str) -> None:
    with ExitStack() as stack:
        group = _Group(adapter, bootstrap, "group-leave", stack)
        first = group.join()
        group.settle(first)
        group.send_and_see("alone", first)
        second = group.join()
        group.settle(first, second)
        group.send_and_see("shared", first, second)
        second.leave()
        group.settle(first)
        group.send_and_see("alone again", first)
        group.check_all_seen()


def killed(adapter: Adapter, bootstrap: str) -> None:
    with ExitStack() as stack:
        group = _Group(adapter, bootstrap, "group-killed", stack)
        first, second = group.join(), group.join()
        group.settle(first, second)
        group.send_and_see("shared", first, second)
        second.kill()
        group.settle(first)
        group.send_and_see("the other is gone", first)
        group.check_all_seen()


def commits(adapter: Adapter) -> None:
    """Offsets by hand, then as a member that commits and leaves, then as one that comes back."""
    topic, group = fresh_topic(adapter, "commits"), f"commits-{uuid.uuid4().hex[:12]}"
    records = sample(100)
    with closing(adapter.producer()) as producer:
        send_all(producer, topic, records)
        with closing(adapter.consumer(group)) as consumer:
            consumer.assign(topic, [0])
            equal(consumer.committed(topic, 0), None, "offset of a new group")
            consumer.commit(topic, 0, 50)
            equal(consumer.committed(topic, 0), 50, "committed offset")
        _resume(adapter, topic, group, records[50:], 50)
        more = sample(10)
        send_all(producer, topic, more)
        _resume(adapter, topic, group, more, 100)


def _resume(adapter: Adapter, topic: str, group: str, wanted: list[Record], offset: int) -> None:
    with closing(adapter.consumer(group)) as consumer:
        consumer.subscribe(topic)
        same_records(read(consumer, len(wanted)), wanted, offset)
        consumer.commit(topic, 0, offset + len(wanted))
    with closing(adapter.consumer(group)) as consumer:
        consumer.assign(topic, [0])
        equal(consumer.committed(topic, 0), offset + len(wanted), "committed offset")
