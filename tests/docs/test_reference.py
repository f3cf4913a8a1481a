"""docs/api.md and docs/cli.md are what `python -m service.docs` writes; all pages stay short."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Final

from service.docs import write
from tests.docs.pages import ROOT

#: Most words of all pages under docs: two letters or more. Figures and the bars of tables are none.
MOST_WORDS: Final = 60_000


def test_committed_pages_are_what_is_generated(tmp_path: Path) -> None:
    for name in ("api.md", "cli.md"):
        shutil.copy(ROOT / "docs" / name, tmp_path)

    write(tmp_path)

    for name in ("api.md", "cli.md"):
        generated = (tmp_path / name).read_text(encoding="utf-8")
        assert generated == (ROOT / "docs" / name).read_text(encoding="utf-8"), name


def test_all_pages_have_few_words() -> None:
    texts = [page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md")]
    words = [word for text in texts for word in text.split() if re.search(r"[A-Za-z]{2}", word)]
    assert 0 < len(words) <= MOST_WORDS
