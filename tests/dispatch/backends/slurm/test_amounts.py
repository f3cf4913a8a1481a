"""Amounts and times are read as Slurm writes them."""

from __future__ import annotations

import pytest

from dispatch.backends.slurm.control.amounts import mebibytes, seconds_of, tres_of


@pytest.mark.parametrize(
    ("text", "mib"),
    [("400", 400), ("1.50G", 1536), ("2048K", 2), ("1K", 1), ("2T", 2 * 1024 * 1024), ("", 0)],
)
def test_memory(text: str, mib: int) -> None:
    """Rounded up to whole MiB."""
    assert mebibytes(text) == mib


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1-00:00:05", 86_405),
        ("01:30:00", 5400),
        ("30:00", 1800),
        ("90", 5400),
        ("UNLIMITED", None),
    ],
)
def test_times(text: str, seconds: int | None) -> None:
    """A number alone is minutes."""
    assert seconds_of(text) == seconds


def test_lists_of_resources() -> None:
    """What is no whole number is left out."""
    text = "cpu=4,mem=1G,node=2,billing=4,gres/gpu=2,energy=1.5"
    assert tres_of(text) == {"cpu": 4, "mem": 1024, "node": 2, "billing": 4, "gres/gpu": 2}
    assert tres_of("") == {}
