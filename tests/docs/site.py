"""The documentation site, built from the pages of the repository: `make site`, `python -m tests.docs.site`.

The pages stay where they are and can be read there. For the site they are gathered into build/site/pages,
docs/ at its root and other folders under their own names, and each link is rewritten to where its target lies
there. A link to a file that is no page has the file come along. Zensical then checks all links and writes
build/site/html.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from os.path import relpath
from pathlib import Path, PurePosixPath

from tests.docs.constants_page import ROOT

CONFIG = ROOT / "mkdocs.yml"
FOLDERS = ("docs", "deploy", "examples", "compat-tests", "tests")
"""Where pages are, besides the repository's own folder."""

HOME = {"README.md": "index.md"}
"""The site has a first page of its own in docs/; who links to the README of the repository is sent there."""

LATER: frozenset[str] = frozenset()
"""Pages that mkdocs.yml names already, to be taken from here when they come."""

BUILD_SECONDS = 300

_LINK = re.compile(r"(\[[^\]]*\]\()([^)\s:]+)(\))")
_CODE = re.compile(r"(^```.*?^```$|`[^`\n]*`)", re.MULTILINE | re.DOTALL)
_NAMED_FENCE = re.compile(r"^```\w+ .+$", re.MULTILINE)
"""The beginning of a code block that has a name besides its language, which only our tests read."""

_NAV_PAGE = re.compile(r"^ +- [^:]+: (\S+\.md)$", re.MULTILINE)


def build(folder: Path = ROOT / "build" / "site") -> Path:
    """Build the site in this folder, strictly, and return the folder of its HTML.

    Raises:
        SystemExit: a link leads nowhere, or the builder has any other warning.
    """
    shutil.rmtree(folder, ignore_errors=True)
    gather(folder / "pages")
    config = folder / "mkdocs.yml"
    config.write_text(configuration(folder / "pages"))
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict", "--config-file", str(config)]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
        check=False,
    )
    said = done.stdout + done.stderr
    if done.returncode != 0 or "warning" in said.lower():
        raise SystemExit(said)
    return folder / "html"


def gather(folder: Path) -> None:
    """Copy all pages, and the files that they link to, as they lie on the site."""
    for source in pages():
        target = folder / site_path(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_rewritten(source))
        for file in _linked_files(source):
            beside = folder / site_path(file)
            beside.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / file, beside)


def configuration(gathered: Path) -> str:
    """The text of mkdocs.yml for a build beside the gathered pages, without those that come later."""
    lines = CONFIG.read_text().splitlines()
    kept = [line for line in lines if not _is_later(line) or (gathered / _page_of(line)).exists()]
    text = "\n".join(kept) + "\n"
    return text.replace("docs_dir: build/site/", "docs_dir: ").replace("site_dir: build/site/", "site_dir: ")


def pages() -> Iterator[PurePosixPath]:
    """All pages of the repository that the site has, by their paths in it."""
    for path in sorted(
        [*ROOT.glob("*.md"), *(page for name in FOLDERS for page in (ROOT / name).rglob("*.md"))]
    ):
        source = PurePosixPath(path.relative_to(ROOT).as_posix())
        if str(source) not in HOME:
            yield source


def site_path(source: PurePosixPath) -> PurePosixPath:
    """Where a file of the repository lies on the site."""
    if str(source) in HOME:
        return PurePosixPath(HOME[str(source)])
    return source.relative_to("docs") if source.parts[0] == "docs" else source


def named_in_navigation() -> list[str]:
    """The pages that mkdocs.yml lists, in its order."""
    return _NAV_PAGE.findall(CONFIG.read_text())


def _is_later(line: str) -> bool:
    found = _NAV_PAGE.match(line)
    return found is not None and found[1] in LATER


def _page_of(line: str) -> str:
    found = _NAV_PAGE.match(line)
    return found[1] if found else ""


def _rewritten(source: PurePosixPath) -> str:
    here = site_path(source).parent

    def moved(link: re.Match[str]) -> str:
        name, mark, anchor = link[2].partition("#")
        if not name:
            return link[0]
        target = _resolved(source, name)
        if (ROOT / target).is_dir():  # a browser has nothing to show of it: the words stay
            return link[1].removeprefix("[").removesuffix("](")
        return f"{link[1]}{relpath(site_path(target), here)}{mark}{anchor}{link[3]}"

    text = _NAMED_FENCE.sub("```text", (ROOT / source).read_text())
    return _outside_code(text, lambda part: _LINK.sub(moved, part))


def _linked_files(source: PurePosixPath) -> set[PurePosixPath]:
    found: set[PurePosixPath] = set()

    def noted(text: str) -> str:
        for link in _LINK.finditer(text):
            name = link[2].partition("#")[0]
            if name and not name.endswith(".md") and not (ROOT / (file := _resolved(source, name))).is_dir():
                found.add(file)
        return text

    _outside_code((ROOT / source).read_text(), noted)
    return found


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    """The text with everything changed that is no code."""
    return "".join(part if number % 2 else change(part) for number, part in enumerate(_CODE.split(text)))


def _resolved(source: PurePosixPath, name: str) -> PurePosixPath:
    """The path in the repository that a page means by a relative link."""
    return PurePosixPath((ROOT / source.parent / name).resolve().relative_to(ROOT).as_posix())


if __name__ == "__main__":
    print(f"built {build().relative_to(ROOT)}")
