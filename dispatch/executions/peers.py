"""Peers: where the other components of an application run, and the ports of each.

A component gets its ports when it is started: from a range, none twice on a host. Hosts and ports
that its command and its environment name by placeholders (`dispatch.applications.placeholders`) are
filled in then. Components that are not placed yet, such as elastic ones that start later, are
replaced by an empty text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from dispatch.applications.application import Component
from dispatch.applications.placeholders import (
    PLACEHOLDER,
    find_replica,
    port_of,
    port_variable,
)
from dispatch.executions.assignment import Delta
from dispatch.executions.execution import Execution, HeldComponent
from dispatch.executions.table import ExecutionTable

#: Ports that components get, below those that Linux gives to outgoing connections.
PORTS: Final = range(12_000, 20_000)

#: Most components of an application of which each knows the others.
MOST_PEERS: Final = 200

#: Longest list of them: podman and docker read lines of less than 64 KiB.
MOST_PEER_BYTES: Final = 60_000


@dataclass(frozen=True, slots=True)
class Launch:
    """A component to start.

    Attributes
    ----------
    execution, component, held
        The component to start; its replica and machine are those of `held`.
    command
        With hosts and ports filled in; None if it has none.
    environment
        The requested component with placeholders filled in, and its peers.
    """

    execution: Execution
    component: Component
    held: HeldComponent
    command: str | None
    environment: dict[str, str]


#: Returns the address of a replica: of its execution, its component, and itself.
Address = Callable[[Execution, str, HeldComponent], str]


class PeerBook:
    """Assigns ports to components that start, and gives them their peers.

    Parameters
    ----------
    table
        The executions.
    first
        First port of the range to try, so that two servers on a host start at different ports.
    address
        Returns the address of a replica of a component of an execution, where each has one of its
        own; without, it is that of its machine.
    """

    def __init__(
        self, table: ExecutionTable, first: int = 0, address: Address | None = None
    ) -> None:
        self._table = table
        self._address = address
        self._next = first % len(PORTS)
        self._hosts: Mapping[str, str] = {}
        self._told: dict[str, str] = {}  # since `give_ports`, by execution

    def tenant_of(self, execution: str) -> str | None:
        """Return the tenant of an execution; None if the table does not have it."""
        known = self._table.get(execution)
        return None if known is None else known.tenant

    def give_ports(
        self, deltas: Iterable[Delta], hosts: Mapping[str, str], taken: Iterable[tuple[str, int]]
    ) -> dict[Delta, str]:
        """Give their ports to components that are about to start.

        If a core component lacks one, nothing of its execution starts: it could not stay.

        Parameters
        ----------
        deltas
            The starts.
        hosts
            Host of each machine.
        taken
            Hosts and ports of running and ending components; read only if a component has ports.

        Returns
        -------
        dict
            The starts that lack a port, each with the reason.
        """
        self._hosts = hosts
        self._told.clear()
        missing: dict[Delta, str] = {}
        used: set[tuple[str, int]] | None = None
        starts: dict[str, list[Delta]] = {}
        for delta in deltas:
            starts.setdefault(delta.execution, []).append(delta)
        for gang in starts.values():
            given: set[tuple[str, int]] = set()
            fresh: list[HeldComponent] = []
            for delta in gang:
                execution, part, held = self._table.placed(delta)
                if not part.component.ports or held.ports:
                    continue
                used = {*taken, *self._given()} if used is None else used
                ports = self._choose(
                    part.component, self._host(execution, part.component, held), used, given
                )
                if not isinstance(ports, str):
                    fresh.append(held)
                    held.ports = ports
                elif part.component.core:
                    used -= given
                    missing.update(dict.fromkeys(gang, ports))
                    for held in fresh:
                        held.ports = ()
                    break
                else:
                    missing[delta] = ports
        return missing

    def _choose(
        self,
        component: Component,
        host: str,
        used: set[tuple[str, int]],
        given: set[tuple[str, int]],
    ) -> tuple[int, ...] | str:
        """Return ports for a component, or why it lacks one; add them to those of its execution."""
        ports: list[int] = []
        for name in component.ports:
            port = port_of(name)[1] or self._free_port(host, used)
            if port is None:
                return f"no port is free on {host}"
            if (host, port) in given:
                return f"port {port} is needed twice on {host}"
            if (host, port) in used:
                return f"port {port} is in use on {host}"
            ports.append(port)
            used.add((host, port))
            given.add((host, port))
        return tuple(ports)

    def _given(self) -> Iterator[tuple[str, int]]:
        """Yield the hosts and ports of the components that the table has on machines."""
        for execution in self._table:
            for part in execution.parts:
                for held in part.held:
                    for port in held.ports:
                        yield self._host(execution, part.component, held), port

    def _free_port(self, host: str, used: set[tuple[str, int]]) -> int | None:
        """Return a port of the range that is free on a host: not soon one that was given before."""
        for _ in PORTS:
            port = PORTS[self._next]
            self._next = (self._next + 1) % len(PORTS)
            if (host, port) not in used:
                return port
        return None

    def launch(self, delta: Delta) -> Launch:
        """Return the component that a delta starts, after `give_ports`."""
        execution, part, held = self._table.placed(delta)
        component = part.component
        own = _named_ports(component, held)
        given = {port_variable(name): str(own[name]) for name in own}
        given["AGENDA_HOST"] = self._host(execution, component, held)
        if peers := self._peers_text(execution):
            given["AGENDA_PEERS"] = peers
        environment = {
            name: self._filled(value, execution, component, held)
            for name, value in component.environment
        }
        task, book = held.task, execution.tasks
        if task is not None and book is not None:
            given |= {"AGENDA_TASK": str(task), "AGENDA_TASKS": str(book.count)}
        command = component.command
        if command is not None:
            command = self._filled(command, execution, component, held)
        return Launch(execution, component, held, command, {**environment, **given})

    def _host(self, execution: Execution, component: Component, held: HeldComponent) -> str:
        if self._address is not None:
            return self._address(execution, component.name, held)
        return self._hosts.get(held.machine, held.machine)

    def _peers_text(self, execution: Execution) -> str:
        """Return the peers of an execution as JSON; empty if its components do not use them.

        Every run stores the peers, so large numbers of components or tasks do not get them.
        """
        count = sum(one.count for one in execution.application.components)
        if execution.tasks is not None or not 1 < count <= MOST_PEERS:
            return ""
        if execution.id not in self._told:
            peers = json.dumps(self._peers(execution))
            self._told[execution.id] = peers if len(peers) <= MOST_PEER_BYTES else ""
        return self._told[execution.id]

    def _peers(self, execution: Execution) -> dict[str, list[dict[str, object]]]:
        """Return by component where each replica of it is now."""
        return {
            part.component.name: [
                {
                    "name": f"{part.component.name}{one.index}",
                    "host": self._host(execution, part.component, one),
                    "ports": _named_ports(part.component, one),
                }
                for one in sorted(part.held, key=lambda one: one.index)
            ]
            for part in execution.parts
        }

    def _filled(
        self, text: str, execution: Execution, component: Component, own: HeldComponent
    ) -> str:
        """Return a text with hosts and ports instead of their placeholders."""

        def fill(match: re.Match[str]) -> str:
            kind, word = match.groups()
            if kind == "agenda":
                return {"tenant": execution.tenant, "application": execution.id}.get(word, "")
            whose, dot, port = word.rpartition(".") if kind == "port" else (word, "", "")
            found: tuple[Component, HeldComponent] | None = (component, own)
            if whose != "self" and (dot or kind == "dns_name"):
                found = _replica(execution, whose)
            if found is None:
                return ""
            if kind == "dns_name":
                return self._host(execution, *found)
            return str(_named_ports(*found).get(port, ""))

        if own.task is not None:
            text = text.replace("{task}", str(own.task))
        return PLACEHOLDER.sub(fill, text)


def _named_ports(component: Component, held: HeldComponent) -> dict[str, int]:
    names = (port_of(one)[0] for one in component.ports)
    return dict(zip(names, held.ports, strict=False))


def _replica(execution: Execution, word: str) -> tuple[Component, HeldComponent] | None:
    """Return the replica that a word such as ``worker2`` names; None if it is not placed."""
    found = find_replica(execution.application, word)
    if found is None:
        return None
    name, index = found
    part = next(one for one in execution.parts if one.component.name == name)
    held = next((one for one in part.held if one.index == index), None)
    return None if held is None else (part.component, held)
