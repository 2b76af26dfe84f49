"""The page of constants has every documented number, whatever its name and however its words are written."""

import re

import pytest

from tests.docs.constants_page import PACKAGES, PAGE, ROOT, Constant, constants, modules, page

UNITS = {"MAX", "MIN", "BYTES", "SECONDS", "MS", "RECORDS", "MESSAGES", "ENTRIES", "COUNT", "ONCE"}
"""Words in the name of a limit."""

WITHOUT_WORDS = {"MAX_VERSION", "MIN_VERSION"}
"""Of an API, beside its key: their names say all."""


def numbers_of(source: str) -> list[Constant]:
    values: dict[str, object] = {}
    exec(source, values)
    return constants(source, values)


def test_the_page_is_the_codes_own() -> None:
    assert PAGE.read_text() == page(), "run: python -m tests.docs.constants_page"


def test_every_number_with_words_below_it_is_on_the_page() -> None:
    """Found by another way than the page's own: line by line."""
    text = PAGE.read_text()
    literal = re.compile(r'^(_?[A-Z][A-Z0-9_]*)(?:: Final)? = -?[0-9][0-9_. *+/()<-]*\n"""', re.MULTILINE)
    missing = [
        f"{path.relative_to(ROOT)}: {name}"
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for name in literal.findall(path.read_text())
        if f"`{name}`" not in text.partition(f"## `{path.relative_to(ROOT)}`\n")[2].partition("\n## ")[0]
    ]
    assert missing == []


def test_no_limit_is_without_words() -> None:
    silent = [
        f"{path}: {one.name}"
        for path, found in modules()
        for one in found
        if not one.text
        and one.name not in WITHOUT_WORDS
        and not one.name.startswith("_")
        and UNITS & set(one.name.split("_"))
    ]
    assert silent == []


def test_the_code_documents_its_constants_in_one_style() -> None:
    others = [
        f"{path.relative_to(ROOT)}:{number}"
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if line.lstrip().startswith("#:")
    ]
    assert others == []


@pytest.mark.parametrize(
    "source",
    [
        'TRIES = 3\n"""How often."""\n',
        'TRIES: Final = 3\n"""How\noften."""\n'.replace(": Final", ""),
        "#: How\n#: often.\nTRIES = 3\n",
    ],
)
def test_words_are_taken_from_both_sides(source: str) -> None:
    assert numbers_of(source) == [Constant("TRIES", 3, "3", "How often.")]


def test_neighbours_share_the_words_below_them() -> None:
    found = numbers_of(
        'FIRST = 1.0\nLAST = FIRST * 30\n"""From, to."""\n\nALONE = 2\n\nOTHER = 3\n"""Its."""\n'
    )
    assert found == [
        Constant("FIRST", 1.0, "1.0", "From, to."),
        Constant("LAST", 30.0, "FIRST * 30", "From, to."),
        Constant("ALONE", 2, "2", ""),
        Constant("OTHER", 3, "3", "Its."),
    ]


def test_words_of_something_else_are_nobodys() -> None:
    found = numbers_of(
        'SIZE = 4\nNAME = "x"\n"""Of the name."""\nON = True\n"""Of the switch."""\nsmall = 1\n'
    )
    assert found == [Constant("SIZE", 4, "4", "")]


def test_what_is_computed_is_given_as_a_number() -> None:
    assert numbers_of('SIZE = len("four")\n"""Bytes."""\n') == [Constant("SIZE", 4, "4", "Bytes.")]
