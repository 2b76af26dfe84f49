"""The page's files, without a browser."""

import gzip
import re
from pathlib import Path

import pytest

import gateway

PAGE = Path(gateway.__file__).parent / "http" / "page"
FILES = sorted(path for path in PAGE.iterdir() if path.suffix in {".html", ".css", ".js"})
LIMIT_BYTES = 60_000


def test_all_of_it_is_small_as_it_is_sent() -> None:
    assert sum(len(gzip.compress(path.read_bytes(), 9)) for path in FILES) < LIMIT_BYTES


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_nothing_is_made_from_text_or_fetched_from_elsewhere(path: Path) -> None:
    text = path.read_text().replace("http://www.w3.org/2000/svg", "")
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser", text
    )
    assert not re.search(r"https?://|//cdn|@import|url\((?!data:)", text)


def test_each_module_that_is_imported_is_there() -> None:
    for path in FILES:
        for name in re.findall(r'from "\./([^"]+)"', path.read_text()):
            assert (PAGE / name).is_file(), f"{path.name} imports {name}"


def test_all_modules_are_asked_for_at_once() -> None:
    """Else a browser learns of each one from the one before it, over three round trips."""
    named = re.findall(r'(?:modulepreload" href|module" src)="([^"]+)"', (PAGE / "index.html").read_text())
    assert sorted(named) == [path.name for path in FILES if path.suffix == ".js"]
