"""What can go wrong between Agenda and a Slurm."""

from __future__ import annotations


class SlurmError(Exception):
    """Slurm refused something, or is not what it must be; the message is for a person."""


class SlurmAwayError(SlurmError):
    """Slurm does not answer now; what it runs continues."""
