"""What is published inside a process is taken at once, with what is published because of it."""

import pytest
import trio

from mesh.inside import DELIVERIES
from mesh.link_bounds import MAX_MESSAGES_A_TURN
from mesh.links import Context, Publisher, Subscriber

RECORD, ACK = b"M1", b"K1"


class Link:
    """A gateway, and a store that acknowledges at once; no task takes messages by their edge."""

    def __init__(self, context: Context, *, gateway_first: bool) -> None:
        self.context = context
        self.gateway, self.store = Publisher(context), Publisher(context)
        self.acknowledged: list[list[bytes]] = []
        self.drained = 0
        self.from_store = Subscriber(context, self.acknowledged.append, self._on_drained)
        self.from_gateway = Subscriber(context, lambda _frames: self.store.send([ACK]))
        pairs = [(self.from_store, self.store), (self.from_gateway, self.gateway)]
        for subscriber, publisher in pairs if gateway_first else reversed(pairs):
            subscriber.subscribe(b"")
            subscriber.connect(publisher.bind(f"inproc://{id(publisher)}"))

    def _on_drained(self) -> None:
        self.drained += 1

    async def linked(self) -> None:
        async with trio.open_nursery() as nursery:
            for publisher in (self.gateway, self.store):
                nursery.start_soon(publisher.run)
                await publisher.wait_subscribed(b"")
            nursery.cancel_scope.cancel()
        self.drained = 0

    def close(self) -> None:
        for one in (self.gateway, self.store, self.from_store, self.from_gateway):
            one.close()


@pytest.mark.parametrize("gateway_first", [True, False])
def test_an_acknowledgement_is_taken_in_the_delivery_of_its_record(gateway_first: bool) -> None:
    async def main() -> None:
        context = Context()
        link = Link(context, gateway_first=gateway_first)
        await link.linked()
        for count in (1, 2, 3):
            link.gateway.send([RECORD])
            context.deliver()
            assert link.acknowledged == [[ACK]] * count
        link.close()
        context.close()

    trio.run(main)


def test_nobody_looks_when_nothing_was_published() -> None:
    async def main() -> None:
        context = Context()
        link = Link(context, gateway_first=True)
        await link.linked()
        context.due.inboxes.clear()
        looks = link.drained
        context.deliver()
        assert link.drained == looks
        link.gateway.send([RECORD])
        context.deliver()
        assert not context.due.inboxes
        assert link.drained == looks + 1
        link.close()
        context.close()

    trio.run(main)


def test_two_that_answer_each_other_for_ever_leave_the_rest_to_the_loop() -> None:
    async def main() -> None:
        context = Context()
        link = Link(context, gateway_first=True)
        link.from_store._inbox._on_message = lambda _frames: link.gateway.send([RECORD])
        await link.linked()
        link.gateway.send([RECORD])
        context.deliver()
        assert list(context.due.inboxes) == [link.from_gateway._inbox]
        assert link.drained == DELIVERIES // 2
        link.close()
        context.close()

    trio.run(main)


def test_a_closed_subscriber_is_looked_at_no_more() -> None:
    async def main() -> None:
        context = Context()
        link = Link(context, gateway_first=True)
        await link.linked()
        link.gateway.send([RECORD])
        link.from_gateway.close()
        assert not context.due.inboxes
        link.gateway.send([RECORD])
        context.deliver()
        assert not link.acknowledged
        link.close()
        context.close()

    trio.run(main)


def test_subscriptions_that_were_not_looked_at_are_followed_when_asked() -> None:
    async def main() -> None:
        context = Context()
        publisher = Publisher(context)
        subscriber = Subscriber(context, lambda _frames: None)
        prefixes = [b"E%d" % number for number in range(MAX_MESSAGES_A_TURN + 1)]
        for prefix in prefixes:
            subscriber.subscribe(prefix)
        subscriber.connect(publisher.bind("inproc://followed"))
        assert not publisher.subscribed(prefixes[0])
        publisher.follow_subscriptions()
        assert all(map(publisher.subscribed, prefixes))
        subscriber.close()
        publisher.close()
        publisher.follow_subscriptions()
        context.close()

    trio.run(main)
