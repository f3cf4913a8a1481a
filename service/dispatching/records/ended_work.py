"""Reservations with ended work, according to the rows of applications."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from service.dispatching.documents import read_document
from service.store import ApplicationRows, PageOf

#: Applications per read.
_PAGE: Final = 1000


def ended_work(rows: ApplicationRows) -> Iterator[tuple[str, str | None]]:
    """Yield the reservation, and the atom or None, of every ended application.

    Parameters
    ----------
    rows
        Rows of applications; all are read.
    """
    after: tuple[int, str] | None = None
    while True:
        page = rows.page(PageOf(after, limit=_PAGE))
        for row in page:
            if row.over:
                application = read_document(row.document).application
                if application.entitled_by is not None:
                    yield application.entitled_by, application.atom
        if len(page) < _PAGE:
            return
        after = page[-1].submitted_ms, page[-1].id
