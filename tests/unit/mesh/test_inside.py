"""Links inside a process keep the rules of ZeroMQ's: what is heard, in which order, and what is lost."""

from collections.abc import Awaitable, Callable, Sequence

import pytest
import trio
import trio.testing

from mesh.inside import DELIVERIES, Due, EndpointTaken, Inbox, InsideEndpoint
from mesh.link_bounds import DATA, MAX_FRAMES, MAX_MESSAGES_A_TURN
from mesh.links import Context, Publisher, Subscriber

INSIDE = "inproc://here"


class Pair:
    """A publisher, and a subscriber that keeps what it hears; `looks` at what came, and how often."""

    def __init__(self, *prefixes: bytes, bound: int = DATA.high_water_mark) -> None:
        self.context = Context()
        self.heard: list[list[bytes]] = []
        self.looks: list[int] = []
        self.new: list[bytes] = []
        self.publisher = Publisher(self.context, on_subscribed=self.new.append)
        self.subscriber = self.another(*prefixes, bound=bound)

    def another(self, *prefixes: bytes, bound: int = DATA.high_water_mark) -> Subscriber:
        heard = self.heard

        def drained() -> None:
            self.looks.append(len(heard))

        subscriber = Subscriber(self.context, heard.append, drained, bound)
        for prefix in prefixes:
            subscriber.subscribe(prefix)
        return subscriber

    def link(self) -> None:
        self.subscriber.connect(self.publisher.bind(INSIDE))

    def close(self) -> None:
        self.subscriber.close()
        self.publisher.close()
        self.context.close()


class Scheduled(trio.abc.Instrument):
    """Counts the tasks that are woken."""

    def __init__(self) -> None:
        self.tasks = 0

    def task_scheduled(self, task: trio.lowlevel.Task) -> None:  # noqa: ARG002
        self.tasks += 1


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        with trio.fail_after(20):
            await main()

    trio.run(bounded)


@pytest.mark.parametrize(
    ("prefixes", "heard"),
    [
        ((), []),
        ((b"",), [b"M1", b"K1", b"M", b"", b"M2/a"]),
        ((b"M",), [b"M1", b"M", b"M2/a"]),
        ((b"M2/", b"K1"), [b"K1", b"M2/a"]),
        ((b"M", b"M2/a", b"M"), [b"M1", b"M", b"M2/a"]),
        ((b"M2/abc",), []),
    ],
)
def test_messages_come_once_and_in_order_that_begin_with_what_was_subscribed(
    prefixes: Sequence[bytes], heard: list[bytes]
) -> None:
    async def main() -> None:
        pair = Pair(*prefixes)
        pair.link()
        for first in (b"M1", b"K1", b"M", b"", b"M2/a"):
            pair.publisher.send([first, b"content"])
        assert not pair.heard, "it is handled in the call that publishes it"
        pair.context.deliver()
        assert pair.heard == [[first, b"content"] for first in heard]
        pair.close()

    run(main)


def test_frames_are_kept_as_they_were_published() -> None:
    async def main() -> None:
        pair = Pair(b"M")
        pair.link()
        same, changing = b"content", bytearray(b"before")
        pair.publisher.send([bytearray(b"M"), same, memoryview(changing)])
        changing[:] = b"behind"
        pair.context.deliver()
        assert pair.heard == [[b"M", b"content", b"before"]]
        assert [type(frame) for frame in pair.heard[0]] == [bytes] * 3
        assert pair.heard[0][1] is same, "it was copied"
        pair.close()

    run(main)


def test_of_many_frames_the_first_come() -> None:
    async def main() -> None:
        pair = Pair(b"M")
        pair.link()
        pair.publisher.send([b"M"] * 40)
        pair.context.deliver()
        assert pair.heard == [[b"M"] * MAX_FRAMES]
        pair.close()

    run(main)


def test_what_is_beyond_the_bound_is_lost_and_what_comes_later_is_heard() -> None:
    async def main() -> None:
        pair = Pair(b"M", bound=3)
        pair.link()
        for number in range(5):
            pair.publisher.send([b"M%d" % number])
        assert pair.subscriber.dropped == 2
        pair.context.deliver()
        pair.publisher.send([b"M9"])
        pair.context.deliver()
        assert pair.heard == [[b"M0"], [b"M1"], [b"M2"], [b"M9"]]
        pair.close()

    run(main)


def test_without_a_delivery_its_own_task_takes_what_waits_and_lets_others_run() -> None:
    async def main() -> None:
        pair = Pair(b"M")
        pair.link()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pair.subscriber.run)
            await trio.testing.wait_all_tasks_blocked()
            pair.looks.clear()
            count = 2 * MAX_MESSAGES_A_TURN + 1
            for number in range(count):
                pair.publisher.send([b"M%d" % number])
            await trio.testing.wait_all_tasks_blocked()
            assert pair.heard == [[b"M%d" % number] for number in range(count)]
            assert pair.looks == [MAX_MESSAGES_A_TURN, 2 * MAX_MESSAGES_A_TURN, count]
            nursery.cancel_scope.cancel()
        pair.close()

    run(main)


def test_what_is_left_of_a_delivery_is_taken_by_its_own_task() -> None:
    async def main() -> None:
        pair = Pair(b"M")
        pair.link()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pair.subscriber.run)
            await trio.testing.wait_all_tasks_blocked()
            numbers = range(MAX_MESSAGES_A_TURN + 5)

            def send(which: range) -> None:
                for number in which:
                    pair.publisher.send([b"M%d" % number])

            pair.context.deliver_after(send, numbers)
            assert len(pair.heard) == MAX_MESSAGES_A_TURN, "one delivery takes no more than a turn does"
            await trio.testing.wait_all_tasks_blocked()
            assert pair.heard == [[b"M%d" % number] for number in numbers]
            nursery.cancel_scope.cancel()
        pair.close()

    run(main)


def test_a_delivery_wakes_nobody_for_what_it_takes_itself() -> None:
    """A turn of a task for each record and each acknowledgement would be a tenth of a small request."""

    async def main() -> None:
        pair = Pair(b"M")
        pair.link()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pair.subscriber.run)
            await trio.testing.wait_all_tasks_blocked()
            scheduled = Scheduled()
            trio.lowlevel.add_instrument(scheduled)
            pair.context.deliver_after(pair.publisher.send, [b"M1"])
            assert pair.heard == [[b"M1"]]
            assert scheduled.tasks == 0
            pair.publisher.send([b"M2"])
            assert scheduled.tasks == 1, "who is not delivered to is woken"
            trio.lowlevel.remove_instrument(scheduled)
            nursery.cancel_scope.cancel()
        pair.close()

    run(main)


def test_what_fails_while_it_publishes_leaves_the_links_as_they_were() -> None:
    def fail(publisher: Publisher) -> None:
        publisher.send([b"M1"])
        raise ValueError("it fails")

    async def main() -> None:
        pair = Pair(b"M")
        pair.link()
        with pytest.raises(ValueError, match="it fails"):
            pair.context.deliver_after(fail, pair.publisher)
        assert not pair.heard, "something is half done"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pair.subscriber.run)
            await trio.testing.wait_all_tasks_blocked()
            assert pair.heard == [[b"M1"]]
            with pytest.raises(ValueError, match="it fails"):
                pair.context.deliver_after(fail, pair.publisher)
            await trio.testing.wait_all_tasks_blocked()
            assert pair.heard == [[b"M1"]] * 2
            nursery.cancel_scope.cancel()
        pair.close()


def test_what_fails_to_handle_a_message_leaves_the_others_to_be_heard() -> None:
    async def main() -> None:
        pair = Pair()
        heard: list[list[bytes]] = []

        def hear(frames: list[bytes]) -> None:
            heard.append(frames)
            if frames == [b"M1"]:
                raise ValueError("it fails")

        other = Subscriber(pair.context, hear)
        other.subscribe(b"M")
        other.connect(pair.publisher.bind(INSIDE))
        for number in range(3):
            pair.publisher.send([b"M%d" % number])
        with pytest.raises(ValueError, match="it fails"):
            pair.context.deliver()
        assert heard == [[b"M0"], [b"M1"]]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(other.run)
            await trio.testing.wait_all_tasks_blocked()
            assert heard[2:] == [[b"M2"]]
            nursery.cancel_scope.cancel()
        other.close()
        pair.close()

    run(main)


def test_a_delivery_within_a_delivery_loses_nothing() -> None:
    async def main() -> None:
        pair = Pair()
        heard: list[list[bytes]] = []

        def hear(frames: list[bytes]) -> None:
            heard.append(frames)
            if frames == [b"M0"]:
                pair.publisher.send([b"M2"])
                pair.context.deliver()
                pair.publisher.send([b"M3"])

        other = Subscriber(pair.context, hear)
        other.subscribe(b"M")
        other.connect(pair.publisher.bind(INSIDE))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(other.run)
            await trio.testing.wait_all_tasks_blocked()
            pair.publisher.send([b"M0"])
            pair.publisher.send([b"M1"])
            pair.context.deliver()
            await trio.testing.wait_all_tasks_blocked()
            assert heard == [[b"M%d" % number] for number in range(4)]
            nursery.cancel_scope.cancel()
        other.close()
        pair.close()

    run(main)


def test_two_that_answer_each_other_for_ever_let_others_run() -> None:
    """What a delivery leaves is for their tasks, in turns."""

    async def main() -> None:
        context = Context()
        counts = [0, 0]
        publishers = [Publisher(context), Publisher(context)]

        def answering(number: int) -> Callable[[list[bytes]], None]:
            def answer(frames: list[bytes]) -> None:
                counts[number] += 1
                if counts[number] < 1000:
                    publishers[number].send(frames)

            return answer

        subscribers = [Subscriber(context, answering(number)) for number in range(2)]
        async with trio.open_nursery() as nursery:
            for number, subscriber in enumerate(subscribers):
                subscriber.subscribe(b"")
                subscriber.connect(publishers[1 - number].bind(f"{INSIDE}-{number}"))
                nursery.start_soon(subscriber.run)
            await trio.testing.wait_all_tasks_blocked()
            publishers[0].send([b"M"])
            context.deliver()
            assert sum(counts) == DELIVERIES
            turns = 0
            while max(counts) < 1000:
                await trio.lowlevel.checkpoint()
                turns += 1
            assert turns >= 900
            nursery.cancel_scope.cancel()
        for subscriber in subscribers:
            subscriber.close()
        for publisher in publishers:
            publisher.close()
        context.close()

    run(main)

    run(main)


@pytest.mark.parametrize("first", ["publisher", "subscriber"])
def test_who_comes_first_does_not_matter(first: str) -> None:
    async def main() -> None:
        pair = Pair(b"M")
        if first == "publisher":
            pair.publisher.bind(INSIDE)
            pair.subscriber.connect(INSIDE)
        else:
            pair.subscriber.connect(INSIDE)
            pair.publisher.bind(INSIDE)
        pair.subscriber.subscribe(b"late")
        pair.publisher.follow_subscriptions()
        assert pair.new == [b"M", b"late"]
        pair.publisher.send([b"later"])
        pair.context.deliver()
        assert pair.heard == [[b"later"]]
        pair.close()

    run(main)


def test_a_prefix_is_new_where_nobody_had_it_here_or_elsewhere_and_gone_with_the_last_one() -> None:
    async def main() -> None:
        pair = Pair(b"M", b"same")
        elsewhere = Context()
        far = Subscriber(elsewhere, lambda _frames: None)
        far.subscribe(b"same")
        far.subscribe(b"far")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pair.publisher.run)
            far.connect(pair.publisher.bind("tcp://127.0.0.1:*"))
            await pair.publisher.wait_subscribed(b"far")
            await pair.publisher.wait_subscribed(b"same")
            pair.link()
            near = pair.another(b"M", b"near")
            near.connect(INSIDE)
            await pair.publisher.wait_subscribed(b"near")
            assert sorted(pair.new) == [b"M", b"far", b"near", b"same"]

            pair.subscriber.close()
            pair.publisher.follow_subscriptions()
            assert all(map(pair.publisher.subscribed, (b"M", b"near", b"same", b"far")))
            near.disconnect(INSIDE)
            pair.publisher.follow_subscriptions()
            assert not any(map(pair.publisher.subscribed, (b"M", b"near")))
            assert pair.publisher.subscribed(b"same")
            nursery.cancel_scope.cancel()
        near.close()
        far.close()
        elsewhere.close()
        pair.close()

    run(main)


def test_a_link_inside_is_told_of_though_nobody_outside_is_linked() -> None:
    """A publisher that only this process hears waits for ever: what is told inside wakes it."""

    async def main() -> None:
        pair = Pair(b"M")
        async with trio.open_nursery() as nursery:
            pair.publisher.bind(INSIDE)
            nursery.start_soon(pair.publisher.run)
            await trio.testing.wait_all_tasks_blocked()
            pair.subscriber.connect(INSIDE)
            await pair.publisher.wait_subscribed(b"M")
            nursery.cancel_scope.cancel()
        pair.close()

    run(main)


def test_inside_and_outside_hear_the_same() -> None:
    async def main() -> None:
        pair = Pair(b"M")
        heard: list[list[bytes]] = []
        all_heard = trio.Event()

        def hear(frames: list[bytes]) -> None:
            heard.append(frames)
            if len(heard) == 100:
                all_heard.set()

        elsewhere = Context()
        far = Subscriber(elsewhere, hear)
        far.subscribe(b"M")
        far.subscribe(b"far")
        async with trio.open_nursery() as nursery:
            pair.link()
            nursery.start_soon(pair.publisher.run)
            nursery.start_soon(far.run)
            far.connect(pair.publisher.bind("tcp://127.0.0.1:*"))
            await pair.publisher.wait_subscribed(b"far")
            for number in range(100):
                pair.publisher.send([b"M%d" % number, bytes(number)])
            pair.context.deliver()
            await all_heard.wait()
            assert heard == pair.heard
            nursery.cancel_scope.cancel()
        far.close()
        elsewhere.close()
        pair.close()

    run(main)


def test_two_nodes_cannot_be_at_one_endpoint_and_one_may_be_at_two() -> None:
    async def main() -> None:
        pair = Pair(b"M")
        pair.link()
        other = Publisher(pair.context)
        with pytest.raises(EndpointTaken, match="inproc://here: another node of this process"):
            other.bind(INSIDE)
        second = pair.another(b"M")
        second.connect(pair.publisher.bind("inproc://there"))
        pair.publisher.send([b"M1"])
        pair.context.deliver()
        assert pair.heard == [[b"M1"]] * 2
        pair.heard[0].clear()
        assert pair.heard[1] == [b"M1"], "what one does to its message is not seen by the other"
        pair.publisher.follow_subscriptions()
        second.disconnect("inproc://there")
        pair.publisher.follow_subscriptions()
        assert pair.publisher.subscribed(b"M")
        pair.heard.pop()
        pair.publisher.close()
        other.bind(INSIDE)
        other.send([b"M2"])
        pair.context.deliver()
        assert pair.heard[1:] == [[b"M2"]]
        second.close()
        other.close()
        pair.close()

    run(main)


def test_links_to_others_may_be_wanted_before_and_after_it_runs() -> None:
    """Their sockets are made when they are wanted."""

    async def main() -> None:
        contexts = [Context() for _ in range(4)]
        early, late = Publisher(contexts[0]), Publisher(contexts[1])
        heard: list[list[bytes]] = []
        came = trio.Event()

        def hear(frames: list[bytes]) -> None:
            heard.append(frames)
            if len(heard) == 4:
                came.set()

        first, second = Subscriber(contexts[2], hear), Subscriber(contexts[3], hear)
        async with trio.open_nursery() as nursery:
            endpoints = [early.bind("tcp://127.0.0.1:*")]
            first.subscribe(b"M")
            first.connect(endpoints[0])
            for run_one in (early.run, late.run, first.run, second.run):
                nursery.start_soon(run_one)
            await trio.testing.wait_all_tasks_blocked()
            endpoints.append(late.bind("tcp://127.0.0.1:*"))
            first.connect(endpoints[1])
            first.subscribe(b"first")
            for endpoint in endpoints:
                second.connect(endpoint)
            second.subscribe(b"M")
            second.subscribe(b"second")
            for publisher in (early, late):
                await publisher.wait_subscribed(b"first")
                await publisher.wait_subscribed(b"second")
                publisher.send([b"M1"])
            await came.wait()
            nursery.cancel_scope.cancel()
        assert heard == [[b"M1"]] * 4
        for close in (early.close, late.close, first.close, second.close):
            close()
        for context in contexts:
            context.close()
        with pytest.raises(RuntimeError, match="closed"):
            Publisher(contexts[0]).bind("tcp://127.0.0.1:*")

    run(main)


def test_who_is_closed_hears_nothing_more_and_a_closed_publisher_says_nothing() -> None:
    async def main() -> None:
        pair = Pair(b"M")
        pair.link()
        pair.publisher.send([b"M1"])
        pair.subscriber.close()
        pair.publisher.send([b"M2"])
        pair.context.deliver()
        pair.publisher.close()
        pair.publisher.send([b"M3"])
        pair.context.deliver()
        assert not pair.heard
        assert not pair.context.due.inboxes
        pair.context.close()

    run(main)


def test_who_is_closed_by_what_it_hears_hears_no_more() -> None:
    heard: list[list[bytes]] = []
    due = Due()

    def close(frames: list[bytes]) -> None:
        heard.append(frames)
        inbox.close()

    inbox = Inbox(due, close, lambda: None, 10)
    inbox.subscribe(b"")
    inbox.connect(InsideEndpoint())
    for number in range(3):
        inbox.offer([b"%d" % number])
    due.deliver()
    assert heard == [[b"0"]]
    assert not due.inboxes
