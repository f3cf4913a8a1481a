"""What a server under test does besides: every tenth tick its dispatcher checks what it keeps."""

from __future__ import annotations

import importlib.util
import itertools
import logging
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, Final

#: What a line of the log begins with that names a fault, and how many ticks go from check to check.
FAULT: Final = "what the dispatcher keeps does not follow: "
EVERY: Final = 10

_MODULE: Final = "service.dispatching.tenure"


def check_ticks() -> None:
    """Have every tenth tick of this process end with `Tenure.check`; faults go to the log.

    Nothing of the server is imported here: it does so itself once its settings are known.
    """
    sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    """Finds the module of `Tenure`, once, and has it changed when it is loaded."""

    def find_spec(self, fullname: str, *_: Any) -> ModuleSpec | None:
        if fullname != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        assert spec is not None
        assert spec.loader is not None
        spec.loader = _Changed(spec.loader)
        return spec


class _Changed(Loader):
    """Loads a module, and then changes its `Tenure`."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        found: ModuleType | None = self._loader.create_module(spec)
        return found

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        tenure: Any = module.Tenure
        tick, numbers = tenure.tick, itertools.count(1)

        def checked(self: Any, now_ms: int) -> Any:
            cycle = tick(self, now_ms)
            if next(numbers) % EVERY == 0:
                for fault in self.check():
                    logging.getLogger("agenda.service").error("%s%s", FAULT, fault)
            return cycle

        tenure.tick = checked


def faults_in(log: Path) -> list[str]:
    """Return the faults that a server has written into its log."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return [line.partition(FAULT)[2] for line in lines if FAULT in line]
