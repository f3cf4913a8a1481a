"""Lists of a server, page after page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

#: Entries that a page holds at most.
_PAGE: Final = 1000


class Pages:
    """What a server lists, as one run of entries.

    Parameters
    ----------
    get
        Returns the body of a page, given its query.
    key
        Name of the list in the body.
    query
        What narrows the list.
    limit
        Most entries; None is all.

    Attributes
    ----------
    is_cut
        Once all are read: whether the limit left some out.
    """

    def __init__(
        self,
        get: Callable[[Mapping[str, object]], Mapping[str, Any]],
        key: str,
        query: Mapping[str, object],
        limit: int | None = None,
    ) -> None:
        self._get, self._key, self._query, self._limit = get, key, query, limit
        self.is_cut = False

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        """Yield the entries.

        Raises
        ------
        KeyError, TypeError
            If an answer is no page of such a list.
        """
        cursor: str | None = None
        left = self._limit
        while left is None or left > 0:
            page = _PAGE if left is None else min(_PAGE, left)
            body = self._get({**self._query, "cursor": cursor, "limit": page})
            entries, cursor = body[self._key], body["next"]
            yield from entries
            left = None if left is None else left - len(entries)
            if cursor is None:
                return
        self.is_cut = cursor is not None
