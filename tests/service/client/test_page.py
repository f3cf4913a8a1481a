"""docs/client.md: what it prints is what a server answers."""

from __future__ import annotations

import doctest
import re

import pytest

import agenda
from tests.docs.pages import ROOT, blocks_of

PAGE = ROOT / "docs" / "client.md"


def test_examples_give_what_the_page_prints(
    address: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The page's examples run in order against one server."""
    monkeypatch.setenv("AGENDA_SERVER", address)
    parser, runner, names = doctest.DocTestParser(), doctest.DocTestRunner(), dict[str, object]()
    for block in blocks_of(PAGE):
        if block.language != "python":
            continue
        text = "\n".join(block.lines) + "\n"
        example = parser.get_doctest(text, names, PAGE.name, str(PAGE), block.line - 1)
        runner.run(example, clear_globs=False)
        names = example.globs
    assert runner.summarize(verbose=False).failed == 0, capsys.readouterr().out


def test_the_page_names_every_exception_and_method() -> None:
    """What the package raises and its client does stand on the page."""
    named = set(re.findall(r"`(\w+)`", PAGE.read_text(encoding="utf-8")))
    methods = {name for name in vars(agenda.Client) if not name.startswith("_")}
    assert methods - named == {"url", "event_stream", "entries"}
    errors = {name for name in agenda.__all__ if name.endswith("Error")}
    assert errors <= named
