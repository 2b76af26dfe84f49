"""The documentation and the code say the same."""

import re
from pathlib import Path

from gateway.configs.topic_configs import TOPIC_CONFIGS
from tests.docs import compatibility_page
from tests.docs.api_versions_table import needless_reasons
from tests.docs.broker_effects import BY_OPTION, HELD, TOLD
from tests.docs.configs_table import OF_TOPICS, Seen, broker_rows, topic_rows
from tests.docs.limits_page import PAGE, ROOT, page


def test_limits_are_the_codes_own() -> None:
    assert PAGE.read_text() == page(), "run: python -m tests.docs.limits_page"


def test_the_tables_of_the_compatibility_page_are_the_codes_own() -> None:
    """A key of Kafka's that is not offered here, without a reason beside it, fails as well."""
    text = compatibility_page.PAGE.read_text()
    assert text == compatibility_page.page(text), "run: python -m tests.docs.compatibility_page"


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
