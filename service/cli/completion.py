"""`agenda completion`, and what a shell completes by asking a server: ids, tenants, queues."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click
from click.shell_completion import get_completion_class

from agenda.connection import DEFAULT_URL, Connection
from agenda.settings import token_in
from service.cli.kit.errors import DONE, CliError, reports_errors

#: What can be completed -> the call that lists it, the key of its list, and that of a name.
_LISTED: Final = {
    "reservation": ("/v1/reservations", "reservations", "id"),
    "application": ("/v1/applications", "applications", "id"),
    "hold": ("/v1/holds", "holds", "id"),
    "optimization": ("/v1/optimizations", "optimizations", "id"),
    "outage": ("/v1/cluster/outages", "outages", "id"),
    "webhook": ("/v1/webhooks", "webhooks", "id"),
    "tenant": ("/v1/tenants", "tenants", "name"),
    "queue": ("/v1/cluster", "queues", "name"),
}

#: Nobody waits longer for a completion.
_TIMEOUT_S: Final = 1.0

_SHELLS: Final = ("bash", "zsh", "fish")
_VARIABLE: Final = "_AGENDA_COMPLETE"

Completer = Callable[[click.Context, click.Parameter, str], list[str]]


def completing(kind: str) -> Completer:
    """Return what completes a word by asking the server that the command is for.

    A server that does not answer within a second completes nothing.

    Parameters
    ----------
    kind
        What a name is of: reservation, application, hold, optimization, outage, webhook, tenant or
        queue.
    """
    path, key, name = _LISTED[kind]

    def complete(context: click.Context, _parameter: click.Parameter, begun: str) -> list[str]:
        try:
            reply = _connection(context.params).call("GET", path)
            listed = reply.body[key] if reply.status == 200 else []
            names = [one if isinstance(one, str) else one[name] for one in listed]
        except Exception:  # noqa: BLE001 - whatever is wrong, a shell is told no error here
            return []
        return sorted(one for one in names if one.startswith(begun))

    return complete


def complete_state(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
    """Return the states of reservations that a word begins."""
    from planner.reservations.state import State

    return [state.value for state in State if state.value.startswith(begun)]


def complete_execution_state(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
    """Return the states of applications that a word begins."""
    from dispatch.executions.states import ExecutionState

    return [state.value for state in ExecutionState if state.value.startswith(begun)]


def _connection(given: dict[str, Any]) -> Connection:
    """Return the server that the words before name, by options or by the environment."""
    url = given.get("server") or os.environ.get("AGENDA_SERVER") or DEFAULT_URL
    token = given.get("token") or os.environ.get("AGENDA_TOKEN")
    file = given.get("token_file") or os.environ.get("AGENDA_TOKEN_FILE")
    if not token and file:
        token = token_in(Path(file))
    return Connection(url, token, timeout_s=_TIMEOUT_S)


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
    """Write them to where the shell of this user looks for them, and say what is left to do."""
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
    except RuntimeError as error:  # a bash that is too old, or not there
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
