"""ClientShare: whether a server process has more clients than the others of its server."""

from __future__ import annotations

from typing import Final

from service.host.shared_counts import SharedCounts

_NAME: Final = "clients"

#: Cells in the row of a process: there is one name.
_CELLS: Final = 8


class ClientShare:
    """How many clients each process of a server has, for processes forked from its maker.

    The kernel gives a new client to whichever process is awake first. Clients keep their
    connections, so a process that got most of them would work alone alongside an idle one.

    Parameters
    ----------
    processes
        How many serve one port.
    """

    def __init__(self, processes: int) -> None:
        self._others = processes - 1
        self._counts = SharedCounts(2 * processes + 1, _CELLS)
        self._told = 0

    def tell(self, clients: int) -> None:
        """Say how many clients this process has."""
        if self._others and clients != self._told:
            self._counts.put(_NAME, clients)
            self._told = clients

    def is_ahead(self, clients: int) -> bool:
        """Return whether this process, which has so many, has more than the others on average."""
        if not self._others or not clients:
            return False
        return clients * self._others > self._counts.of_others(_NAME)
