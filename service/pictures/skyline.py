"""The skyline: stacked allocation under the capacity line, coloured by tenant, refusals beside it."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rdl.resources import CPU, MEMORY
from service.pictures.skyline_data import Floats, Panel, SkylineData, skyline_data

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Ten colours that stay apart for colour-blind readers and in print, on white.
_COLOURS = (
    "#4477aa", "#ee8866", "#228833", "#ccbb44", "#aa3377",
    "#66ccee", "#994455", "#88aa55", "#775599", "#aaaaaa",
)  # fmt: skip
_INK = "#222222"
_FAINT = "#777777"
_SHOWN_REFUSALS = 18
_FORMATS = (".svg", ".png")

#: The same document gives the same file: no date, fixed ids, text kept as text.
_STYLE: Mapping[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "agenda",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.edgecolor": _FAINT,
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
}


class PictureError(ValueError):
    """A picture that cannot be written; the message says what would be right."""


def check_picture_path(path: Path) -> None:
    """Refuse, before anything is planned, a name that no picture can have.

    Raises
    ------
    PictureError
        If the suffix is neither ``.svg`` nor ``.png``, or the folder does not exist.
    """
    if path.suffix.lower() not in _FORMATS:
        raise PictureError(f"{path}: a picture ends in .svg or .png")
    if not path.parent.is_dir():
        raise PictureError(f"{path}: there is no folder {path.parent}")


def write_skyline(document: Mapping[str, object], paths: Sequence[Path]) -> None:
    """Draw a Plan document once and write it to every path, SVG or PNG by suffix.

    Raises
    ------
    PictureError
        For a name or a folder that cannot be written.
    """
    for path in paths:
        check_picture_path(path)
    with _drawn(document) as figure:
        for path in paths:
            path.write_bytes(_rendered(figure, path.suffix.lower().lstrip(".")))


def skyline_svg(document: Mapping[str, object]) -> str:
    """Return the skyline of a Plan document as one ``<svg>`` element for a page."""
    with _drawn(document) as figure:
        text = _rendered(figure, "svg").decode("utf-8")
    return text[text.index("<svg") :]


class _drawn:  # noqa: N801 - reads as a verb where it is used
    """The figure of a document, inside the style it is drawn and written in."""

    def __init__(self, document: Mapping[str, object]) -> None:
        self._document = document
        self._style: Any = None

    def __enter__(self) -> Figure:
        import matplotlib as mpl

        self._style = mpl.rc_context(dict(_STYLE))
        self._style.__enter__()
        return _figure(self._document, skyline_data(self._document))

    def __exit__(self, *error: object) -> None:
        self._style.__exit__(*error)


def _rendered(figure: Figure, kind: str) -> bytes:
    buffer = io.BytesIO()
    metadata = {"Date": None} if kind == "svg" else {"Software": None}
    figure.savefig(buffer, format=kind, dpi=110, facecolor="white", metadata=metadata)
    return buffer.getvalue()
