"""Settings of every test."""

from __future__ import annotations

import gc
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture import engine, providers

from tests.examples import ALL_EXAMPLES, draw_a_part

# Examples are drawn without the constants of whatever modules a process has loaded by then: they
# would depend on which tests ran before, and every worker would parse the whole product for them.
providers._get_local_constants = lambda: providers._local_constants

# A failing example is made smaller for so long at most (and by 500 steps): it is shown soon.
engine.MAX_SHRINKING_SECONDS = 30

# The same examples for everybody, in every run: drawn from the name of the test, kept nowhere. A
# deadline or a check of how fast examples are drawn would measure how busy the machine is.
settings.register_profile(
    "agenda",
    derandomize=True,
    database=None,
    deadline=None,
    phases=(Phase.explicit, Phase.generate, Phase.target, Phase.shrink),
    suppress_health_check=[HealthCheck.too_slow],
)
# New examples, from the seed that `make soak` gives and prints.
settings.register_profile(
    "soak", settings.get_profile("agenda"), derandomize=False, print_blob=True
)
settings.load_profile("agenda")


# Recorded traces are there for tests with the marker `traces` only: a test that reads them without
# it finds none, wherever it runs. Workers of pytest-xdist get the folder under the other name.
_FOR_TESTS = "AGENDA_TEST_TRACES"
_TRACES = os.environ.pop("AGENDA_TRACES", "") or os.environ.get(_FOR_TESTS, "")
os.environ[_FOR_TESTS] = _TRACES


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that needs traces if there are none, else show it where they are."""
    if item.get_closest_marker("traces") is not None:
        if not _TRACES:
            pytest.skip("AGENDA_TRACES is not set")
        os.environ["AGENDA_TRACES"] = _TRACES


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Hide the traces from the next test."""
    if item.get_closest_marker("traces") is not None:
        os.environ.pop("AGENDA_TRACES", None)


@pytest.fixture(scope="session")
def traces() -> Path:
    """Return the folder of the recorded traces, for tests with the marker `traces`."""
    return Path(_TRACES)


@pytest.fixture(scope="session", autouse=True)
def temporary_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Have tests, and what they start and kill, leave temporary files where pytest removes them."""
    before = os.environ.get("TMPDIR"), tempfile.tempdir
    os.environ["TMPDIR"] = tempfile.tempdir = str(tmp_path_factory.mktemp("t"))
    yield
    tempfile.tempdir = before[1]
    if before[0] is None:
        del os.environ["TMPDIR"]
    else:
        os.environ["TMPDIR"] = before[0]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Have laws draw all their examples only where that is requested."""
    asked = ALL_EXAMPLES in os.environ or config.getoption("--hypothesis-profile") == "soak"
    if not asked:
        draw_a_part(items)


def pytest_collection_finish() -> None:
    """Keep the garbage collector from walking over what is collected, which stays to the end."""
    gc.collect()
    gc.freeze()
