"""Settings of every test."""

from __future__ import annotations

import gc

from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture import engine

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


def pytest_collection_finish() -> None:
    """Keep the garbage collector from walking over what is collected, which stays to the end."""
    gc.collect()
    gc.freeze()
