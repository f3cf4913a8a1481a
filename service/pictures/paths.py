"""Check the path of a picture before anything is planned, without a drawing library."""

from __future__ import annotations

from pathlib import Path

_FORMATS = (".svg", ".png")


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
