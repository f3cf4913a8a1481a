"""Ten colours that stay apart for colour-blind readers and in print, on white."""

from __future__ import annotations

from typing import Final

COLOURS: Final = (
    "#4477aa", "#ee8866", "#228833", "#ccbb44", "#aa3377",
    "#66ccee", "#994455", "#88aa55", "#775599", "#aaaaaa",
)  # fmt: skip
