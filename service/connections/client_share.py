"""ClientShare: whether a server process has more clients than the others of its server."""

from __future__ import annotations

from typing import Final

from service.host.shared_counts import SharedCounts

_NAME: Final = "clients"

#: Cells in the row of a process: there is only one name.
_CELLS: Final = 8


class ClientShare:
    """Number of clients of each process of a server, for processes forked from its creator.

    The kernel gives a new client to the process that wakes first. Clients keep their connections,
    so that a process with most of them would work while the others are idle.

    Parameters
    ----------
    processes
        Number of processes that serve one port.
    """

    def __init__(self, processes: int) -> None:
        self._others = processes - 1
        self._counts = SharedCounts(2 * processes + 1, _CELLS)
        self._told = 0

    def tell(self, clients: int) -> None:
        """Publish the number of clients of this process."""
        if self._others and clients != self._told:
            self._counts.put(_NAME, clients)
            self._told = clients

    def is_ahead(self, clients: int) -> bool:
        """Return whether `clients` of this process is more than the others' average."""
        if not self._others or not clients:
            return False
        return clients * self._others > self._counts.of_others(_NAME)
