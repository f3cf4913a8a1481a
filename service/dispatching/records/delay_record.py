"""The start delays learnt by the leader, in the database for every process."""

from __future__ import annotations

from typing import Final

import msgspec

from dispatch.entitlements.start_delay import NO_DELAY, StartDelayTable
from service.store import Store

_SETTING: Final = "start_delays"


def in_seconds(table: StartDelayTable) -> StartDelayTable:
    """Return delays in whole seconds, rounded up, so that they change seldom."""
    return StartDelayTable(
        {kind: -(-delay_ms // 1000) * 1000 for kind, delay_ms in table.delays_ms.items()}
    )


def keep_delays(store: Store, table: StartDelayTable) -> None:
    """Store the learnt delays."""
    record = [[name, size, delay_ms] for (name, size), delay_ms in sorted(table.delays_ms.items())]
    store.replace_setting(_SETTING, msgspec.json.encode(record).decode())


def read_delays(store: Store) -> StartDelayTable:
    """Return the delays last stored by any process; no delays before the first."""
    kept = store.find_setting(_SETTING)
    if kept is None:
        return NO_DELAY
    record = msgspec.json.decode(kept, type=list[tuple[str, int, int]])
    return StartDelayTable({(name, size): delay_ms for name, size, delay_ms in record})
