"""`agenda completion`: shell completion of commands, options, and ids of a server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import click
from click.shell_completion import get_completion_class

from service.cli.kit.errors import DONE, CliError, reports_errors

_SHELLS: Final = ("bash", "zsh", "fish")
_VARIABLE: Final = "_AGENDA_COMPLETE"


@click.group()
def completion() -> None:
    """Let a shell complete commands, options, agents, states, and a server's ids.

    SHELL is bash, zsh or fish; by default the one that SHELL names.
    """


_SHELL: Final = click.argument("shell", type=click.Choice(_SHELLS), required=False)


@completion.command()
@_SHELL
@reports_errors
def show(shell: str | None) -> int:
    """Print the lines that a shell reads."""
    click.echo(_source(_present(shell)), nl=False)
    return DONE


@completion.command()
@_SHELL
@reports_errors
def install(shell: str | None) -> int:
    """Write them to the user's completion folder, and print the remaining steps."""
    name = _present(shell)
    path = _place(name)
    text = _source(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    click.echo(path)
    if name == "bash":
        note = "new shells complete where the package bash-completion is; else let .bashrc read it"
    elif name == "zsh":
        note = f"let .zshrc say: fpath+=({path.parent}); autoload -Uz compinit; compinit"
    else:
        note = "new shells complete"
    click.echo(note, err=True)
    return DONE


def _present(shell: str | None) -> str:
    name = shell or Path(os.environ.get("SHELL", "")).name
    if name not in _SHELLS:
        raise CliError(f"name a shell, one of {', '.join(_SHELLS)}; SHELL names none of them")
    return name


def _source(shell: str) -> str:
    kind = get_completion_class(shell)
    assert kind is not None
    try:
        root = click.get_current_context().find_root().command
        return kind(root, {}, "agenda", _VARIABLE).source().rstrip("\n") + "\n"
    except RuntimeError as error:  # bash is too old or missing
        raise CliError(str(error)) from error


def _place(shell: str) -> Path:
    home = Path.home()
    if shell == "bash":
        data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
        return data / "bash-completion" / "completions" / "agenda"
    if shell == "zsh":
        return Path(os.environ.get("ZDOTDIR") or home) / ".zfunc" / "_agenda"
    settings = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    return settings / "fish" / "completions" / "agenda.fish"
