"""The documentation and the code say the same."""

import re
from collections import defaultdict
from pathlib import Path

from gateway.configs.topic_configs import TOPIC_CONFIGS
from tests.docs import compatibility_page
from tests.docs.api_versions_table import needless_reasons
from tests.docs.broker_effects import BY_OPTION, HELD, TOLD
from tests.docs.configs_table import OF_TOPICS, Seen, broker_rows, topic_rows
from tests.docs.constants_page import PACKAGES, ROOT, modules

DOCS = ROOT / "docs"

SCREEN_CHARACTERS = 200


def test_the_tables_of_the_compatibility_page_are_the_codes_own() -> None:
    """A key of Kafka's that is not offered here, without a reason beside it, fails as well."""
    text = compatibility_page.PAGE.read_text()
    assert text == compatibility_page.page(text), "run: python -m tests.docs.compatibility_page"


def test_the_compatibility_page_can_be_read_on_a_screen() -> None:
    """What is longer than a line of a wide screen is cut off there, or makes a table of one column."""
    lines = compatibility_page.PAGE.read_text().splitlines()
    assert [number for number, line in enumerate(lines, 1) if len(line) > SCREEN_CHARACTERS] == []


def test_no_gap_of_api_versions_is_explained_that_is_none() -> None:
    assert needless_reasons() == []


def test_each_config_that_takes_effect_names_a_test_that_there_is() -> None:
    rows = [*topic_rows(), *broker_rows()]
    seen = {row.name: row.seen for row in rows if row.seen}
    assert {name for name, test in seen.items() if not test.exists()} == set()
    said = {config.name for config in TOPIC_CONFIGS.values() if config.effect}
    assert said | BY_OPTION.keys() | TOLD | HELD.keys() <= seen.keys()


def test_a_test_that_there_is_not_is_noticed() -> None:
    assert Seen("tests/docs/test_docs.py", "test_links_between_pages_lead_somewhere").exists()
    assert not Seen("tests/docs/test_docs.py", "test_that_is_not_there").exists()
    assert Seen(OF_TOPICS, "test_takes_effect", "segment.ms").exists()
    assert not Seen(OF_TOPICS, "test_takes_effect", "flush.ms").exists()


def pages() -> list[Path]:
    folders = [ROOT / name for name in ("docs", "deploy", "examples", "compat-tests", "tests")]
    return [*ROOT.glob("*.md"), *(page for folder in folders for page in folder.rglob("*.md"))]


def anchors(page: Path) -> set[str]:
    """What a link may name behind `#`: its headings, as GitHub spells them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ +(.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def leads_somewhere(source: Path, target: str) -> bool:
    name, _, anchor = target.partition("#")
    page = source.parent / name if name else source
    return page.exists() and (not anchor or anchor in anchors(page))


def test_links_between_pages_lead_somewhere() -> None:
    assert len(pages()) > 5
    broken = [
        f"{source.relative_to(ROOT)} -> {target}"
        for source in pages()
        for target in re.findall(r"\]\(([^):]+)\)", source.read_text())
        if not leads_somewhere(source, target)
    ]
    assert broken == []


def test_limits_names_what_there_is() -> None:
    text = (DOCS / "limits.md").read_text()
    known = {one.name for _, found in modules() for one in found}
    settings = (DOCS / "configuration.md").read_text()
    code = "".join(path.read_text() for name in PACKAGES for path in (ROOT / name).rglob("*.py"))
    named = set(re.findall(r"`([A-Z][A-Z0-9]*_[A-Z0-9_]+)`", text))
    assert len(named) > 50
    assert named - known == set()
    assert [one for one in re.findall(r"`(--[a-z-]+)`", text) if f"`{one}" not in settings] == []
    assert [one for one in re.findall(r"\b(dafka_[a-z_]+)", text) if f'"{one}"' not in code] == []


def test_limits_gives_numbers_as_the_code_has_them() -> None:
    """A few names are of more than one constant: the number is one of them."""
    values: dict[str, set[float]] = defaultdict(set)
    for _, found in modules():
        for one in found:
            values[one.name].add(one.value)
    units = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "": 1}
    given = re.findall(
        r"`([A-Z][A-Z0-9_]+)` ([0-9][0-9,.]*)(?: ([KMG]iB))?", (DOCS / "limits.md").read_text()
    )
    assert len(given) > 50
    wrong = [
        (name, number, unit)
        for name, number, unit in given
        if float(number.rstrip(",.").replace(",", "")) * units[unit] not in values[name]
    ]
    assert wrong == []


def test_the_files_that_architecture_names_are_there() -> None:
    text = (DOCS / "architecture.md").read_text()
    named = re.findall(r"`((?:dafka|gateway|mesh|wireproto|tests)/[\w/.]*)`", text)
    assert len(named) > 50
    assert [one for one in named if not (ROOT / one).exists()] == []
