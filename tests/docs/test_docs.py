"""The documentation and the code say the same."""

import re
from pathlib import Path

from tests.docs import compatibility_page
from tests.docs.api_versions_table import needless_reasons
from tests.docs.limits_page import PAGE, ROOT, page


def test_limits_are_the_codes_own() -> None:
    assert PAGE.read_text() == page(), "run: python -m tests.docs.limits_page"


def test_the_tables_of_the_compatibility_page_are_the_codes_own() -> None:
    """A key of Kafka's that is not offered here, without a reason beside it, fails as well."""
    text = compatibility_page.PAGE.read_text()
    assert text == compatibility_page.page(text), "run: python -m tests.docs.compatibility_page"


def test_no_gap_of_api_versions_is_explained_that_is_none() -> None:
    assert needless_reasons() == []


def test_links_between_pages_lead_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    assert len(pages) > 5
    broken = [
        f"{source.relative_to(ROOT)} -> {target}"
        for source in pages
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", source.read_text())
        if not (source.parent / Path(target)).exists()
    ]
    assert broken == []
