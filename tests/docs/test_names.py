"""What pages name is there: files, modules, classes, options, links, words of the glossary."""

from __future__ import annotations

import importlib
import re
from functools import cache
from pathlib import Path

import click

from service.cli.main import main
from tests.docs.pages import PAGES, ROOT, blocks_of, name_of, spans_of

_FOLDERS = "rdl|lp|planner|dispatch|service|bench|tests|docs|fixtures"
_CODE = ("rdl", "lp", "planner", "dispatch", "service", "bench", "tests")

#: Names of others: units, options of solvers, functions of papers.
FOREIGN = {
    "DASK_DISTRIBUTED__COMM__TLS__CA_FILE",
    "GiB",
    "MiB",
    "max_hs",
    "AllIntervals",
    "TentativePlan",
    "synchronous_commit",
    "t_job",
    "t_task",
}


@cache
def _words() -> frozenset[str]:
    """Every word of the sources of product, tests and benches, of the Makefile and of compose."""
    found: set[str] = set()
    for folder in _CODE:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".js", ".json", ".toml", ".sql"):
                found |= set(re.findall(r"\w+", path.read_text(encoding="utf-8")))
    for path in (ROOT / "Makefile", ROOT / "docs" / "deploy" / "compose.yaml"):
        found |= set(re.findall(r"\w+", path.read_text(encoding="utf-8")))
    return frozenset(found)


@cache
def _file_names() -> frozenset[str]:
    return frozenset(
        path.name for folder in _CODE for path in (ROOT / folder).rglob("*") if path.is_file()
    )


def test_paths_exist() -> None:
    """A path from the root that a page names is there, as is a link."""
    missing = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for path in re.findall(rf"(?<![\w/.-])((?:{_FOLDERS})/[\w./*-]*[\w*/])", text):
            if not list(ROOT.glob(path.rstrip("/"))):
                missing.append(f"{name_of(page)} names {path}")
        for link in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", text):
            if not (page.parent / link).exists():
                missing.append(f"{name_of(page)} links to {link}")
    assert missing == []


def test_files_and_names_exist() -> None:
    """A file, class, function or dotted name in backticks is one of the sources'."""
    missing = []
    for page in PAGES:
        for line, text in spans_of(page):
            if not _is_known(text):
                missing.append(f"{name_of(page)}:{line}: `{text}`")
    assert missing == []


def _is_known(text: str) -> bool:
    if re.fullmatch(r"\w+\.py", text):
        return text in _file_names()
    if re.fullmatch(rf"(?:{'|'.join(_CODE)})(?:\.\w+)+", text):
        return _resolves(text)
    if re.fullmatch(r"[A-Z]\w*[a-z]\w*(?:\.\w+)*(?:\(\))?|\w*_\w+(?:\(\))?", text):
        named = set(re.findall(r"[A-Za-z]\w+", text)) - FOREIGN
        return all(re.match(r"j30\d", name) or name in _words() for name in named)
    return True


def _resolves(dotted: str) -> bool:
    """Return whether a dotted name is a file, a package, or something in one."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        path = ROOT.joinpath(*parts[:length])
        if path.is_dir() or path.with_suffix(".py").exists():
            break
    else:
        return False
    if length == len(parts):
        return True
    thing: object = importlib.import_module(".".join(parts[:length]))
    for part in parts[length:]:
        if not hasattr(thing, part):
            return False
        thing = getattr(thing, part)
    return True


def test_options_exist() -> None:
    """A command in backticks is one, and so is each of its options."""
    for page in PAGES:
        for line, text in spans_of(page):
            if text.startswith("agenda ") and not text.startswith("agenda COMMAND"):
                _assert_known(text, f"{name_of(page)}:{line}: `{text}`")
        for line, cells in _rows(page):
            for text in re.findall(r"`(agenda [^`]+)`", cells[0]):
                options = re.findall(r"`(--[\w-]+)", " ".join(cells[1:]))
                if len(cells) > 1 and options and page.name == "cli.md":
                    _assert_known(" ".join([text, *options]), f"{name_of(page)}:{line}: {text}")


def _rows(page: Path) -> list[tuple[int, list[str]]]:
    lines = page.read_text(encoding="utf-8").splitlines()
    return [
        (number, line.strip("|").split(" | "))
        for number, line in enumerate(lines, start=1)
        if line.startswith("| `agenda ")
    ]


def _assert_known(text: str, where: str) -> None:
    command: click.Command = main
    words = text.replace("\\|", " ").split()[1:]
    context = click.Context(main)
    while words and isinstance(command, click.Group) and not words[0].startswith("-"):
        name = words.pop(0).strip(",")
        found = command.get_command(context, name.split("|")[0])
        assert found is not None, where
        command = found
    options = {
        name for one in command.params for name in (*one.opts, *one.secondary_opts)
    } | {"--help"}  # fmt: skip
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            member = command.get_command(context, name)
            assert member is not None
            options |= {opt for one in member.params for opt in one.opts}
    for word in words:
        if word.startswith("--"):
            assert word.split("=")[0].strip(",)") in options, where


def test_no_page_holds_marks_of_a_merge() -> None:
    """No page has lines that git left where two versions met."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"^(?:<{7} |={7}$|>{7} )", text, re.MULTILINE), name_of(page)


def test_every_page_is_in_the_index() -> None:
    """docs/index.md leads to each page of docs/, those of results by their own index."""
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    results = (ROOT / "docs" / "results" / "index.md").read_text(encoding="utf-8")
    for page in PAGES:
        if page.parent == ROOT / "docs" and page.name != "index.md":
            assert f"({page.name})" in text, page.name
        elif page.parent.name == "results" and page.name != "index.md":
            assert f"({page.name})" in results, page.name


def test_every_page_is_on_the_site() -> None:
    """The site's navigation lists each page of docs/ once."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = re.findall(r": ([\w/-]+\.md)$", text, re.MULTILINE)
    pages = [page.relative_to(ROOT / "docs") for page in PAGES if ROOT / "docs" in page.parents]
    assert sorted(listed) == sorted(page.as_posix() for page in pages)


def test_the_glossary_has_a_row_a_word_in_order() -> None:
    """Rows are sorted, and each word is met in a page or in the code."""
    page = ROOT / "docs" / "glossary.md"
    rows = [
        line.strip("|").split(" | ")[0].strip()
        for line in page.read_text(encoding="utf-8").splitlines()
        if line.startswith("| ") and not line.startswith(("| word", "|---", "| Word"))
    ]
    terms = [re.sub(r" \(.*\)$", "", row.strip("`")) for row in rows]
    assert terms == sorted(terms, key=lambda term: term.lower().replace("-", " ").replace(",", ""))
    elsewhere = " ".join(
        " ".join(other.read_text(encoding="utf-8").split()).lower()
        for other in PAGES
        if other != page
    )
    elsewhere += " ".join(
        " ".join(path.read_text(encoding="utf-8").split()).lower()
        for folder in _CODE[:-2]
        for path in (ROOT / folder).rglob("*.py")
    )
    for term in terms:
        assert re.search(rf"\b{re.escape(term.lower())}", elsewhere), term


def test_fenced_rdl_is_understood() -> None:
    """Every block of RDL on a page is read without a problem."""
    from rdl.expressions import Expression
    from rdl.text.parser import parse

    blocks = [block for page in PAGES for block in blocks_of(page) if block.language == "rdl"]
    assert blocks
    for block in blocks:
        assert isinstance(parse("\n".join(block.lines)), Expression)
