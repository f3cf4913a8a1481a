"""When compiled kernels are stale: the files a kernel is made of, and what an edit of one does."""

from __future__ import annotations

import ast
import importlib
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numba
import numpy as np
import pytest
from numba.core.registry import CPUDispatcher

import planner.kernel_cache
from planner.kernel_cache import KernelFamily

ROOT = Path(planner.kernel_cache.__file__).parent.parent
PACKAGES = ("rdl", "lp", "planner", "dispatch", "service")
KERNELS = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for package in PACKAGES
    for path in (ROOT / package).rglob("*.py")
    if path.stem.endswith("kernels") or path.parent.name.endswith("kernels")
)


def _compiled_in(module: ModuleType) -> list[Any]:
    """Kernels that a module defines."""
    return [
        value
        for value in vars(module).values()
        if isinstance(value, CPUDispatcher) and value.py_func.__module__ == module.__name__
    ]


def _sources_of(module: ModuleType) -> set[Path]:
    """Files of this project that a module imports functions or constants from."""
    tree = ast.parse(Path(str(module.__file__)).read_text())
    names = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    ours = [importlib.import_module(name) for name in names if name and name.startswith(PACKAGES)]
    return {Path(str(found.__file__)) for found in ours}


def test_a_kernel_is_stale_when_what_it_is_made_of_changes() -> None:
    """Every file that a kernel's file imports from is in the stamp of the kernel's cache."""
    stale = {}
    for name in KERNELS:
        module = importlib.import_module(name)
        known = {Path(planner.kernel_cache.__file__), Path(str(module.__file__))}
        for kernel in _compiled_in(module):
            family = getattr(kernel._cache._impl.locator, "family", None)
            missing = _sources_of(module) - known - (family.files if family else set())
            if missing:
                stale[kernel.__name__] = missing
    assert stale == {}


def test_kernels_are_found() -> None:
    """The rule above looks at the kernels of the agents, the ledger and the dispatcher."""
    counts = {name: len(_compiled_in(importlib.import_module(name))) for name in KERNELS}
    assert counts["planner.agents.greedy.kernels.free"] > 5
    assert counts["planner.capacity.profile_kernels"] > 5
    assert counts["dispatch.machines.placement.kernels.choices"] > 3
    assert counts["dispatch.pool.kernels.service"] > 5


_CALLEE = """
from pathlib import Path
from planner.kernel_cache import KernelFamily
FAMILY = KernelFamily(Path(__file__).parent, nogil=True)
@FAMILY.kernel
def inner(x):
    return x + {number}
"""

_CALLER = """
from callee import FAMILY, inner
@FAMILY.kernel
def outer(x):
    return inner(x)
"""


def _load(folder: Path, number: int) -> Any:
    """Import the caller as a new process would, with `number` written into the callee's file."""
    (folder / "callee.py").write_text(_CALLEE.format(number=number))
    importlib.invalidate_caches()
    planner.kernel_cache._digest.cache_clear()
    for name in ("caller", "callee"):
        sys.modules.pop(name, None)
    return importlib.import_module("caller").outer


def test_an_edit_of_the_callee_compiles_the_caller_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller's file is as it was; its cached code is used while the callee's is, no longer."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "caller.py").write_text(_CALLER)
    assert _load(tmp_path, 1)(1) == 2
    same = _load(tmp_path, 1)
    assert same(1) == 2
    assert len(same.stats.cache_hits) == 1
    other = _load(tmp_path, 20)
    assert other(1) == 21
    assert len(other.stats.cache_misses) == 1


_WIDTHS = """
from pathlib import Path
from planner.kernel_cache import KernelFamily
FAMILY = KernelFamily(Path(__file__).parent)
@FAMILY.kernel
def inner(x, up):
    return x + 1 if up else x - 1
@FAMILY.kernel
def outer(x, narrow):
    return inner(x, True) + inner(2, True) + inner(-1, up=True) + inner(narrow[0], True)
"""


def test_a_kernel_is_compiled_once_for_all_whole_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Constants and narrow numbers of its callers are to a kernel what a number of Python is."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "widths.py").write_text(_WIDTHS)
    widths = importlib.import_module("widths")

    assert widths.outer(10, np.array([100], dtype=np.int32)) == 11 + 3 + 0 + 101
    (kinds,) = widths.inner.inner.signatures
    assert kinds[0] == numba.int64


_SHARED = """
from pathlib import Path
from planner.kernel_cache import KernelFamily
FAMILY = KernelFamily(Path(__file__).parent)
@FAMILY.kernel
def least(xs):
    if xs.size == 0:
        raise ValueError("nothing is least")
    return xs.min()
@FAMILY.kernel
def twice(xs):
    return 2 * least(xs)
@FAMILY.kernel
def left(xs):
    return twice(xs) + least(xs)
@FAMILY.kernel
def right(xs):
    return twice(xs[1:]) - 1
"""


def test_what_kernels_call_is_part_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By two callers and through another kernel, with its errors; compiled, and from a cache."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "shared.py").write_text(_SHARED)
    numbers = np.array([3, 5, 4])
    for known in (0, 2):
        planner.kernel_cache._digest.cache_clear()
        sys.modules.pop("shared", None)
        shared: Any = importlib.import_module("shared")
        assert (shared.left(numbers), shared.right(numbers)) == (9, 7)
        with pytest.raises(ValueError, match="nothing is least"):
            shared.left(numbers[:0])
        hits = sum(sum(one.stats.cache_hits.values()) for one in _compiled_in(shared))
        assert hits == known
        assert {one.stem.partition("-")[0] for one in tmp_path.rglob("*.nbc")} == {
            "shared.left",
            "shared.right",
        }
    assert shared.least(numbers) == 3
    assert len(list(tmp_path.rglob("shared.least*.nbc"))) == 1


_SORTS = """
from pathlib import Path
import numpy as np
from planner.kernel_cache import KernelFamily
FAMILY = KernelFamily(Path(__file__).parent)
@FAMILY.kernel
def ascending(xs):
    xs.sort()
    return xs
@FAMILY.kernel
def places(xs):
    return xs.argsort()
"""


def test_what_two_processes_compiled_is_used_together(tmp_path: Path) -> None:
    """Parts of numba's own have numbers of a process as names: each kernel has its own parts."""
    (tmp_path / "sorts.py").write_text(_SORTS)
    paths = os.pathsep.join([str(tmp_path), str(ROOT)])
    environment = os.environ | {"PYTHONPATH": paths, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    head = "import numpy as np, sorts; xs = 2 * np.arange(40)[::-1]"
    calls = {
        "sorted": "assert sorts.ascending(xs.copy())[0] == 0",
        "placed": "assert sorts.places(xs)[0] == 39",
    }
    for asked in (["sorted"], ["placed"], ["sorted", "placed"], ["placed", "sorted"]):
        code = "; ".join([head, *(calls[one] for one in asked)])
        subprocess.run([sys.executable, "-c", code], env=environment, check=True)


_PAIR = """
from typing import NamedTuple
class {name}(NamedTuple):
    number: int
"""

_TAKER = """
from pathlib import Path
from planner.kernel_cache import KernelFamily
from {module} import {name}
FAMILY = KernelFamily(Path(__file__).parent)
@FAMILY.kernel
def taker(pair):
    return pair.number + 1
def result():
    return taker({name}(1))
"""


def _load_taker(folder: Path, module: str, name: str) -> Any:
    """Import a kernel that takes the tuple `module.name`, as a new process would."""
    (folder / f"{module}.py").write_text(_PAIR.format(name=name))
    (folder / "taking.py").write_text(_TAKER.format(module=module, name=name))
    importlib.invalidate_caches()
    planner.kernel_cache._digest.cache_clear()
    for loaded in ("taking", module):
        sys.modules.pop(loaded, None)
    return importlib.import_module("taking")


@pytest.mark.parametrize(
    ("module", "name"), [("before", "After"), ("after", "Pair")], ids=["class", "module"]
)
def test_a_cache_that_names_what_is_gone_is_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, name: str
) -> None:
    """The index names the classes of what a kernel takes: they may have moved, or been renamed."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert _load_taker(tmp_path, "before", "Pair").result() == 2
    (tmp_path / "before.py").unlink()
    del sys.modules["before"]
    assert _load_taker(tmp_path, module, name).result() == 2
    again = _load_taker(tmp_path, module, name)
    assert again.result() == 2
    assert len(again.taker.stats.cache_hits) == 1


def test_a_damaged_cache_is_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index or code that was cut short, by a full disk say, is compiled again."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    for suffix in ("nbi", "nbc"):
        assert _load_taker(tmp_path, "pairs", "Pair").result() == 2
        (damaged,) = tmp_path.rglob(f"taking.taker*.{suffix}")
        damaged.write_bytes(damaged.read_bytes()[:-20])
        assert _load_taker(tmp_path, "pairs", "Pair").result() == 2


def test_files_of_a_family() -> None:
    """A folder stands for its files, a module for its own; this mechanism's file belongs to all."""
    family = KernelFamily(ROOT / "planner" / "agents" / "greedy" / "kernels", planner.kernel_cache)
    names = {path.name for path in family.files}
    assert {"free.py", "codes.py", "compiled.py"} <= names
    assert family.stamp(__file__) == family.stamp(__file__)
    assert family.stamp(__file__) != family.stamp(str(ROOT / "planner" / "view.py"))
