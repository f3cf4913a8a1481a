"""`.ci/words` finds listed phrases in prose and in strings, and nothing in code.

That the project has none is seen where `make test` runs it, beside the linters.
"""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

from tests.docs.pages import ROOT

SCRIPT = ROOT / ".ci" / "words"


@pytest.fixture(scope="module")
def words() -> ModuleType:
    """Load the script, whose name has no suffix."""
    loader = SourceFileLoader("ci_words", str(SCRIPT))
    spec = importlib.util.spec_from_loader("ci_words", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["ci_words"] = module
    loader.exec_module(module)
    return module


def test_prose_has_line_phrase_and_replacement(words: ModuleType, tmp_path: Path) -> None:
    """A phrase is found across a line break, at the line on which it begins."""
    page = tmp_path / "page.md"
    page.write_text("# Title\n\nThe agent is\ntold, and goes on.\n")

    found = [(one.line, one.phrase, one.replacement) for one in words.in_page(page)]

    assert found == [
        (3, "is told", words.DOCS[r"told of|(?:is|are|was|were|be|been) told"]),
        (4, "goes on", "continue"),
    ]


def test_code_of_a_page_is_not_prose(words: ModuleType, tmp_path: Path) -> None:
    """Fenced and indented code, spans, addresses of links and generated parts may say anything."""
    page = tmp_path / "page.md"
    page.write_text(
        "A `room` and [a link](beside.md).\n\n```text\nin vain\n```\n\n    goes on\n\n"
        "all of `e` before the end\n\n<!-- Below: generated -->\nin vain\n"
    )
    assert list(words.in_page(page)) == []


def test_strings_of_a_module_are_read(words: ModuleType, tmp_path: Path) -> None:
    """Docstrings, help and parts of f-strings are checked; names and comments are not."""
    module = tmp_path / "module.py"
    module.write_text(
        '"""One line.\n\nIt hangs on the rest.\n"""\n\nreckon = 1  # reckon\n'
        'text = f"{reckon} was pushed aside"\n'
    )

    found = sorted((one.line, one.phrase) for one in words.in_module(module))

    assert found == [(3, "hangs on"), (7, "pushed aside")]


def test_a_phrase_is_whole_words(words: ModuleType) -> None:
    """Longer words that contain a phrase are left alone."""
    assert list(words.phrases_in("mushrooms, recommend, machine rooms", words.DOCS)) == []
    assert list(words.phrases_in("recommend", words.EVERYWHERE)) == []
