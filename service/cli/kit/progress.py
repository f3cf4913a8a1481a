"""Progress of long work on standard error; ^C ends the work with the best result so far."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from types import FrameType
from typing import TYPE_CHECKING, Any

from rich.progress import ProgressColumn, Task
from rich.text import Text

if TYPE_CHECKING:
    from planner.agent import SolveProgress


#: Signals that ask to stop: from the terminal, a service manager, or `timeout`.
_ASK_TO_STOP = (signal.SIGINT, signal.SIGTERM)

_LEAST_STEPS = 2  # work with a single step needs no bar
_WIDE = 110  # columns needed to show the sources of value and bound on the same line

_FAST = 10  # rates from this many per second are shown without a fraction


@dataclass(slots=True)
class CommandProgress:
    """Callbacks with which an agent checks for a stop request and shows its progress.

    Attributes
    ----------
    stopped
        Set by the first ^C or SIGTERM.
    bar, task
        The progress bar of rich, or None if standard error is not a terminal.
    """

    stopped: threading.Event = field(default_factory=threading.Event)
    bar: Any = None
    task: Any = None

    def stop(self) -> bool:
        """Return whether the work should end with the best result so far."""
        return self.stopped.is_set()

    def progress(self, done: int, total: int) -> None:
        """Show `done` of `total`; nothing when standard error is not a terminal."""
        if self.bar is not None and total >= _LEAST_STEPS:
            self.bar.update(self.task, completed=done, total=total, visible=True)

    def news(self, news: SolveProgress) -> None:
        """Show the best plan and bound so far; the unit of `progress` is then seconds.

        A wide terminal also shows which search and which proof they come from.
        """
        value, bound = f"value {news.value:,.6g}", f"bound {news.bound:,.6g}"
        if self.bar is not None and self.bar.console.width >= _WIDE:
            value, bound = f"{value} ({news.source})", f"{bound} ({news.proof})"
        self.say(f"{value}, {bound}, gap {100 * news.gap:.2f} %", unit=" s")

    def say(self, text: str, unit: str = "") -> None:
        """Show one line of text instead of the count; nothing without a terminal."""
        if self.bar is not None:
            self.bar.update(self.task, description=text, visible=True, unit=unit)

    def show(self) -> None:
        """Show that work continues whose progress is unknown."""
        if self.bar is not None:
            self.bar.update(self.task, visible=True)


@contextmanager
def running(what: str) -> Iterator[CommandProgress]:
    """Run long work: the first ^C or SIGTERM asks it to stop, the second ends it immediately.

    Outside the main thread (tests, embedding) signals are left alone.
    """
    run = CommandProgress()
    with _interrupts(run.stopped), _bar(what, run):
        yield run


def make_ready() -> None:
    """Load the planner's compiled kernels; on a terminal, say why this takes time."""
    from planner.workload.warm_up import load_kernels

    if not sys.stderr.isatty():
        load_kernels()
        return
    from rich.console import Console

    what = "getting ready (the first time compiles the planner's loops: about a minute)"
    with Console(stderr=True).status(what):
        load_kernels()


@contextmanager
def _interrupts(stopped: threading.Event) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_interrupt(number: int, frame: FrameType | None) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt
        stopped.set()
        sys.stderr.write("\nstopping with the best result so far; ^C again to exit immediately\n")

    before = {number: signal.signal(number, on_interrupt) for number in _ASK_TO_STOP}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _bar(what: str, run: CommandProgress) -> Iterator[None]:
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn
    from rich.table import Column

    # Only the bar shrinks if a line is too long; the text is not wrapped.
    text = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True))
    ends = (Count(table_column=Column(no_wrap=True)), Time(table_column=Column(no_wrap=True)))
    bar = Progress(
        text, BarColumn(None), *ends, console=Console(stderr=True), transient=True, expand=True
    )
    run.bar, run.task = bar, bar.add_task(what, total=None, visible=False, unit="")
    with bar:
        yield


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
