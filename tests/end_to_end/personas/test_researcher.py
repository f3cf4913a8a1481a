"""A researcher's day with traces, experiments and pictures, by the real command line.

The traces are small files in the form of the public ones; the engines' own tests hold the figures.
"""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import Result

from service.cli.kit.errors import DONE, ERROR
from tests.docs.pages import ROOT
from tests.service.cli.command_line import agenda

CLUSTER = """\
step = "1m"
horizon = "7d"

[[machines]]
name = "m"
count = 4
resources = { cpu = 8, gpu = 1 }
"""

WIDE = "window(atom(<1 cpu>, 1, 8, 1h, 8h), +0, +4h)"
DEEP = "window(atom(<2 cpu, 1 gpu>, 1, 4, 1h, 4h), +0, +6h)"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Hold a cluster for a week, a day of requests, and the page of a comparison."""
    found = tmp_path_factory.mktemp("researcher")
    (found / "cluster.toml").write_text(CLUSTER)
    lines = [
        {"id": f"{name}-{number}", "tenant": name, "submitted": 600 * number, "rdl": rdl}
        for number in range(4)
        for name, rdl in (("wide", WIDE), ("deep", DEEP))
    ]
    (found / "day.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return found


@pytest.fixture(scope="module")
def page(folder: Path) -> str:
    """Return the page that sets two agents side by side."""
    path = folder / "report.html"
    options = ("--agents", "gree,earliest", "--html", path)
    done("compare", folder / "cluster.toml", folder / "day.jsonl", *options)
    return path.read_text()


def done(*arguments: object, code: int = DONE) -> str:
    """Run a command that ends as expected; return what it printed."""
    found: Result = agenda(*arguments)
    assert found.exit_code == code, found.output
    return found.output


def test_a_trace_becomes_a_figure_in_two_commands(folder: Path) -> None:
    """Import, plan with a picture."""
    trace, day = folder / "day.swf", folder / "swf.jsonl"
    row = "{} {} -1 1800 4 -1 -1 4 3600 -1 1 1 1 -1 1 -1 -1 -1\n"
    trace.write_text("".join(row.format(number, 600 * number) for number in range(1, 9)))
    imported: Result = agenda("import", "swf", trace)
    assert imported.exit_code == DONE, imported.output
    day.write_text(imported.stdout)
    picture = folder / "swf.svg"
    done("plan", folder / "cluster.toml", day, "--picture", picture)
    assert "capacity" in picture.read_text()


def test_a_wrong_file_says_what_is_wrong(folder: Path) -> None:
    """Which line, and how many columns there should be."""
    wrong = folder / "wrong.swf"
    wrong.write_text("1 2 3\n")
    assert re.search(r"line 1.*18", done("import", "swf", wrong, code=ERROR))


def test_panels_of_a_comparison_stand_in_one_order(page: str) -> None:
    """The same resources from top to bottom, whatever each agent uses most."""
    pictures = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    orders = [re.findall(r">\s*(cpu|gpu)(?: \(\w+\))?\s*<", picture) for picture in pictures]
    assert len(orders) == 2
    assert orders[0] == orders[1]
    assert set(orders[0]) == {"cpu", "gpu"}


def test_a_comparison_says_why_requests_are_left_out(page: str) -> None:
    """In a section of its own, with how many each agent leaves out for what."""
    reasons = page.partition("<h2>Why requests are left out</h2>")[2].partition("<h2>")[0]
    assert re.search(r"leaves out [\d,]+: |None is\.", reasons)


def test_the_time_axis_ends_with_the_last_allocation(page: str) -> None:
    """A day in the horizon of a week takes the whole width: hours, not days."""
    assert re.search(r"hours from", page)
    assert "days from" not in page


def test_a_comparison_can_be_read_on_a_telephone(page: str) -> None:
    """Letters are not shrunk, rows become cards, columns of dashes are left out."""
    assert '<meta name="viewport" content="width=device-width">' in page
    widths = [float(width) for width in re.findall(r'<svg[^>]* viewBox="0 0 ([\d.]+)', page)]
    assert all(9 * 368 / width >= 9 for width in widths), widths  # px of letters of 9 points
    assert "data-name=" in page
    assert ">cost<" not in page
    assert re.search(r"(?:more|less) than gree", page)


def test_a_solver_on_a_terminal_prints_its_plan_elsewhere(folder: Path) -> None:
    """Progress goes to the terminal without a traceback, and the plan to where output is led."""
    agent = "exact"
    leader, follower = pty.openpty()
    command = [
        sys.executable, "-m", "service.cli.main", "plan", str(folder / "cluster.toml"),
        str(folder / "day.jsonl"), "--agent", agent, "--time-limit", "5s",
    ]  # fmt: skip
    with os.fdopen(leader, "rb", buffering=0) as terminal:
        ended = subprocess.run(
            command, stdin=follower, stdout=subprocess.PIPE, stderr=follower, check=False
        )
        os.write(follower, b"\n")
        shown = terminal.read(65_536).decode()
        os.close(follower)
    assert ended.returncode == DONE
    assert "Traceback" not in shown
    assert agent in ended.stdout.decode()


def test_results_are_one_page_of_claims() -> None:
    """Each claim with its command, and whether it is met."""
    text = (ROOT / "docs" / "results" / "index.md").read_text()
    assert "| claim | target | here | met | command |" in text
