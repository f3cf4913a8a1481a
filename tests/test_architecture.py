"""Order that no contract of `lint-imports` says: no circle of imports, no test in another."""

from __future__ import annotations

import re
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("rdl", "lp", "planner", "dispatch", "service")


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    """Who imports whom, imports inside functions and for types alone included."""
    return grimp.build_graph(*PACKAGES)


def test_no_module_imports_in_a_circle(graph: grimp.ImportGraph) -> None:
    """From no module does a way of imports lead back to it."""
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert _on_circles(imports) == set()


def test_no_package_imports_in_a_circle(graph: grimp.ImportGraph) -> None:
    """Of the parts of a package none leads back to itself, each taken as one."""
    for package in sorted(graph.modules):
        imports: dict[str, set[str]] = {part: set() for part in graph.find_children(package)}
        for part in imports:
            for module in {part} | graph.find_descendants(part):
                for other in graph.find_modules_directly_imported_by(module):
                    for sibling in imports.keys() - {part}:
                        if other == sibling or other.startswith(f"{sibling}."):
                            imports[part].add(sibling)
        assert _on_circles(imports) == set(), package


def _on_circles(imports: dict[str, set[str]]) -> set[str]:
    """Return what is left when all that imports, or is imported by, nothing left is taken away."""
    left = {one: set(others) for one, others in imports.items()}
    while True:
        imported = set().union(*left.values()) if left else set()
        gone = {one for one, others in left.items() if not others or one not in imported}
        if not gone:
            return set(left)
        left = {one: others - gone for one, others in left.items() if one not in gone}


def test_no_test_imports_another() -> None:
    """What tests share stands in a module of its own, so that none is collected twice."""
    for path in sorted((ROOT / "tests").rglob("*.py")):
        froms = re.findall(r"^ *from (\S+) import", path.read_text("utf-8"), re.MULTILINE)
        assert not [name for name in froms if ".test_" in name], path.relative_to(ROOT)
