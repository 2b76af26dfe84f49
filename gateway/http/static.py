"""The page's files: read, hashed and compressed once, at the start."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final

CONTENT_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".txt": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
}
"""What is served, by the end of its name; other files are not."""

WORTH_COMPRESSING: Final = 512
"""Bytes; below it the headers of a compressed answer take what is saved."""

FOLDER: Final = Path(__file__).parent / "page"

INDEX: Final = "index.html"

NO_PAGE: Final = (
    b"<!doctype html><title>Dafka</title><p>This build has no status page. Its JSON is under "
    b'<a href="/api/v1/overview">/api/v1/overview</a>.\n'
)


@dataclass(frozen=True, slots=True)
class StaticFile:
    """One file. `compressed` is its gzip form, None where that is not smaller."""

    content_type: str
    etag: str
    content: bytes
    compressed: bytes | None


def load_files(folder: Path = FOLDER) -> dict[str, StaticFile]:
    """The files below `folder` by path from it, without those whose names begin with a dot."""
    files = {}
    if folder.is_dir():
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder).as_posix()
            content_type = CONTENT_TYPES.get(path.suffix)
            if content_type is None or not path.is_file() or any(part[0] == "." for part in name.split("/")):
                continue
            files[name] = made(path.read_bytes(), content_type)
    files.setdefault(INDEX, made(NO_PAGE, CONTENT_TYPES[".html"]))
    return files


def made(content: bytes, content_type: str) -> StaticFile:
    """A file of this content."""
    etag = f'"{blake2b(content, digest_size=12).hexdigest()}"'
    compressed = None
    if len(content) >= WORTH_COMPRESSING:
        compressed = gzip.compress(content, 9, mtime=0)
        if len(compressed) >= len(content):
            compressed = None
    return StaticFile(content_type, etag, content, compressed)
