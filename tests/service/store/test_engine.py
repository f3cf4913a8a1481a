"""Engines: what cannot be opened says why."""

from __future__ import annotations

import importlib.util

import pytest

from service.config import ConfigError
from service.store.engine import open_engine


@pytest.mark.skipif(importlib.util.find_spec("cx_Oracle") is not None, reason="driver is there")
def test_a_missing_driver_is_named() -> None:
    """A database whose driver is not installed is a message, not a traceback."""
    with pytest.raises(ConfigError, match="the package cx_Oracle"):
        open_engine("oracle+cx_oracle://x@127.0.0.1/x")
