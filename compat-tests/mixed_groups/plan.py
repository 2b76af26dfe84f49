"""What is done to whom: pure, and the same for a seed, a length and the same members' fates."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MOST_MEMBERS = 6
"""At a time: more only share two cores."""

EMPTIES = 0.1
"""How often the last member that works is not spared, so that the group becomes empty."""

INSTANCES = 3
"""Static members of one client."""

LONGEST_PAUSE_SECONDS = 4.0


@dataclass(frozen=True)
class Action:
    """`what` is start (`whom`: a client), leave, kill or stop (`whom`: a member), or wait.

    One that was stopped goes on after `seconds`. The next action is due after `pause` seconds.
    """

    what: str
    whom: str
    pause: float
    seconds: float = 0.0


class Plan:
    """Draws one action after the other."""

    def __init__(self, seed: int, clients: Sequence[str], session_seconds: float) -> None:
        self._random = random.Random(seed)
        self._clients = list(clients)
        self._session = session_seconds
        self._due = list(clients)
        """Each client comes once before chance decides."""

    def kills(self, seconds: float, count: int) -> list[float]:
        """When the server is killed, in seconds from the beginning: once in each part of the time."""
        part = seconds / count
        return [part * (n + 0.3 + 0.5 * self._random.random()) for n in range(count)]

    def protocols(self, choices: Sequence[str]) -> tuple[str, ...]:
        """What a member supports: all of these, in an order of its own."""
        return tuple(self._random.sample(choices, len(choices)))

    def instance(self, client: str) -> str:
        """Which static member of the client is started: a new one, one that ended, or one that runs."""
        return f"{client}.{self._random.randrange(INSTANCES)}"

    def next(self, members: Mapping[str, bool]) -> Action:
        """The next action. `members` are those that run, with whether they are stopped."""
        draw = self._random
        pause = draw.random() * LONGEST_PAUSE_SECONDS
        awake = sorted(name for name, stopped in members.items() if not stopped)
        if self._due:
            return Action("start", self._due.pop(0), pause)
        spared = len(awake) <= 1 and draw.random() >= EMPTIES
        if len(members) < MOST_MEMBERS and (spared or not awake or draw.random() < 0.45):
            return Action("start", draw.choice(self._clients), pause)
        if spared or not awake:
            return Action("wait", "", pause)
        whom = draw.choice(awake)
        what = draw.choices(("leave", "kill", "stop"), (3, 3, 4))[0]
        # From much shorter than a session to much longer.
        return Action(what, whom, pause, draw.uniform(0.2, 2.0) * self._session if what == "stop" else 0.0)
