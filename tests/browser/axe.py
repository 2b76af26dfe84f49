"""axe-core, the accessibility checker, from the npm registry: for tests only, never served."""

import base64
import hashlib
import subprocess
import tarfile
from functools import cache
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from tests.peers.cache import cached_folder
from tests.peers.requirements import require, unavailable

PACKAGE = "axe-core@4.14.1"
INTEGRITY = "sha512-FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
DOWNLOAD_TIMEOUT_SECONDS = 120

RUN = """async () => {
  const found = await axe.run(document, {resultTypes: ["violations"]});
  const where = ({html, failureSummary}) => `${html} ${failureSummary}`;
  return found.violations.map(({id, help, nodes}) =>
    `${id}: ${help}: ${nodes.slice(0, 3).map(where).join(" | ")}`);
}"""


@cache
def source() -> str:
    """The text of axe.min.js."""
    return (cached_folder(PACKAGE, _bring) / "axe.min.js").read_text()


def _bring(folder: Path) -> None:
    result = subprocess.run(
        [require("npm"), "pack", "--silent", PACKAGE],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=DOWNLOAD_TIMEOUT_SECONDS,
        check=False,
    )
    tarballs = list(folder.glob("*.tgz"))
    if result.returncode != 0 or not tarballs:
        unavailable(f"npm could not bring {PACKAGE}: {result.stderr[-1000:]}")
    content = tarballs[0].read_bytes()
    digest = base64.b64encode(hashlib.sha512(content).digest()).decode()
    assert f"sha512-{digest}" == INTEGRITY, f"{PACKAGE} has another digest: sha512-{digest}"
    with tarfile.open(tarballs[0]) as archive:
        member = archive.extractfile("package/axe.min.js")
        assert member is not None
        (folder / "axe.min.js").write_bytes(member.read())


def violations(page: Page) -> list[str]:
    """What axe-core finds in what is shown now, all of its rules but the experimental ones."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(source())
    found: Any = page.evaluate(RUN)
    return list(found)
