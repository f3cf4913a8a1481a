"""What is not known is not judged."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from service.dispatching.tenure import Tenure


@pytest.mark.parametrize("silent", [True, False])
def test_nothing_is_missed_while_slurm_does_not_answer(silent: bool) -> None:
    """Its jobs may have run and ended; the first tick that knows judges."""
    asked: list[int] = []
    slurm = SimpleNamespace(backend=SimpleNamespace(is_silent=silent), waits={})

    class _Replica:
        def newest(self) -> Any:
            asked.append(1)
            raise InterruptedError

    tenure = cast("Any", SimpleNamespace(_backend=slurm.backend, _replica=_Replica()))
    if silent:
        Tenure._plan_missed(tenure, 0)
    else:
        with pytest.raises(InterruptedError):
            Tenure._plan_missed(tenure, 0)
    assert len(asked) == (0 if silent else 1)
