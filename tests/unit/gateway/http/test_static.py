"""The page's files."""

from __future__ import annotations

import gzip
from pathlib import Path

from gateway.http.static import INDEX, NO_PAGE, load_files


def test_files_are_read_with_their_types_and_compressed_where_that_helps(tmp_path: Path) -> None:
    (tmp_path / "views").mkdir()
    (tmp_path / "index.html").write_text("<p>" * 1000)
    (tmp_path / "views" / "now.js").write_text("x")
    (tmp_path / ".hidden.js").write_text("x")
    (tmp_path / "notes.md").write_text("x")
    files = load_files(tmp_path)
    assert sorted(files) == ["index.html", "views/now.js"]
    index = files["index.html"]
    assert index.content_type == "text/html; charset=utf-8"
    assert index.compressed is not None
    assert gzip.decompress(index.compressed) == index.content
    assert files["views/now.js"].compressed is None
    assert index.etag != files["views/now.js"].etag


def test_without_a_page_there_is_a_word_about_the_json(tmp_path: Path) -> None:
    assert load_files(tmp_path / "none")[INDEX].content == NO_PAGE
