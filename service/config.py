"""ServiceConfig: the settings of `agenda serve`, checked before anything starts."""

from __future__ import annotations

import ipaddress
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from planner.agents import DEFAULT_AGENT

DEFAULT_DATABASE = "sqlite:///agenda.db"

#: Environment variable of the folder in which processes that serve one port share their metrics;
#: prometheus_client reads it on import.
MULTIPROCESS_DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"

#: Range of the lease of executors, in seconds.
MIN_LEASE_S, MAX_LEASE_S = 2.0, 86_400.0


class ConfigError(ValueError):
    """An invalid setting; the message gives a valid one."""


#: Whether callers need a token.
AUTH_MODES = ("none", "token")

#: Settings that must be at least 1, and times in seconds that must be above 0.
_COUNTS = (
    "workers", "threads", "max_body", "connections", "per_address", "streams", "max_batch",
    "group", "snapshot_every", "refused_days", "archive_days", "tenant_waiting",
)  # fmt: skip
_SPANS = ("head_s", "body_s", "answer_s", "agent_s", "ended_days")


@dataclass(frozen=True, slots=True)
class ServiceConfig:
    """Settings of one server.

    Attributes
    ----------
    database
        URL of SQLAlchemy: ``sqlite:///agenda.db`` (a file) or ``postgresql+psycopg://...``.
    cluster
        The cluster file. Needed at the first start; later the stored cluster is used, and a given
        file replaces it where it differs.
    host, port
        Address to listen on. Without tokens only loopback is allowed. Port 0 uses a free port.
    auth
        ``none``: anyone who reaches it may do everything; ``token``: each call shows a token.
    munge
        Socket of this host's munged: users may show its credentials instead of tokens; None: no.
    trusted_header, proxies
        Header in which a trusted proxy gives the user, and the addresses of such proxies.
    rate
        Calls per second that one user may make; 0 for no limit.
    tenant_waiting
        Most requests of one tenant that may wait to be planned.
    names
        Further names of the server (in the header Host), for example if a proxy forwards the name
        used by its clients.
    workers, threads
        Server processes, and threads in each.
    agent
        Agent for requests that name none.
    max_body
        Largest request body in bytes, including chunk framing.
    head_s, body_s
        Time limits for the head of a request to arrive, and for its body after that.
    answer_s
        Time limit for a client that does not read its answer.
    connections, per_address
        Most connections of a server process in total, and from one address.
    streams
        Most event streams of a server process; they do not count as connections.
    max_batch
        Most requests in one batch.
    group
        Most requests placed and appended in one commit.
    snapshot_every
        Records between two snapshots of the Plan.
    refused_days
        Retention of stored answers (Idempotency-Key) and of refusals in the Plan.
    ended_days
        Time that ended reservations stay in the Plan.
    archive_days
        Time that both stay in the archive after that.
    replay_wait_s
        Time that a request waits for the replay of the Plan before the answer is 503.
    offer_s
        Seconds a commit may spend on offers for refusals; later refusals have none.
    agent_s
        Seconds a solver or a portfolio may take for the requests of one commit; it answers with its
        best result then. Only its own callers wait for it.
    plan_timeout_s
        Time that a change may wait to be planned before the answer is 503.
    tick_s
        Pause between two ticks of the dispatcher; 0 for no automatic dispatch.
    skip_records
        Versions of records to skip in every replay from now on.
    log_format
        Format of log lines: ``text`` or ``json``.
    webhook_networks
        Networks, such as 10.0.0.0/8, in which webhooks are allowed in addition to the public
        Internet.
    takeover_s
        Time that the dispatching process may be silent before another takes over; work on its
        machines then restarts.
    executors
        Whether executors run components; otherwise they are simulated in memory, by their sizes.
    lease_s
        After how long without a report an executor, and what it runs, is lost.
    local
        Folder of the executor that the server starts on its own host for all machines; None: it
        starts none.
    mounts
        Folders of this host that images of that executor see; ``:ro`` behind one: only to read.
    slurm
        Settings of the Slurm that runs components as jobs; None for no Slurm.
    kubernetes
        Kubeconfig of the cluster whose Jobs are promised, or ``in-cluster``; None for none.
    dask
        Address of a Dask scheduler for optimisations and comparisons; None to run them in processes
        next to the server.
    clock_file
        File of a :class:`service.clock.FileClock` for demonstrations; None for the machine's clock.
    """

    database: str = DEFAULT_DATABASE
    cluster: Path | None = None
    host: str = "127.0.0.1"
    port: int = 8080
    names: tuple[str, ...] = ()
    workers: int = 2
    threads: int = 16
    agent: str = DEFAULT_AGENT
    max_body: int = 32 * 1024 * 1024
    head_s: float = 10.0
    body_s: float = 60.0
    answer_s: float = 20.0
    connections: int = 512
    per_address: int = 256
    streams: int = 512
    max_batch: int = 20_000
    group: int = 1_000
    snapshot_every: int = 10_000
    refused_days: int = 7
    ended_days: float = 7.0
    archive_days: int = 730
    replay_wait_s: float = 10.0
    offer_s: float = 0.25
    agent_s: float = 10.0
    plan_timeout_s: float = 60.0
    tick_s: float = 1.0
    takeover_s: float = 8.0
    skip_records: tuple[int, ...] = ()
    executors: bool = False
    lease_s: float = 30.0
    local: Path | None = None
    mounts: tuple[str, ...] = ()
    slurm: Path | None = None
    kubernetes: str | None = None
    auth: str = "none"
    munge: str | None = None
    trusted_header: str | None = None
    proxies: tuple[str, ...] = ()
    log_format: str = "text"
    rate: float = 200.0
    tenant_waiting: int = 50_000
    webhook_networks: tuple[str, ...] = ()
    dask: str | None = None
    clock_file: Path | None = None

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises
        ------
        ConfigError
            With the setting and its valid values.
        """
        for name in _COUNTS:
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in _SPANS:
            if not 0 < getattr(self, name) < float("inf"):
                message = f"{name} must be above 0 and finite, not {getattr(self, name)}"
                raise ConfigError(message)
        if not 0 <= self.rate < float("inf"):
            raise ConfigError(f"rate must be 0 or more and finite, not {self.rate}")
        if not 0 <= self.tick_s < float("inf"):
            raise ConfigError(f"tick_s must be 0 or more and finite, not {self.tick_s}")
        # Leadership is renewed by a tick in its second half; one tick may be late.
        least = max(1.0, 4 * self.tick_s)
        if not least <= self.takeover_s < float("inf"):
            message = f"takeover_s must be at least {least:g} and finite, not {self.takeover_s}"
            raise ConfigError(message)
        if not MIN_LEASE_S <= self.lease_s <= MAX_LEASE_S:
            message = f"lease_s must be {MIN_LEASE_S:g} to {MAX_LEASE_S:g}, not {self.lease_s}"
            raise ConfigError(message)
        if self.executors and self.slurm is not None:
            raise ConfigError("components run on executors or in Slurm; give only one")
        if self.kubernetes is not None and (self.executors or self.slurm is not None):
            raise ConfigError("work runs on Kubernetes, on executors or in Slurm; give only one")
        if self.local is not None and not self.executors:
            raise ConfigError("--local is an executor: components must run on executors")
        if self.mounts and self.local is None:
            raise ConfigError("mounts are those of the executor of --local")
        if self.log_format not in ("text", "json"):
            raise ConfigError(f"log_format must be text or json, not {self.log_format!r}")
        for network in self.webhook_networks:
            try:
                ipaddress.ip_network(network)
            except ValueError as error:
                raise ConfigError(f"{error}; write a network such as 10.0.0.0/8") from error
        if not 0 <= self.port <= 65_535:
            raise ConfigError(f"port must be between 0 and 65535, not {self.port}")
        if "://" not in self.database and not self.database.startswith("sqlite:"):
            raise ConfigError(f"{self.database!r} is not a database URL; write sqlite:///agenda.db")
        if self.database in ("sqlite://", "sqlite:///:memory:"):
            raise ConfigError("the Plan must be on disk; write sqlite:///agenda.db")


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def require_access(config: ServiceConfig) -> None:
    """Refuse settings that would allow unauthorised calls.

    Raises
    ------
    ConfigError
        For an address that others can reach without a token, a header without the addresses of
        trusted proxies, or an invalid address.
    """
    if config.auth not in AUTH_MODES:
        raise ConfigError(f"auth must be one of {', '.join(AUTH_MODES)}, not {config.auth!r}")
    if config.auth == "none" and not is_loopback(config.host):
        raise ConfigError(
            f"refusing to listen on {config.host!r} without tokens: anyone who reaches it could "
            "change the Plan; create a token (agenda token create) and serve with --auth token, "
            "or listen on 127.0.0.1, ::1 or localhost"
        )
    if config.munge is not None and config.auth != "token":
        raise ConfigError("munge credentials replace tokens: give --auth token")
    if config.munge is not None and shutil.which("unmunge") is None:
        raise ConfigError("--munge needs the command unmunge, which is not installed")
    if config.local is not None and not is_loopback(config.host):
        raise ConfigError(
            f"refusing to listen on {config.host!r} with --local: anyone who reaches it could run "
            "commands on this host; listen on 127.0.0.1, or run `agenda executor` on other hosts"
        )
    has_token = os.environ.get("AGENDA_TOKEN") or os.environ.get("AGENDA_TOKEN_FILE")
    if config.local is not None and config.auth == "token" and not has_token:
        raise ConfigError(
            "the executor of --local calls the server too: set AGENDA_TOKEN_FILE to a file "
            "with the token of an operator"
        )
    for address in config.proxies:
        try:
            ipaddress.ip_address(address)
        except ValueError as error:
            raise ConfigError(f"a proxy is named by its address, not {address!r}") from error
    if config.trusted_header is not None and not (config.proxies and config.auth == "token"):
        raise ConfigError(
            "a header names users only where a proxy sets it: give --proxy ADDRESS and --auth token"
        )
