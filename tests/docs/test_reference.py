"""What docs/api.md and docs/cli.md list is what `python -m service.docs` writes."""

from __future__ import annotations

import shutil
from pathlib import Path

from service.docs import write
from tests.docs.pages import ROOT


def test_committed_pages_are_what_is_generated(tmp_path: Path) -> None:
    for name in ("api.md", "cli.md"):
        shutil.copy(ROOT / "docs" / name, tmp_path)

    write(tmp_path)

    for name in ("api.md", "cli.md"):
        generated = (tmp_path / name).read_text(encoding="utf-8")
        assert generated == (ROOT / "docs" / name).read_text(encoding="utf-8"), name
