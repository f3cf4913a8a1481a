"""docs/python.md is the public interface: its examples run, and it names all there is."""

from __future__ import annotations

import ast
import doctest
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from service.example_day import write_example_day
from tests.docs.pages import ROOT, blocks_of

PAGE = ROOT / "docs" / "python.md"
DOORS = ("rdl", "planner")


def test_examples_give_what_the_page_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The page's examples, run in order in one session, print what stands below them."""
    write_example_day(tmp_path / "day")
    monkeypatch.chdir(tmp_path)
    parser, runner, names = doctest.DocTestParser(), doctest.DocTestRunner(), dict[str, object]()
    for block in blocks_of(PAGE):
        assert block.language == "python"
        example = parser.get_doctest(
            "\n".join(block.lines) + "\n", names, PAGE.name, str(PAGE), block.line - 1
        )
        assert example.examples, f"line {block.line} holds no example"
        runner.run(example, clear_globs=False)
        names = example.globs
    assert runner.summarize(verbose=False).failed == 0, capsys.readouterr().out


@pytest.mark.parametrize("door", DOORS)
def test_the_page_names_what_the_door_exports(door: str) -> None:
    """The page and `__all__` name the same."""
    named = set(re.findall(rf"\b{door}\.(\w+)", PAGE.read_text(encoding="utf-8")))
    assert named == set(import_module(door).__all__)


@pytest.mark.parametrize("door", DOORS)
def test_what_types_see_is_what_is_loaded(door: str) -> None:
    """The imports for checkers of types, the table and `__all__` agree, and each name is there."""
    module = import_module(door)
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    typed = {
        alias.name: node.module
        for block in tree.body
        if isinstance(block, ast.If)
        for node in ast.walk(block)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert typed == vars(module)["_HOMES"]
    assert sorted(typed) == sorted(module.__all__)
    for name, home in typed.items():
        assert getattr(module, name) is getattr(import_module(str(home)), name)
    assert set(module.__all__) <= set(dir(module))


def test_a_misspelt_name_is_an_attribute_error() -> None:
    """A name that is not in the table is missing, as in any module."""
    module = import_module("planner")
    with pytest.raises(AttributeError, match="plan_worklod"):
        _ = module.plan_worklod


def test_the_doors_open_quickly() -> None:
    """`import rdl, planner` loads neither the compiler of kernels nor NumPy."""
    code = "import sys, rdl, planner; print(sorted({'numba', 'numpy', 'scipy'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
