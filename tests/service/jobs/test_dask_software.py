"""Which workers of a Dask cluster may run tasks."""

from __future__ import annotations

import re

import pytest

from service.jobs.dask_workers import require_one_thread, require_same_software, software_here
from service.jobs.executors import WorkerError

_WHERE = "tcp://10.0.0.5:4000"


def test_the_same_software_is_taken() -> None:
    """Nothing is said."""
    require_same_software(software_here(), software_here(), _WHERE)
    require_one_thread({_WHERE: 1})


@pytest.mark.parametrize(
    ("theirs", "said"),
    [
        ({**software_here(), "cluster-agenda": "9.9"}, "has cluster-agenda 9.9, here it is"),
        ({**software_here(), "numpy": "0.1"}, "has numpy 0.1, here it is"),
        (ModuleNotFoundError("service"), "has no Agenda: install cluster-agenda[dask]"),
        (OSError("disk"), "OSError: disk"),
    ],
)
def test_other_software_is_named_with_its_worker(theirs: object, said: str) -> None:
    """The worker, both versions, and what to do."""
    with pytest.raises(WorkerError, match=re.escape(f"the Dask worker {_WHERE}")) as told:
        require_same_software(software_here(), theirs, _WHERE)
    assert said in str(told.value)
