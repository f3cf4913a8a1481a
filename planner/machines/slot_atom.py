"""An atom as the search for slots sees it."""

from __future__ import annotations

from dataclasses import dataclass

from planner.reservations.slots import ANYWHERE, MachineRule
from rdl.resources import Resources


@dataclass(frozen=True, slots=True)
class SlotAtom:
    """One occurrence of an atom with its window, in steps, bundles and bundle-steps.

    Attributes
    ----------
    lo, hi
        The window [lo, hi).
    least, most, multiple
        Bundles at once: none, or a multiple of `multiple` in [least, most].
    lease
        Steps that every bundle is held at least.
    work
        Bundle-steps in all.
    bundle, label, rule
        What one bundle takes, of which machines, and how bundles may stand on them.
    early
        Look at early starts first, else at late ones.
    """

    lo: int
    hi: int
    least: int
    most: int
    multiple: int
    lease: int
    work: int
    bundle: Resources
    label: str | None = None
    rule: MachineRule = ANYWHERE
    early: bool = False
