"""Every topic config and broker config: what it does here, and the test in which a client sees it."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gateway.configs.broker_configs import THROTTLES, broker_configs
from gateway.configs.broker_validation import NO_EFFECT as DYNAMIC_WITHOUT_EFFECT
from gateway.configs.broker_validation import TOPIC_DEFAULTS
from gateway.configs.topic_configs import TOPIC_CONFIGS
from tests.docs.broker_effects import BY_OPTION, HELD, NO_EFFECT, TOLD, effect_of

TAKES_EFFECT: Final = "takes effect"


@dataclass(frozen=True)
class Seen:
    """A test, and the parameter with which it is about one config."""

    module: str
    function: str
    parameter: str | None = None

    def __str__(self) -> str:
        """As pytest takes it."""
        return f"`{self.module}::{self.function}" + (f"[{self.parameter}]`" if self.parameter else "`")

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

    def __str__(self) -> str:
        return f"| `{self.name}` | {self.here} | {self.seen or ''} |"


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
    if name in TOLD:
        return Seen(OF_WHAT_IS_SHOWN, "test_what_a_gateway_shows_of_its_own_is_by_an_option_or_told")
    return Seen(OF_WHAT_IS_SHOWN, "test_what_is_held_is_what_is_shown") if name in HELD else None


def topic_table() -> str:
    return "\n".join(["| topic config | here | seen by |", "|---|---|---|", *map(str, topic_rows())])


def broker_table() -> str:
    """A table, and behind it the names of those that mean nothing."""
    rows = list(broker_rows())
    others = broker_configs().keys() - {row.name for row in rows}
    changeable = {name for name in others if name in TOPIC_DEFAULTS or name in DYNAMIC_WITHOUT_EFFECT}
    table = ["| broker config | here | seen by |", "|---|---|---|", *map(str, rows)]
    accepted = _listed(changeable | set(THROTTLES))
    return "\n".join(table) + (
        f"\n\nAccepted while the gateway runs, checked, given back, no effect: {accepted}."
        f"\n\nShown with Kafka's default, no effect, cannot be set: {_listed(others - changeable)}."
    )


def _listed(names: set[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))
