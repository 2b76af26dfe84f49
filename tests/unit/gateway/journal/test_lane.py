"""One batch is on its way, the next one collects: what goes together, and in which order it is settled."""

from __future__ import annotations

from gateway.common.clients import NOBODY
from gateway.common.marker import Marker
from gateway.journal.lane import (
    MAX_BATCH_BYTES,
    MAX_BATCH_WRITES,
    MAX_WAITING_BYTES,
    MAX_WAITING_MARKERS,
    RECORD_OVERHEAD_BYTES,
    Lane,
    Write,
)
from wireproto.kafka.errors import ErrorCode, KafkaError

FAILED = KafkaError(ErrorCode.NOT_COORDINATOR, "gone")


class Scene:
    """A lane, and what its writes were told, in order."""

    def __init__(self) -> None:
        self.lane = Lane()
        self.told: list[tuple[str, KafkaError | None]] = []

    def add(self, name: str, size: int = 100, client: str = NOBODY) -> Write:
        records = [(name.encode(), bytes(size - len(name) - RECORD_OVERHEAD_BYTES))]
        write = Write(records, lambda error: self.told.append((name, error)), client=client)
        assert write.size == size
        self.lane.add(write)
        return write

    def take(self) -> list[str]:
        return [write.records[0][0].decode() for write in self.lane.take()]


def test_the_first_goes_alone_and_the_others_together() -> None:
    scene = Scene()
    scene.add("a")
    assert scene.take() == ["a"]
    for name in "bcd":
        scene.add(name)
    assert scene.take() == []
    scene.lane.settle()
    assert scene.told == [("a", None)]
    assert scene.take() == ["b", "c", "d"]
    assert not scene.lane.is_idle
    scene.lane.settle()
    assert scene.told == [(name, None) for name in "abcd"]
    assert scene.lane.is_idle


def test_a_batch_is_bounded_and_keeps_the_order() -> None:
    scene = Scene()
    half = MAX_BATCH_BYTES // 2
    for name, size in [("a", half), ("b", half), ("c", 100), ("large", MAX_BATCH_BYTES + 1), ("d", 100)]:
        scene.add(name, size)
    batches = []
    while names := scene.take():
        batches.append(names)
        scene.lane.settle()
    assert batches == [["a", "b"], ["c"], ["large"], ["d"]]
    assert scene.lane.waiting_bytes == 0


def test_bytes_that_wait_and_large_writes_are_counted() -> None:
    scene = Scene()
    scene.add("a", 200)
    scene.add("b", 300)
    large = MAX_BATCH_BYTES + 1
    scene.add("c", large)
    assert (scene.lane.waiting_bytes, scene.lane.large_bytes()) == (500 + large, large)
    assert scene.take() == ["a", "b"]
    assert scene.lane.waiting_bytes == large
    scene.lane.settle()
    assert scene.take() == ["c"]
    assert (scene.lane.waiting_bytes, scene.lane.large_bytes()) == (0, large)
    scene.lane.settle()
    assert scene.lane.large_bytes() == 0


def test_when_the_partition_fails_everything_is_settled_with_its_error() -> None:
    scene = Scene()
    scene.add("a")
    assert scene.take() == ["a"]
    scene.add("b")
    scene.lane.drop(FAILED)
    assert scene.told == [("a", FAILED), ("b", FAILED)]
    assert (scene.lane.is_idle, scene.lane.waiting_bytes) == (True, 0)


def test_only_what_is_not_on_its_way_can_be_taken_back() -> None:
    scene = Scene()
    sent = scene.add("a")
    assert scene.take() == ["a"]
    waiting, last = scene.add("b"), scene.add("c")
    scene.lane.withdraw(sent, FAILED)
    scene.lane.withdraw(waiting, FAILED)
    assert scene.told == [("b", FAILED)]
    assert scene.lane.waiting_bytes == last.size
    scene.lane.settle()
    assert scene.take() == ["c"]
    assert scene.told == [("b", FAILED), ("a", None)]


def test_a_write_without_records_waits_for_those_before_it() -> None:
    scene = Scene()
    scene.add("a")
    assert scene.take() == ["a"]
    scene.lane.add(Write((), lambda error: scene.told.append(("barrier", error))))
    assert scene.lane.take() == []
    scene.lane.settle()
    (barrier,) = scene.lane.take()
    assert barrier.records == ()
    scene.lane.settle()
    assert scene.told == [("a", None), ("barrier", None)]


class Counted(Write):
    """Counts how often it is compared with another one."""

    __slots__ = ()
    comparisons = 0

    def __eq__(self, other: object) -> bool:
        Counted.comparisons += 1
        return self is other

    __hash__ = object.__hash__


def test_writes_that_wait_too_long_are_withdrawn_without_a_look_at_the_others() -> None:
    """When stores are away, thousands of commits run into their timeout in the same moment."""
    lane = Lane()
    settled: list[KafkaError | None] = []
    writes = [Counted([(b"%d" % number, b"")], settled.append) for number in range(1000)]
    for write in writes:
        lane.add(write)
    Counted.comparisons = 0
    late = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    for write in reversed(writes):
        lane.withdraw(write, late)
    assert settled == [late] * len(writes)
    assert lane.is_idle
    assert lane.waiting_bytes == 0
    assert Counted.comparisons <= len(writes)


def test_clients_have_turns_and_what_one_asks_for_is_in_order() -> None:
    scene = Scene()
    quarter = MAX_BATCH_BYTES // 4
    greedy = [f"a{number}" for number in range(12)]
    for name in greedy:
        scene.add(name, quarter, "greedy")
    scene.add("b", quarter, "modest")
    for name in ("c0", "c1"):
        scene.add(name, quarter, "another")
    batches = []
    while names := scene.take():
        batches.append(names)
        scene.lane.settle()
    assert batches[0] == ["a0", "b", "c0", "a1"]
    assert batches[1] == ["c1", "a2", "a3", "a4"]
    assert [name for names in batches for name in names if name[0] == "a"] == greedy
    assert [name for name, _ in scene.told] == [name for names in batches for name in names]


def test_one_client_may_have_half_of_what_others_leave_waiting() -> None:
    scene = Scene()
    size, taken = 1024, 0
    while scene.lane.has_room("greedy", size):
        scene.add(f"{taken}", size, "greedy")
        taken += 1
    assert taken * size == MAX_WAITING_BYTES // 2
    assert scene.lane.has_room("modest", size)
    assert scene.lane.has_room(NOBODY, MAX_WAITING_BYTES // 2)
    withdrawn = scene.add("late", size, "greedy")
    scene.lane.withdraw(withdrawn, FAILED)
    scene.take()
    assert scene.lane.has_room("greedy", MAX_BATCH_BYTES)
    assert not scene.lane.has_room("greedy", MAX_BATCH_BYTES + 1)
    scene.lane.drop(FAILED)
    assert scene.lane.waiting_bytes == 0
    assert scene.lane.has_room("greedy", MAX_WAITING_BYTES // 2)


def test_what_waits_for_all_comes_behind_every_client_s_writes() -> None:
    scene = Scene()
    half = MAX_BATCH_BYTES // 2
    scene.add("nobody's", half)
    scene.lane.add(Write((), lambda error: scene.told.append(("all", error))))
    for name in ("a0", "a1", "a2"):
        scene.add(name, half, "a")
    scene.lane.add(Write((), lambda error: scene.told.append(("all again", error))))
    scene.add("a3", half, "a")
    while scene.lane.take():
        scene.lane.settle()
    told = [name for name, _ in scene.told]
    assert told.index("nobody's") < told.index("all") < told.index("all again")
    assert told.index("a2") < told.index("all again")
    assert [name for name in told if name[0] == "a" and name[1:].isdigit()] == ["a0", "a1", "a2", "a3"]
    assert scene.lane.is_idle


def test_large_writes_are_counted_by_client() -> None:
    scene = Scene()
    large = MAX_BATCH_BYTES + 1
    scene.add("a", large, "a")
    scene.add("b", large, "b")
    assert scene.take() == ["a"]
    assert (scene.lane.large_bytes(), scene.lane.large_bytes("b"), scene.lane.large_bytes("c")) == (
        2 * large,
        large,
        0,
    )


def test_a_large_write_is_counted_until_it_is_settled_however_that_comes() -> None:
    large = MAX_BATCH_BYTES + 1
    for end in ("withdraw", "settle", "drop"):
        scene = Scene()
        first = scene.add("first", large, "a")
        second = scene.add("second", large, "a")
        scene.add("other", large, "b")
        assert scene.take() == ["first"]
        scene.lane.withdraw(first, FAILED)
        assert scene.lane.large_bytes("a") == 2 * large, "it is on its way"
        if end == "withdraw":
            scene.lane.withdraw(second, FAILED)
            assert (scene.lane.large_bytes("a"), scene.lane.large_bytes()) == (large, 2 * large)
        elif end == "settle":
            for _ in range(3):
                scene.lane.settle()
                scene.take()
            assert {scene.lane.large_bytes(client) for client in ("a", "b", None)} == {0}
        else:
            scene.lane.drop(FAILED)
            assert {scene.lane.large_bytes(client) for client in ("a", "b", None)} == {0}


def test_what_a_large_write_is_admitted_by_is_not_counted_write_by_write() -> None:
    scene = Scene()
    for number in range(1000):
        scene.add(str(number), 100, "small")
    scene.add("large", MAX_BATCH_BYTES + 1, "a")
    scene.lane._waiting = None  # type: ignore[assignment]  # nothing that waits is looked at
    assert scene.lane.large_bytes() == scene.lane.large_bytes("a") == MAX_BATCH_BYTES + 1


def test_markers_go_so_many_at_once_and_wait_in_no_larger_number() -> None:
    """They have no bytes. Anybody may send them, and each takes work of its own when it is its turn."""
    scene = Scene()
    scene.add("first")
    assert scene.take() == ["first"]
    sent = 0
    while scene.lane.has_room_for_marker:
        scene.lane.add(Write([], lambda _: None, part_of=Marker(sent, 0, 0, False, 1)))
        sent += 1
        assert sent <= MAX_WAITING_MARKERS
    assert (sent, scene.lane.waiting_bytes) == (MAX_WAITING_MARKERS, 0)
    assert scene.lane.has_room(NOBODY, MAX_WAITING_BYTES), "commits have theirs"
    scene.lane.settle()
    left = sent
    while taken := scene.lane.take():
        assert len(taken) == min(left, MAX_BATCH_WRITES)
        left -= len(taken)
        assert scene.lane.waiting_markers == left
        scene.lane.settle()
    assert (left, scene.lane.is_idle, scene.lane.has_room_for_marker) == (0, True, True)
    for _ in range(3):
        scene.lane.add(Write([], lambda _: None, part_of=Marker(1, 0, 0, False, 1)))
    scene.lane.drop(FAILED)
    assert scene.lane.waiting_markers == 0
