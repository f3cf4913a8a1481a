"""What the pages for readers print: blocks of code, commands, words in backticks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

#: The pages a reader is sent to.
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))

_FENCE = re.compile(r"^```(\w*)\s*$")
_COMMAND = re.compile(r"^(?:[A-Z_]+=\S* )*(?:agenda|make|curl|python|\.ci/\w+|\.venv/bin/\w+) ?")


@dataclass(frozen=True, slots=True)
class Block:
    """One block of code: fenced, or indented by four spaces after an empty line."""

    page: Path
    line: int
    language: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Command:
    """One printed command, its continuation lines joined."""

    page: Path
    line: int
    text: str

    @property
    def where(self) -> str:
        """Page and line, for messages."""
        return f"{name_of(self.page)}:{self.line}"


def name_of(page: Path) -> str:
    """Return the page's path from the root."""
    return page.relative_to(ROOT).as_posix()


def blocks_of(page: Path) -> Iterator[Block]:
    """Yield the blocks of code of a page in order."""
    lines = page.read_text(encoding="utf-8").splitlines()
    number = 0
    while number < len(lines):
        begin = number
        fence = _FENCE.match(lines[number])
        if fence:
            number += 1
            while not lines[number].startswith("```"):
                number += 1
            yield Block(page, begin + 2, fence[1], tuple(lines[begin + 1 : number]))
        elif lines[number].startswith("    ") and (begin == 0 or not lines[begin - 1].strip()):
            while number + 1 < len(lines) and lines[number + 1].startswith("    "):
                number += 1
            yield Block(page, begin + 1, "", tuple(one[4:] for one in lines[begin : number + 1]))
        number += 1


def commands_of(page: Path) -> Iterator[Command]:
    """Yield the commands of a page's blocks in order."""
    for block in blocks_of(page):
        if block.language not in ("", "sh"):
            continue
        number = 0
        while number < len(block.lines):
            begin, text = number, block.lines[number]
            while text.endswith("\\"):
                number += 1
                text = text[:-1].rstrip() + " " + block.lines[number].strip()
            while _COMMAND.match(text) and text.count('"') % 2:
                number += 1
                text = f"{text}\n{block.lines[number]}"
            if _COMMAND.match(text):
                for part in re.split(r"; (?=agenda |python )", re.sub(r"\s+# .*$", "", text)):
                    yield Command(page, block.line + begin, part.strip())
            number += 1


def spans_of(page: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of everything in backticks outside fenced blocks."""
    fenced = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        if line.startswith("```"):
            fenced = not fenced
        elif not fenced:
            for text in re.findall(r"`([^`]+)`", line):
                yield number, text


def printed_application() -> str:
    """Return the first application that docs/dispatch.md prints."""
    blocks = blocks_of(ROOT / "docs" / "dispatch.md")
    return "\n".join(next(block.lines for block in blocks if block.language == "toml")) + "\n"


def printed_runs() -> str:
    """Return the finished runs that docs/estimate.md prints, as Slurm's accounting writes them."""
    blocks = blocks_of(ROOT / "docs" / "estimate.md")
    return "\n".join(next(block.lines for block in blocks if "JobID|" in block.lines[0])) + "\n"
