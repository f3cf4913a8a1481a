"""The parameters of an atom for the search for slots."""

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
        Concurrent bundles: 0, or a multiple of `multiple` in [least, most].
    lease
        Minimum number of steps of every bundle.
    work
        Total bundle-steps.
    bundle, label, rule
        Need of one bundle, label of the machines, and the rule for placing bundles on them.
    early
        Try early starts first, else late ones.
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
