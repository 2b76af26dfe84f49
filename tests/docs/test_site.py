"""The documentation site: every page is reached, every link leads somewhere, nothing comes from elsewhere."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.docs.constants_page import ROOT
from tests.docs.site import LATER, build, named_in_navigation, pages, site_path

REACHED_BY_LINKS = ("decisions/", "compat-tests/", "tests/")
"""Folders whose pages are listed by a page of theirs, or named by others."""

LOADED = {"script": "src", "img": "src", "iframe": "src", "object": "data", "source": "src", "video": "src"}
"""What a browser fetches by itself, besides the stylesheets and icons of `link`."""


class Assets(HTMLParser):
    """What a page has the browser load."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "link" and given.get("rel") not in {"canonical", "prev", "next"}:
            self.found.append(given.get("href") or "")
        if tag in LOADED and given.get(LOADED[tag]):
            self.found.append(given[LOADED[tag]] or "")


@pytest.fixture(scope="module")
def html(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("site"))


def test_the_navigation_has_every_page_once() -> None:
    named = named_in_navigation()
    assert len(named) == len(set(named))
    there = {str(site_path(page)) for page in pages()}
    assert sorted(name for name in there - set(named) if not name.startswith(REACHED_BY_LINKS)) == []
    assert set(named) - there <= LATER


def test_no_decision_is_missing_in_their_list() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = set(re.findall(r"\]\(([\w-]+\.md)\)", (folder / "README.md").read_text()))
    assert listed == {page.name for page in folder.glob("*.md")} - {"README.md"}


def test_it_builds_strictly_and_has_all_pages(html: Path) -> None:
    expected = {
        site_path(page).with_suffix(".html").as_posix().replace("README", "index") for page in pages()
    }
    built = {page.relative_to(html).as_posix() for page in html.rglob("*.html")}
    assert expected - built == set()


def test_pages_load_nothing_from_elsewhere(html: Path) -> None:
    outside = []
    for page in html.rglob("*.html"):
        reader = Assets()
        reader.feed(page.read_text())
        assert reader.found
        outside += [f"{page.name}: {one}" for one in reader.found if re.match(r"(?:\w+:)?//", one)]
    assert outside == []
    styles = "".join(sheet.read_text() for sheet in html.rglob("*.css"))
    assert re.findall(r"url\(\s*[\"']?(?:https?:)?//[^)]*\)", styles) == []


def test_every_file_that_a_page_loads_is_there(html: Path) -> None:
    missing = []
    for page in html.rglob("*.html"):
        if page.name == "404.html":  # its addresses begin at the host's root
            continue
        reader = Assets()
        reader.feed(page.read_text())
        files = [
            one.partition("?")[0].partition("#")[0] for one in reader.found if not one.startswith("data:")
        ]
        missing += [f"{page.name}: {one}" for one in files if not (page.parent / one).exists()]
    assert missing == []


def test_no_markdown_is_left_in_a_page(html: Path) -> None:
    """Code blocks and tables that the builder reads otherwise than GitHub end as plain text."""
    left = []
    for page in html.rglob("*.html"):
        text = re.sub(r"<(pre|code|script)\b.*?</\1>", "", page.read_text(), flags=re.DOTALL)
        if "```" in text or re.search(r"\|\s*-{3,}\s*\||<p>[*-] |\]\([\w./#-]+\)", text):
            left.append(page.name)
    assert left == []
