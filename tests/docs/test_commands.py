"""Every command that README and docs print runs as printed, but for those listed with a reason."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from service.cli.main import main
from service.cli.server_process import free_port, run_server
from service.example_day import write_example_day
from tests.docs.pages import (
    PAGES,
    ROOT,
    Block,
    Command,
    blocks_of,
    commands_of,
    name_of,
    printed_application,
    printed_runs,
    spans_of,
)
from tests.end_to_end.server_process import serving
from tests.zones import evening_zone

#: How a command begins that is not run here -> why.
LEFT_OUT = {
    "make ": "`.ci/run` runs what a contributor runs",
    "python -m bench": "`.ci/run` runs every case, small",
    "AGENDA_TRACES=": "reads recorded traces",
    "AGENDA_SLURM_NODES=": "needs a Slurm",
    "agenda import ": "reads recorded traces, which are not part of the project",
    "agenda lotes google.toml": "reads what an import of a trace wrote",
    "agenda plan flows.toml": "reads what an import of workflows wrote",
    "agenda sbatch ": "needs a Slurm; tests/end_to_end/calls/test_slurm.py runs it",
    "agenda squeue": "needs a Slurm; tests/end_to_end/calls/test_slurm.py runs it",
    "agenda sacct": "needs a Slurm; tests/end_to_end/calls/test_slurm.py runs it",
    "agenda watch --kind degraded": "runs a site's command; a test of the CLI runs one",
    "agenda executor": "runs until it is stopped; tests/end_to_end/calls/test_executors.py runs it",
    "agenda logs ": "prints what real runs wrote; tests/end_to_end/calls/test_pipelines.py runs it",
    "agenda pipelines ": "shows what a job left; tests/end_to_end/calls/test_pipelines.py runs it",
    "agenda run ": "needs executors; tests/end_to_end/calls/test_pipelines.py runs it",
    "agenda backup mo": "reads a server's database; docs/operating.md runs it",
    "agenda restore mo": "fills a database; docs/operating.md runs it",
    "agenda upgrade --dry-run": "reads a server's database; docs/operating.md runs it",
    "agenda upgrade --backup": "changes an older database; tests/service/maintenance runs it",
    "agenda submit etl.rdl": "its first run is on the day after the last one of a recorded file",
    "agenda submit weekly.rdl": "needs a horizon of more than a week; the server's is a day",
    "agenda reservations show weekly": "needs a horizon of more than a week",
    "agenda reservations update weekly": "needs a horizon of more than a week",
    "agenda usage --last": "the Plan of a server that has just begun has no past",
    "agenda serve": "serves until it is stopped; the test serves the example day",
    "python3 -m venv": "`.ci/run` installs into an environment of its own",
    "python -m build": "`.ci/run` builds the client's wheel and installs it alone",
}

#: What pages run all the same that serve this host: its begin.
SERVED_HERE = {"tutorial": ("agenda serve ", "agenda run ", "agenda logs ", "agenda pipelines ")}

#: The same of whole commands.
LEFT_OUT_WHOLE = {"agenda demo": "serves until it is stopped; `.ci/run` runs it from the wheel"}

#: Commands that `.ci/run` runs, for they take a solver's time, or plan a day several times.
SLOW = (
    "agenda compare day/cluster.toml day/workload.jsonl --agents gree,gree-l,portfolio "
    "--html report.html",
    "agenda compare day/cluster.toml day/workload.jsonl --machines 24,32,40 --agents gree-l",
    "agenda compare day/cluster.toml day/workload.jsonl --workers 2",
    "agenda compare cluster.toml workload.jsonl --agents gree,headroom,exact --time-limit 20s "
    "--html report.html",
    "agenda optimizations start --admit-refused --time-limit 60s",
    "agenda optimize plan.json --time-limit 60s --admit-refused --out better.json",
    "agenda plan cluster.toml workload.jsonl --agent exact --time-limit 60s",
    "agenda plan-diff plan.json better.json",
    "agenda validate better.json",
)

#: Exit codes that are not 0: a refusal is an answer.
EXIT_CODES = {"agenda submit greedy.rdl": 3}

#: An id as pages print it -> what the real one looks like, in what was printed before.
IDS = {
    "p-5f1c...": re.compile(r"\bp-[0-9a-f]{4,}\b"),
    "o-8f0c2d1e4a5b": re.compile(r"\bo-[0-9a-f]{4,}\b"),
    "ID": re.compile(r"\b[a-z]-[0-9a-f]{4,}\b|\b[0-9a-f]{8,}\b"),
}

REQUEST = "window(atom(<1 cpu>, min=1, max=10, lease=10m, work=2h), +0, +6h)\n"
APPLICATION = """\
name = "app"
[[components]]
name = "worker"
count = 4
core = true
resources = { cpu = 1, memory = "4 GiB" }
"""
CLASSES = """\
[[classes]]
name = "small"
share = 1.0
request = { cpu = 2, memory = "4 GiB" }
mean_time = "60s"
"""

_OURS = re.compile(r"(?:\S+=\S* )?(?:make|python|\.venv/bin/python|\.ci/\w+)\b")

WITH_COMMANDS = [page for page in PAGES if next(commands_of(page), None) is not None]
#: Pages of results print commands at full size: read here, not run.
RUN_HERE = [page for page in WITH_COMMANDS if "results" not in name_of(page)]


def _write_day(folder: Path) -> tuple[Path, Path]:
    """Write the example day in a zone where six in the morning is far."""
    cluster, workload = write_example_day(folder)
    cluster.write_text(cluster.read_text().replace('"UTC"', f'"{evening_zone()}"', 1))
    return cluster, workload


def _is_left_out(command: Command) -> bool:
    if command.text.startswith(SERVED_HERE.get(command.page.stem, ())):
        return False
    return command.text in LEFT_OUT_WHOLE or command.text.startswith(tuple(LEFT_OUT))


def _words(command: Command) -> list[str]:
    return shlex.split(command.text, comments=True)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve the example day; return the address."""
    folder = tmp_path_factory.mktemp("served")
    cluster, _ = _write_day(folder)
    with serving(folder / "agenda.db", cluster, agent="gree-l") as running:
        yield f"127.0.0.1:{running.port}"


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the example day, to be copied."""
    found = tmp_path_factory.mktemp("day")
    _write_day(found)
    return found


@pytest.fixture
def folder(tmp_path: Path, day: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in a folder that holds the files which pages take for granted."""
    shutil.copytree(day, tmp_path / "day")
    shutil.copytree(day, tmp_path, dirs_exist_ok=True)
    for name in ("job.rdl", "request.rdl"):
        (tmp_path / name).write_text(REQUEST)
    (tmp_path / "app.toml").write_text(APPLICATION)
    (tmp_path / "flight-delays.toml").write_text(printed_application())
    (tmp_path / "classes.toml").write_text(CLASSES)
    (tmp_path / "runs.txt").write_text(printed_runs())
    (tmp_path / "fixtures").symlink_to(ROOT / "fixtures")
    (tmp_path / "docs" / "pictures").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _save(block: Block, folder: Path) -> None:
    """Write a block that a page asks to save: "Save this as `name`:" stands before it."""
    before = block.page.read_text(encoding="utf-8").splitlines()[: block.line - 2]
    text = " ".join(before[-4:]).rstrip()
    named = re.search(r"[Ss]ave this as `([\w.-]+)`:$", text)
    if named:
        text = "\n".join(block.lines) + "\n"
        (folder / named[1]).write_text(text.replace('"Europe/Berlin"', f'"{evening_zone()}"'))


def _run(command: Command, address: str, printed: str) -> Result:
    """Run one command in this process, or what is not `agenda` in a shell."""
    text = command.text
    for written, real in IDS.items():
        if re.search(rf"(?<!\w){re.escape(written)}(?!\w)", text):
            match = real.search(printed)
            assert match, f"{command.where}: nothing printed before names {written}"
            text = re.sub(rf"(?<!\w){re.escape(written)}(?!\w)", match[0], text)
    if not text.startswith("agenda "):
        done = subprocess.run(
            text.replace("localhost:8080", address),
            shell=True, capture_output=True, text=True, check=False,
        )  # fmt: skip
        said = done.stdout + done.stderr
        return Result(CliRunner(), said.encode(), b"", said.encode(), None, done.returncode, None)
    words = shlex.split(text)[1:]
    return CliRunner().invoke(
        main, words, env={"AGENDA_SERVER": f"http://{address}"}, prog_name="agenda"
    )


@contextmanager
def _served(command: Command, folder: Path) -> Iterator[str]:
    """Run a command that serves, at a port that is free; return its address."""
    port = free_port()
    words = [sys.executable, "-m", "service.cli.main", *_words(command)[1:], "--port", str(port)]
    with run_server(words, port, folder / "server.log"):
        yield f"127.0.0.1:{port}"


def _session(page: Path, folder: Path, address: str, *, slow: bool) -> None:
    """Run a page's commands in order; a server that it starts ends with it."""
    with ExitStack() as stack:
        _play(page, folder, address, stack, slow=slow)


def _play(page: Path, folder: Path, address: str, stack: ExitStack, *, slow: bool) -> None:
    """Run a page's commands in order; what a page shows of an answer must be in it."""
    commands = list(commands_of(page))
    printed = last = ""
    for block in blocks_of(page):
        _save(block, folder)
        if block.language == "text" and last:
            for line in block.lines:
                assert " ".join(line.split()) in " ".join(last.split()), f"{page}: {line}"
        inside = range(block.line, block.line + len(block.lines))
        for command in (one for one in commands if one.line in inside and _runs(one, slow=slow)):
            if command.text.startswith("agenda serve "):
                address = stack.enter_context(_served(command, folder))
                continue
            done = _run(command, address, printed)
            expected = next(
                (c for text, c in EXIT_CODES.items() if command.text.startswith(text)), 0
            )
            assert done.exit_code == expected, f"{command.where}: {command.text}\n{done.output}"
            printed, last = done.output + printed, done.output


def _runs(command: Command, *, slow: bool) -> bool:
    """Return whether a command runs here."""
    if command.text.startswith("curl") and shutil.which("curl") is None:
        return False
    return not _is_left_out(command) and (slow or command.text not in SLOW)


@pytest.mark.parametrize("page", RUN_HERE, ids=name_of)
def test_commands_run_as_printed(page: Path, folder: Path, server: str) -> None:
    """The commands of a page run in the order of the page, in one folder, alongside one server."""
    if all(_is_left_out(command) for command in commands_of(page)):
        pytest.skip("runs elsewhere, see LEFT_OUT")
    _session(page, folder, server, slow=False)


@pytest.mark.printed
@pytest.mark.parametrize(
    "page",
    [page for page in RUN_HERE if any(c.text in SLOW for c in commands_of(page))],
    ids=name_of,
)
def test_slow_commands_run_as_printed(page: Path, folder: Path, server: str) -> None:
    """Nor does a command fail that takes a solver's time."""
    _session(page, folder, server, slow=True)


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=name_of)
def test_commands_are_understood(page: Path, folder: Path) -> None:
    """Each printed command parses, those too that cannot run here: names, options, their values."""
    for command in commands_of(page):
        words = _words(command)
        if words[0] != "agenda":
            continue
        words = words[1 : words.index(">")] if ">" in words else words[1:]
        for word in words:
            if re.search(r"\.(?:gz|toml|jsonl|json|rdl|txt)$", word) and not Path(word).exists():
                (folder / word).touch()
        _parse(main, words, command.where)


def _parse(command: click.Command, words: list[str], where: str) -> None:
    """Let click read the words, without doing anything."""
    parent = None
    name = "agenda"
    while True:
        try:
            context = command.make_context(name, list(words), parent=parent)
        except click.exceptions.Exit:
            return  # --help
        except click.ClickException as error:
            raise AssertionError(f"{where}: {error.format_message()}") from error
        if not isinstance(command, click.Group):
            return
        name, found, words = command.resolve_command(
            context, [*context._protected_args, *context.args]
        )
        assert found is not None
        command, parent = found, context


def test_the_lists_name_what_is_printed() -> None:
    """Nothing stands in the lists of this file that no page prints any more."""
    texts = [command.text for page in PAGES for command in commands_of(page)]
    for begin in (*LEFT_OUT, *EXIT_CODES):
        assert any(text.startswith(begin) for text in texts), begin
    assert set(SLOW) <= set(texts)


def test_cases_targets_and_scripts_exist() -> None:
    """Every `python -m ...`, target of make and script that a page prints or names is there."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        named = [Command(page, line, text) for line, text in spans_of(page)]
        for command in (*commands_of(page), *named):
            if not re.match(
                r"(?:\S+=\S* )?(?:make|python|\.venv/bin/python|\.ci/\w+)\b", command.text
            ):
                continue
            words = [word for word in _words(command) if "=" not in word]
            if words[0] == "make":
                assert set(words[1:]) <= targets, command.where
            elif words[0].startswith(".ci/"):
                assert (ROOT / words[0]).exists(), command.where
            elif words[1:2] == ["-m"] and words[2] not in ("pytest", "bench", "build"):
                path = ROOT / words[2].replace(".", "/")
                assert path.with_suffix(".py").exists() or path.is_dir(), command.where
            elif words[1:3] == ["-m", "bench"] and words[3:] and re.match("[a-z]", words[3]):
                assert _has_case(words[3]), command.where


def _has_case(name: str) -> bool:
    sources = (ROOT / "bench" / "cases").rglob("*.py")
    return any(f'NAME = "{name}"' in source.read_text(encoding="utf-8") for source in sources)
