"""The links between simulated nodes: real frames, real subscriptions, and every way a message can fare badly.

A message's fate (lost, doubled, late) is drawn from the schedule's seed and the message itself, not from a
common stream of random numbers: leaving one fault out of a schedule changes nobody else's fate. Links are cut
one way at a time. What is sent to a node that is down, or over a cut link, is gone, and nobody is told; a
paused node gets what was sent to it when it goes on.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

import trio

from mesh.node import Routes
from tests.sim.loop import Loop, NodeClock, clock_here
from tests.sim.plan import Plan
from wireproto.dafka import (
    additions,  # noqa: F401  registers our own messages with the decoder
    ids,
)
from wireproto.dafka.errors import MalformedMessage
from wireproto.dafka.messages import decode

LATENCY_SECONDS = 0.0005
"""One way over a healthy link; up to twice as long."""

LATE_SECONDS = 3.0
"""The longest delay of a late message: beyond the first repetitions of everything."""


class SimPublisher:
    """As `mesh.links.Publisher`, for what producers and servers send as frames."""

    def __init__(self, node: "SimNode") -> None:
        self._node = node

    def send(self, frames: Sequence[Any]) -> None:
        self._node.network.publish(self._node, frames)

    def subscribed(self, prefix: bytes) -> bool:
        """Whether some node that runs is subscribed to exactly this prefix."""
        return self._node.network.subscribed(self._node, prefix)

    def follow_subscriptions(self) -> None:
        """They are known at once."""


class SimNode:
    """As `mesh.node.Node`. `alive` ends with the process."""

    def __init__(self, network: "Network", name: str, clock: NodeClock) -> None:
        self.network = network
        self.name = name
        self.clock = clock
        self.alive = True
        self.paused = False
        self.publisher = SimPublisher(self)
        self.malformed = 0
        self.sender = None
        self.is_keyed = False
        self.is_from_store = None
        self.held: list[Sequence[bytes]] = []
        self.prefixes: tuple[bytes, ...] = ()
        self._handlers: dict[type[Any], Callable[[Any], None]] = {}
        self._drained: Callable[[], None] = lambda: None
        network.join(self)

    def route(self, routes: Routes) -> None:
        self._handlers.update(routes)

    def on_drained(self, handler: Callable[[], None]) -> None:
        self._drained = handler

    def on_subscribed(self, handler: Callable[[bytes], None]) -> None:
        """Who subscribes to what is known to all here, and told to nobody."""

    def on_admit(self, admits: Callable[[Any, Any], bool]) -> None:
        """Nobody has keys here, so nobody is asked."""

    def subscribe(self, prefix: bytes) -> None:
        self.prefixes += (prefix,)

    def send(self, message: Any) -> None:
        self.publisher.send(message.frames())

    def receive(self, frames: Sequence[bytes]) -> None:
        """A message is here."""
        if self.paused:
            self.held.append(frames)
            return
        try:
            message = decode(frames)
        except MalformedMessage as error:
            raise AssertionError(f"{self.name} was sent a malformed message: {error}") from None
        handler = self._handlers.get(type(message))
        token = clock_here.set(self.clock)
        if handler is not None:
            handler(message)
        self._drained()
        clock_here.reset(token)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        await trio.sleep_forever()

    def leave(self) -> None:
        """The process is gone."""
        self.alive = False
        self.network.leave(self)


class Network:
    """All links. `cut` holds pairs of names (from, to)."""

    def __init__(self, loop: Loop, plan: Plan) -> None:
        self.cut: Counter[tuple[str, str]] = Counter()
        self.reached: Counter[str] = Counter()
        """Faults that came to pass, by kind."""
        self.fates: list[str] = []
        """Their ids, for the shrinking of a schedule."""
        self.healed = False
        self.on_record: Callable[[Any], None] = lambda _record: None
        """Told of each RECORD that is published."""
        self.on_taken_up: Callable[[Any], None] = lambda _told: None
        """Told of each TAKEN-UP."""
        self._loop = loop
        self._plan = plan
        self._nodes: list[SimNode] = []
        self._times: defaultdict[tuple[str, bytes], int] = defaultdict(int)
        self._last: dict[tuple[str, str], float] = {}
        self._seed = plan.seed.to_bytes(8, "big")
        self.trace = blake2b(digest_size=8)
        """Of every message that arrived: when, on which link, its bytes."""

    def join(self, node: SimNode) -> None:
        self._nodes.append(node)

    def leave(self, node: SimNode) -> None:
        self._nodes.remove(node)

    def resume(self, node: SimNode) -> None:
        """A paused node goes on with what was sent to it meanwhile."""
        node.paused = False
        held, node.held = node.held, []
        for frames in held:
            if node.alive:
                node.receive(frames)

    def publish(self, sender: SimNode, frames: Sequence[Any]) -> None:
        """Pass a message to whoever subscribed to it."""
        if not sender.alive:
            return
        header = bytes(frames[0])
        if header[:1] == ids.RECORD:
            self.on_record(decode([header, bytes(frames[1])]))
        elif header[:1] == ids.TAKEN_UP:
            self.on_taken_up(decode([header]))
        copied: list[bytes] | None = None
        for node in self._nodes:
            if node is not sender and header.startswith(node.prefixes):
                if copied is None:
                    copied = [header, *(bytes(frame) for frame in frames[1:])]
                self._send(sender, node, copied)

    def subscribed(self, sender: SimNode, prefix: bytes) -> bool:
        """Whether another node is subscribed to exactly this prefix; a link that is cut is not noticed."""
        return any(node is not sender and prefix in node.prefixes for node in self._nodes)

    def _send(self, sender: SimNode, receiver: SimNode, frames: list[bytes]) -> None:
        link = sender.name, receiver.name
        if self.cut[link]:
            self.reached["sent into a cut link"] += 1
            return
        draw = self._draw(link, frames[0])
        delay = LATENCY_SECONDS * (1 + (draw & 0xFF) / 256)
        when = max(self._loop.now + delay, self._last.get(link, 0.0))
        if not self.healed:
            fate = self._fate(draw, link)
            if fate == "lost":
                return
            later = LATE_SECONDS * (draw >> 16 & 0xFF) / 256
            if fate == "doubled":
                self._loop.after(delay + later, self._deliver, link, receiver, frames)
            if fate == "late":
                self._loop.after(delay + later, self._deliver, link, receiver, frames)
                return
        self._last[link] = when
        self._loop.after(when - self._loop.now, self._deliver, link, receiver, frames)

    def _draw(self, link: tuple[str, str], header: bytes) -> int:
        name = f"{link[0]}>{link[1]}"
        times = self._times[name, header] = self._times[name, header] + 1
        digest = blake2b(header, digest_size=8, key=self._seed, person=name.encode()[:16], salt=b"%d" % times)
        return int.from_bytes(digest.digest(), "big")

    def _fate(self, draw: int, link: tuple[str, str]) -> str:
        plan, chance = self._plan, (draw >> 32) / (1 << 32)
        fate = ""
        for kind, share in (("lost", plan.lost), ("doubled", plan.doubled), ("late", plan.late)):
            if chance < share:
                fate = kind
                break
            chance -= share
        if not fate:
            return ""
        name = f"{fate} {link[0]}>{link[1]} {draw:016x}"
        if name in plan.left_out or (plan.only_fates is not None and name not in plan.only_fates):
            return ""
        self.reached[f"messages {fate}"] += 1
        self.fates.append(name)
        return fate

    def _deliver(self, link: tuple[str, str], receiver: SimNode, frames: list[bytes]) -> None:
        if not receiver.alive or self.cut[link]:
            self.reached["lost on the way to a node"] += 1
            return
        self.trace.update(f"{self._loop.now!r} {link[0]}>{link[1]} ".encode())
        for frame in frames:
            self.trace.update(frame)
        receiver.receive(frames)
