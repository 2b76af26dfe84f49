"""The documentation and the code say the same."""

import re
from pathlib import Path

from tests.docs.limits_page import PAGE, ROOT, page


def test_limits_are_the_codes_own() -> None:
    assert PAGE.read_text() == page(), "run: python -m tests.docs.limits_page"


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
