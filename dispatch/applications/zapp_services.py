"""What services of a ZApp share: their names, one monitor, and the variables of environments."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence

from dispatch.applications.document_reader import Fields, brief_text
from dispatch.applications.zapp import ELASTIC, ZappService
from planner.files.errors import FileProblem, FileProblems

_VARIABLES = ("user_name", "execution_id", "execution_name", "deployment_name", "dns_name#self")


def read_pairs(fields: Fields) -> tuple[tuple[str, str], ...]:
    """Return ``environment`` as pairs; a shorter or longer entry breaks Zoe when it runs.

    One that is refused leaves an empty pair, so that the others keep their places.
    """
    pairs: list[tuple[str, str]] = []
    for at, entry in fields.items("environment"):
        if not isinstance(entry, list | tuple) or len(entry) != 2:
            message = f"expected a pair [name, value], not {brief_text(entry)}"
            fields.problems.append(FileProblem(message, at))
            pairs.append(("", ""))
            continue
        name, value = entry
        if not isinstance(name, str) or not isinstance(value, str) or not name:
            message = f"name and value are texts, not {brief_text(entry)}"
            fields.problems.append(FileProblem(message, at))
            name, value = "", ""
        pairs.append((name, value))
    return tuple(pairs)


def check_services(fields: Fields, services: Sequence[ZappService]) -> None:
    """Note names that stand twice, variables that Zoe does not know, and a missing monitor.

    The part of a service that is not essential is called ``<name>-elastic`` here: no other service
    may have that name.
    """
    taken: set[str] = set()
    extended = {f"{one.name}{ELASTIC}": one.name for one in services if one.total > one.essential}
    for index, service in enumerate(services):
        if service.name and service.name in taken:
            message = f"a second service is called {service.name!r}"
            fields.problems.append(FileProblem(message, f"/services/{index}/name"))
        elif service.name in extended:
            message = f"{service.name!r} is what the elastic part of another service is called"
            fix = f"rename it, or make all of {extended[service.name]!r} essential"
            fields.problems.append(FileProblem(message, f"/services/{index}/name", fix=fix))
        taken.add(service.name)
        _check_variables(service, f"/services/{index}", services, fields.problems)
    if services and not any(service.monitor for service in services):
        fields.note("no service has monitor set", "services", "set it for the one that tells")


def _check_variables(
    service: ZappService,
    at: str,
    services: Sequence[ZappService],
    problems: FileProblems,
) -> None:
    """Note every variable in a value that Zoe does not know: it ends the execution there."""
    totals = {one.name: one.total for one in services}
    for index, (_, value) in enumerate(service.environment):
        here = f"{at}/environment/{index}/1"
        try:
            parsed = list(string.Formatter().parse(value))
        except ValueError as error:
            problems.append(FileProblem(f"{brief_text(value)} is not a format: {error}", here))
            continue
        used = dict.fromkeys(name for _, name, _, _ in parsed if name is not None)
        for name in used:
            if not _is_known(name, totals):
                message = f"Unknown variable {name!r} in environment expression {brief_text(value)}"
                fix = f"known variables are {', '.join(_VARIABLES)}, dns_name#<service><number>"
                problems.append(FileProblem(message, here, fix=fix))


def _is_known(name: str, totals: Mapping[str, int]) -> bool:
    if name in _VARIABLES:
        return True
    # A service's name may end in digits itself, so every split has to be tried.
    reference = name.removeprefix("dns_name#")
    digits = len(reference) - len(reference.rstrip("0123456789"))
    if reference == name:
        return False
    for length in range(1, min(digits, 9) + 1):
        service, number = reference[:-length], reference[-length:]
        if int(number) < totals.get(service, 0) and str(int(number)) == number:
            return True
    return False
