"""`python -m bench.papers` run in this process."""

from __future__ import annotations

from click.testing import CliRunner, Result

from bench.papers.__main__ import main


def papers(*arguments: object) -> Result:
    """Run the command: standard output and error are separate, an unexpected error is raised."""
    return CliRunner().invoke(
        main, [str(argument) for argument in arguments], catch_exceptions=False
    )
