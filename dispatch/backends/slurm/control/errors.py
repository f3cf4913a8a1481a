"""Errors between Agenda and Slurm."""

from __future__ import annotations


class SlurmError(Exception):
    """Slurm refused a request, or is not set up as needed; the message is for a person."""


class SlurmAwayError(SlurmError):
    """Slurm does not answer now; its jobs continue."""
