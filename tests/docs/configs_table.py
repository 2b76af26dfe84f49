"""Every topic config and broker config: what it does here, and the test in which a client sees it."""

from __future__ import annotations

import importlib
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from gateway.configs.broker_configs import THROTTLES, broker_configs
from gateway.configs.broker_validation import NO_EFFECT as DYNAMIC_WITHOUT_EFFECT
from gateway.configs.broker_validation import TOPIC_DEFAULTS
from gateway.configs.topic_configs import TOPIC_CONFIGS
from tests.docs.broker_effects import BY_OPTION, HELD, NO_EFFECT, TOLD, WHILE_IT_RUNS, effect_of

TAKES_EFFECT: Final = "takes effect"

LINE_CHARACTERS: Final = 118
"""Of what is not a table."""

FAMILY: Final = 4
"""Configs that begin with the same words, all of them in a list, from which on these words stand for them."""


@dataclass(frozen=True)
class Seen:
    """A test, and the parameter with which it is about one config."""

    module: str
    function: str
    parameter: str | None = None

    def __str__(self) -> str:
        """As pytest takes it; TOPIC CONFIG stands for the one that the row is about."""
        return f"`{self.module}::{self.function}" + ("[TOPIC CONFIG]`" if self.parameter else "`")

    def exists(self) -> bool:
        """Whether there is this test, with this parameter."""
        module = importlib.import_module(self.module.removesuffix(".py").replace("/", "."))
        function = getattr(module, self.function, None)
        marks = getattr(function, "pytestmark", [])
        cases = [case for mark in marks if mark.name == "parametrize" for case in mark.args[1]]
        return function is not None and (self.parameter is None or self.parameter in cases)


OF_TOPICS: Final = "tests/in_process/test_configs_take_effect.py"
OF_OPTIONS: Final = "tests/in_process/test_settings_take_effect.py"
OF_WHAT_IS_SHOWN: Final = "tests/unit/gateway/configs/test_broker_effects.py"


@dataclass(frozen=True)
class Row:
    """One config; `seen` where it takes effect."""

    name: str
    here: str
    seen: Seen | None

    def line(self, notes: list[str]) -> str:
        """Its line of a table, with the number of its note: the test in which a client sees it."""
        if self.seen is None:
            return f"| `{self.name}` | {self.here} |  |"
        if str(self.seen) not in notes:
            notes.append(str(self.seen))
        return f"| `{self.name}` | {self.here} | {notes.index(str(self.seen)) + 1} |"


def topic_rows() -> Iterator[Row]:
    """Those that Kafka shows, and our own."""
    for config in sorted(TOPIC_CONFIGS.values(), key=lambda one: one.name):
        if config.effect:
            yield Row(config.name, TAKES_EFFECT, Seen(OF_TOPICS, "test_takes_effect", config.name))
        elif not config.hidden or config.own:
            yield Row(config.name, NO_EFFECT, None)


def broker_rows() -> Iterator[Row]:
    """Those that mean something here."""
    for name in broker_configs():
        if (seen := _broker_config_seen(name)) is not None:
            yield Row(name, effect_of(name), seen)


def _broker_config_seen(name: str) -> Seen | None:
    topic_config = TOPIC_DEFAULTS.get(name)
    if topic_config is not None and topic_config.effect:
        return Seen(OF_TOPICS, "test_takes_effect_as_the_default_of_all_topics", topic_config.name)
    if name in BY_OPTION:
        return Seen(OF_OPTIONS, "test_options_take_effect")
    if name in WHILE_IT_RUNS:
        return Seen(OF_OPTIONS, "test_what_can_be_set_while_it_runs_takes_effect")
    if name in TOLD:
        return Seen(OF_WHAT_IS_SHOWN, "test_what_a_gateway_shows_of_its_own_is_by_an_option_or_told")
    return Seen(OF_WHAT_IS_SHOWN, "test_what_is_held_is_what_is_shown") if name in HELD else None


def topic_table() -> str:
    """A table, and below it its notes."""
    return _table("topic config", list(topic_rows()))


def broker_table() -> str:
    """A table, its notes, and below them the names of those that mean nothing."""
    rows = list(broker_rows())
    others = broker_configs().keys() - {row.name for row in rows}
    changeable = {name for name in others if name in TOPIC_DEFAULTS or name in DYNAMIC_WITHOUT_EFFECT}
    accepted = _listed(changeable | set(THROTTLES))
    shown = _listed(others - changeable)
    return "\n\n".join(
        (
            _table("broker config", rows),
            _wrapped(f"Accepted while the gateway runs, checked, given back, no effect: {accepted}."),
            _wrapped(f"Shown with Kafka's default, no effect, cannot be set: {shown}."),
        )
    )


def _table(title: str, rows: list[Row]) -> str:
    notes: list[str] = []
    lines = [f"| {title} | here | seen by |", "|---|---|---|", *(row.line(notes) for row in rows)]
    below = "\n".join(f"{number}. {note}" for number, note in enumerate(notes, 1))
    return "\n".join(lines) + f"\n\nSeen by:\n\n{below}"


def _listed(names: set[str]) -> str:
    """The names, those of a family as one (`ssl.*`) where all of the family are among them."""
    others = (broker_configs().keys() | set(THROTTLES)) - names

    def shown(name: str) -> str:
        for family in accumulate(name.split(".")[:-1], "{}.{}".format):
            in_it = [one for one in names if one.startswith(f"{family}.")]
            if len(in_it) >= FAMILY and not any(one.startswith(f"{family}.") for one in others):
                return f"{family}.*"
        return name

    return ", ".join(f"`{name}`" for name in sorted(set(map(shown, names))))


def _wrapped(text: str) -> str:
    return textwrap.fill(text, LINE_CHARACTERS, break_long_words=False, break_on_hyphens=False)
