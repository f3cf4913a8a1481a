"""ClockGuard: a clock that runs ahead at once is not followed, also after a restart."""

from __future__ import annotations

import pytest

from service.store.host_clock import BELIEVED_S, ClockGuard, confirm_clock

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


class _Host:
    """A host with a wall clock, a steady one, and the settings of a database."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wall_ms, self.steady_ms, self.boot = 1_000 * DAY_MS, 5_000, "one"
        self.settings: dict[str, str] = {}
        monkeypatch.setattr("service.store.host_clock._LOOK_S", 0.0)

    def find_setting(self, name: str) -> str | None:
        return self.settings.get(name)

    def replace_setting(self, name: str, value: str) -> None:
        self.settings[name] = value

    def pass_time(self, ms: int) -> None:
        self.wall_ms += ms
        self.steady_ms += ms

    def reboot(self) -> None:
        self.boot, self.steady_ms = f"{self.boot} more", 0

    def server(self) -> ClockGuard:
        """Start a server process: what it knows is in the settings once it has looked."""
        guard = ClockGuard(self, lambda: self.wall_ms, lambda: self.steady_ms, self.boot)
        guard.look()
        return guard


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> _Host:
    """Return a host whose clock is right."""
    return _Host(monkeypatch)


def test_time_that_passes_is_followed_and_so_is_a_clock_that_goes_back(host: _Host) -> None:
    """A weekend, asleep or not, an hour back, and small steps ahead."""
    guard = host.server()
    host.pass_time(3 * DAY_MS)
    assert guard.now_ms() == host.wall_ms
    host.wall_ms -= HOUR_MS
    assert guard.now_ms() == host.wall_ms
    host.wall_ms += HOUR_MS
    assert (guard.now_ms(), guard.fault) == (host.wall_ms, None)
    host.wall_ms += 59_000
    assert (guard.now_ms(), guard.fault) == (host.wall_ms, None)


def test_a_jump_ahead_is_not_followed_and_leaves_no_trace(host: _Host) -> None:
    """For as long as the clock is wrong time continues by the steady one."""
    guard = host.server()
    right = host.wall_ms
    host.wall_ms += 40 * DAY_MS
    assert guard.now_ms() == right
    assert guard.fault is not None
    host.pass_time(4_000)
    guard.look()
    assert guard.now_ms() == right + 4_000
    host.wall_ms -= 40 * DAY_MS
    assert (guard.now_ms(), guard.fault) == (host.wall_ms, None)
    guard.look()
    host.reboot()
    host.wall_ms += DAY_MS
    assert host.server().fault is None


def test_it_is_followed_once_it_is_confirmed_or_stays_so(host: _Host) -> None:
    """By each process of the database; an earlier confirmation says nothing of a later jump."""
    guards = [host.server(), host.server()]
    host.wall_ms += 3 * HOUR_MS
    assert all(guard.fault for guard in guards)
    confirm_clock(host, host.wall_ms)
    for guard in guards:
        guard.look()
        assert (guard.now_ms(), guard.fault) == (host.wall_ms, None)
    host.wall_ms += 3 * HOUR_MS
    for guard in guards:
        guard.look()
        assert guard.fault is not None
    host.pass_time(BELIEVED_S * 1000)
    for guard in guards:
        assert (guard.now_ms(), guard.fault) == (host.wall_ms, None)


def test_a_restart_is_no_way_round(host: _Host) -> None:
    """Neither of the server after the jump, nor of the host while it was open."""
    host.server()
    right = host.wall_ms
    host.wall_ms += 3 * HOUR_MS
    restarted = host.server()
    assert restarted.now_ms() == right
    assert restarted.fault is not None
    host.reboot()
    rebooted = host.server()
    assert rebooted.now_ms() == right
    assert rebooted.fault is not None


def test_a_server_that_was_off_starts(host: _Host) -> None:
    """For a weekend, on a host that stayed up or was off as well."""
    host.server()
    host.pass_time(3 * DAY_MS)
    assert host.server().fault is None
    host.reboot()
    host.wall_ms += 3 * DAY_MS
    assert host.server().now_ms() == host.wall_ms
