"""The right end of a progress bar: count, rate, and time left."""

from __future__ import annotations

from datetime import timedelta

from rich.progress import ProgressColumn, Task
from rich.text import Text

_FAST = 10  # rates from this many per second are shown without a fraction


class Count(ProgressColumn):
    """``1,200 of 4,000, 350 a second``; ``12 s of 60 s``; nothing while the total is unknown."""

    def render(self, task: Task) -> Text:
        """Return the text of a task; its field ``unit`` follows each number."""
        if task.total is None:
            return Text("")
        unit = str(task.fields["unit"])
        text = f"{task.completed:,.0f}{unit} of {task.total:,.0f}{unit}"
        if task.speed and not unit:
            text += f", {task.speed:,.{0 if task.speed >= _FAST else 1}f} a second"
        return Text(text)


class Time(ProgressColumn):
    """The time left if it is known, else the time since the work began."""

    def render(self, task: Task) -> Text:
        """Return the text of a task."""
        if task.total is not None and task.time_remaining is not None:
            return Text(f"{timedelta(seconds=int(task.time_remaining))} left")
        return Text(f"{timedelta(seconds=int(task.elapsed or 0))}")
