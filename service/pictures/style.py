"""Shared style of all pictures, checks of paths, and functions that write reproducible files."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure


INK = "#222222"
FAINT = "#777777"

#: Settings for reproducible files: no date, fixed ids, text kept as text.
STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "agenda",
    # Names come from users: a dollar sign in them does not start a formula.
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.edgecolor": FAINT,
    "text.color": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}

_FORMATS = (".svg", ".png")


def write_figure(draw: Callable[[], Figure], path: Path) -> None:
    """Draw in the shared style and write SVG or PNG depending on the suffix.

    Layouts differ in the last digit between runs, so positions of axes are computed once and
    rounded.

    Raises
    ------
    PictureError
        If the name is invalid, or the folder cannot be written.
    """
    import matplotlib as mpl

    check_picture_path(path)
    with mpl.rc_context(STYLE):
        figure = draw()
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
        for axes in figure.axes:
            left, bottom, width, height = (round(edge, 4) for edge in axes.get_position().bounds)
            axes.set_position((left, bottom, width, height))
        path.write_bytes(render(figure, path.suffix.lower().lstrip(".")))


def render(figure: Figure, kind: str) -> bytes:
    """Return a figure as ``svg`` or ``png``; the same figure gives the same bytes."""
    buffer = io.BytesIO()
    metadata = {"Date": None} if kind == "svg" else {"Software": None}
    with warnings.catch_warnings():
        # A PNG has a box for a character that the font lacks; in an SVG the viewer chooses fonts.
        warnings.filterwarnings("ignore", r"Glyph .* missing from", UserWarning)
        figure.savefig(buffer, format=kind, dpi=110, facecolor="white", metadata=metadata)
    return buffer.getvalue()


_LARGE = 1000


def cell_text(value: object) -> str:
    """Return the text of a value in a table; None is a dash."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.3f}" if abs(value) < _LARGE else f"{value:,.1f}"
    return str(value)


class PictureError(ValueError):
    """A picture that cannot be written; the message says how to correct that."""


def check_picture_path(path: Path) -> None:
    """Refuse an invalid path of a picture.

    Raises
    ------
    PictureError
        If the suffix is neither ``.svg`` nor ``.png``, or the folder does not exist.
    """
    if path.suffix.lower() not in _FORMATS:
        raise PictureError(f"{path}: a picture ends in .svg or .png")
    if not path.parent.is_dir():
        raise PictureError(f"{path}: there is no folder {path.parent}")
