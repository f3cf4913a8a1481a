"""What is submitted to a simulated cluster."""

from __future__ import annotations

from dataclasses import dataclass

from dispatch.pool.claims import Claim
from dispatch.simulation.cluster.work import Quantity


@dataclass(frozen=True, slots=True)
class Submission:
    """One execution: what it asks for, when it comes, and how long it takes alone.

    Attributes
    ----------
    claim
        Its components; `claim.run_s` is what the ordering believes.
    at
        Time of submission, s.
    run
        Time with everything granted, s; what is true.
    label
        Group it is counted in: ``B-E``, ``B-R``, ``Int``.
    profile
        Name of its kind in the records.
    """

    claim: Claim
    at: Quantity
    run: Quantity
    label: str = ""
    profile: str = "application"
