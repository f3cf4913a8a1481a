"""Colours of the page: text can be read, tenants are distinguished, in both themes."""

from __future__ import annotations

import re
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from service.web.shell import packaged_assets

_CSS = packaged_assets()._found["style/tokens.css"].body.decode()
_TOKENS = re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", _CSS)
LIGHT = {name: light for name, light, _ in _TOKENS}
DARK = {name: dark for name, _, dark in _TOKENS}
THEMES = pytest.mark.parametrize("tokens", [LIGHT, DARK], ids=["light", "dark"])

#: How sight of three kinds takes linear light (Machado, Oliveira and Fernandes 2009, all of it).
SIGHTS = {
    "normal": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
               [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
               [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
               [0.004733, 0.691367, 0.303900]],
}  # fmt: skip

_LMS = np.array([[0.4122214708, 0.5363325363, 0.0514459929],
                 [0.2119034982, 0.6806995451, 0.1073969566],
                 [0.0883024619, 0.2817188376, 0.6299787005]])  # fmt: skip
_LAB = np.array([[0.2104542553, 0.7936177850, -0.0040720468],
                 [1.9779984951, -2.4285922050, 0.4505937099],
                 [0.0259040371, 0.7827717662, -0.8086757660]])  # fmt: skip


def _linear(colour: str) -> NDArray[np.float64]:
    part = np.array([int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)])
    return np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)


def _contrast(one: str, other: str) -> float:
    light = sorted(float(_linear(c) @ [0.2126, 0.7152, 0.0722]) + 0.05 for c in (one, other))
    return light[1] / light[0]


def _oklab(colour: str, sight: str) -> NDArray[np.float64]:
    seen = np.clip(np.array(SIGHTS[sight]) @ _linear(colour), 0, 1)
    found: NDArray[np.float64] = _LAB @ np.cbrt(_LMS @ seen)
    return found


@THEMES
def test_text_can_be_read(tokens: dict[str, str]) -> None:
    """4.5:1 for all that is written, on every ground that it is written on."""
    for ink in ("ink", "faint", "accent", "good", "warn", "bad"):
        for ground in ("panel", "page", "raised", "wash"):
            assert _contrast(tokens[ink], tokens[ground]) >= 4.5, (ink, ground)
    assert _contrast(tokens["on-accent"], tokens["accent"]) >= 4.5
    assert _contrast(tokens["bad"], tokens["bad-wash"]) >= 4.5


@THEMES
def test_shapes_stand_out(tokens: dict[str, str]) -> None:
    """3:1 to the panel for tenants, borders, windows and the focus."""
    drawn = [*(f"t{n}" for n in range(8)), "others", "border", "window", "focus", "capacity", "now"]
    for name in drawn:
        assert _contrast(tokens[name], tokens["panel"]) >= 3.0, name


@THEMES
@pytest.mark.parametrize("sight", SIGHTS)
def test_tenants_are_distinguished(tokens: dict[str, str], sight: str) -> None:
    """Any two of the eight are 0.09 apart in OKLab, for those who see fewer colours too."""
    for one, other in combinations(range(8), 2):
        apart = _oklab(tokens[f"t{one}"], sight) - _oklab(tokens[f"t{other}"], sight)
        assert float(np.linalg.norm(apart)) >= 0.09, (one, other)
