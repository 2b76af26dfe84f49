"""Pictures and plots are what their commands draw now, and pages show all of them."""

import re
from xml.etree import ElementTree as ET

import pytest

from tests.docs import pictures, plots
from tests.docs.constants_page import ROOT

DRAWN = {**pictures.drawings(), **plots.plots()}


def test_the_files_are_the_commands_own() -> None:
    files = {path.name: path.read_text() for path in pictures.FOLDER.glob("*.svg")}
    assert files == DRAWN, "run: python -m tests.docs.pictures && python -m tests.docs.plots"


@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_is_whole_and_needs_nothing_else(name: str) -> None:
    root = ET.fromstring(DRAWN[name])
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    assert "http" not in DRAWN[name].replace("http://www.w3.org/2000/svg", "")
    for one in root.iter("{http://www.w3.org/2000/svg}rect"):
        right = float(one.attrib.get("x", "0")) + float(one.attrib["width"])
        bottom = float(one.attrib.get("y", "0")) + float(one.attrib["height"])
        assert (right <= width, bottom <= height) == (True, True)


def test_every_picture_is_on_a_page_with_words_for_those_who_do_not_see_it() -> None:
    shown = [
        found
        for page in (ROOT / "docs").rglob("*.md")
        for found in re.findall(r"!\[([^\]]*)\]\(pictures/([\w-]+\.svg)\)", page.read_text())
    ]
    assert {name for _, name in shown} == set(DRAWN)
    assert [name for words, name in shown if len(words.split()) < 5] == []


def test_a_plot_has_the_numbers_of_the_table() -> None:
    found = plots.figures()[("fsync", "us")]
    assert len(found) > 2
    assert all(row.ours in DRAWN["fsync-latency.svg"] for row in found)
