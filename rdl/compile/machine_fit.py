"""Whether a bundle fits into one machine."""

from __future__ import annotations

from rdl.compile.context import MachineShape
from rdl.errors import did_you_mean
from rdl.resources import Resources, format_amount

#: Message and fix.
_Said = tuple[str, str | None]


class MachineFit:
    """Whether a bundle fits into one machine that carries a label; asked once for each pair."""

    def __init__(self, machines: tuple[MachineShape, ...]) -> None:
        self._machines = machines
        self._known: dict[tuple[Resources, str | None], _Said | None] = {}

    def why_not(self, bundle: Resources, label: str | None) -> _Said | None:
        """Return (message, fix) if no machine holds one bundle, else None."""
        key = (bundle, label)
        if key not in self._known:
            self._known[key] = self._look(bundle, label) if self._machines else None
        return self._known[key]

    def _look(self, bundle: Resources, label: str | None) -> _Said | None:
        machines = self._machines
        if label is not None:
            machines = tuple(m for m in machines if label in m.labels)
            if not machines:
                labels = sorted({known for m in self._machines for known in m.labels})
                return f"no machine carries the label {label!r}", did_you_mean(label, labels)
        if any(_fits(bundle, machine.resources) for machine in machines):
            return None
        carries = "" if label is None else f" with the label {label!r}"
        for name, amount in bundle.items_:
            most = max(machine.resources.get(name, 0) for machine in machines)
            if not most:
                known = sorted({n for machine in machines for n in machine.resources})
                return f"no machine{carries} has any {name}", did_you_mean(name, known)
            if amount > most:
                fix = f"the largest has {format_amount(name, most)}"
                return f"{format_amount(name, amount)} is more than any machine{carries} has", fix
        return f"no one machine{carries} has all of <{bundle}> together", None


def _fits(bundle: Resources, machine: Resources) -> bool:
    return all(machine.get(name, 0) >= amount for name, amount in bundle.items_)
