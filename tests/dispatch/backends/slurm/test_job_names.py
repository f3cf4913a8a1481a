"""What a job's comment says: Agenda's words, and its user's behind them."""

from __future__ import annotations

from dispatch.backends.slurm.control.job_names import promise_comment, words_of
from dispatch.backends.slurm.control.records import SlurmJob


def test_what_its_user_says_is_no_word_of_agenda() -> None:
    """Though it looks like one."""
    comment = promise_comment("r", 100, 40, "reservation=x close=no")
    assert comment.endswith(" -- reservation=x close=no")
    job = SlurmJob(1, "job", "ann", comment, "PENDING", "", ())
    assert words_of(job) == {
        "reservation": "r", "close": "yes", "deadline": "100", "work": "40",
    }  # fmt: skip
