"""Every API of the gateway, with values that a schema allows and nobody sends: one that is added is in this
by itself, and has to be in the table of what else is tried (`bad_input.py`).
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from gateway.common.handlers import Api
from gateway.front.registry import load_apis
from tests.differential.wire import UndecodableError, decode, encode
from tests.faults.bad_input import GENERAL, SPECIAL, page_section
from tests.faults.extremes import LONGEST_TEXT, Extreme, body, has_arrays
from tests.faults.victim import MIB, Victim

APIS = load_apis().all()
ROOT = Path(__file__).parents[2]
DELETE_TOPICS, FETCH = 20, 1
ELEMENTS = 4000
"""Of an array. `make faults` is quick with them; more, up to what a request may have, take the same ways."""


def ask(victim: Victim, api: Api, version: int, extreme: Extreme, *, read: bool = True) -> None:
    """The request is answered with what can be read, or its connection is closed."""
    with victim.connect() as connection:
        try:
            connection.send(encode(body(api.key, version, extreme)))
        except ConnectionError:
            return
        if api.key == FETCH and extreme.numbers > 0:
            return  # it may wait for 24 days
        received = connection.receive()
    if received is None or not read:
        return
    try:
        decode(api.key, version, received)
    except UndecodableError as error:
        raise AssertionError(f"{api.name} {version}: {error}") from error


def text_for(api: Api, topic: str) -> str:
    """A topic that is there, but for who would delete it."""
    return "nowhere" if api.key == DELETE_TOPICS else topic


@pytest.mark.parametrize("numbers", [1, -1], ids=["largest", "smallest"])
def test_the_largest_and_the_smallest_numbers(victim: Victim, numbers: int) -> None:
    topic = victim.new_topic()
    with victim.bounded(64 * MIB):
        for api in APIS:
            for version in {api.min_version, api.max_version}:
                ask(victim, api, version, Extreme(text_for(api, topic), numbers))


def test_the_longest_texts(victim: Victim) -> None:
    with victim.bounded(64 * MIB):
        for api in APIS:
            for version in {api.min_version, api.max_version}:
                ask(victim, api, version, Extreme("x" * LONGEST_TEXT))


@pytest.mark.parametrize("where", ["outer", "inner"])
def test_very_many_elements(victim: Victim, where: str) -> None:
    topic = victim.new_topic()
    with victim.bounded(128 * MIB):
        for api in APIS:
            outer, inner = has_arrays(api.key, api.max_version)
            counts = {"outer": (ELEMENTS, 1), "inner": (1, ELEMENTS)}[where]
            if outer if where == "outer" else inner:
                extreme = Extreme(text_for(api, topic), 0, *counts)
                ask(victim, api, api.max_version, extreme, read=False)


# the table ------------------------------------------------------------------------------------------------


def test_every_api_is_in_the_table() -> None:
    assert SPECIAL.keys() == {api.name for api in APIS}
    assert all(SPECIAL.values())


def test_every_test_that_the_table_names_exists() -> None:
    named = {test for tests in SPECIAL.values() for test in tests} | set(GENERAL.values())
    missing = [test for test in sorted(named) if not _exists(test)]
    assert missing == []


def test_the_page_has_the_table() -> None:
    assert page_section() in (ROOT / "docs" / "reliability.md").read_text(), (
        "put what `python -m tests.faults.bad_input` prints into docs/reliability.md"
    )


def _exists(test: str) -> bool:
    """`file::function`, the file below tests/."""
    file, _, function = test.partition("::")
    return function in _functions(ROOT / "tests" / file)


@cache
def _functions(file: Path) -> frozenset[str]:
    nodes = ast.walk(ast.parse(file.read_text()))
    return frozenset(node.name for node in nodes if isinstance(node, ast.FunctionDef))
