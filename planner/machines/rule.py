"""How the bundles of one atom may stand on machines."""

from __future__ import annotations

from typing import NamedTuple


class MachineRule(NamedTuple):
    """What an atom asks of the machines that its bundles get.

    Attributes
    ----------
    spread
        Most bundles of the atom on one machine, or in one domain, at once; 0 is no limit.
    domain
        What the limit counts: machines (None), or the machines of groups that have the same value
        of this domain, such as ``rack``. A machine without the domain counts alone.
    handover
        Whether a bundle may go on, after a lease, on another machine.
    """

    spread: int = 0
    domain: str | None = None
    handover: bool = True


#: No rule at all.
ANYWHERE = MachineRule()
