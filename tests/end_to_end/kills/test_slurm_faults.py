"""Random faults of a real Slurm and of the server: nothing lost, run twice, promised and late."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import pytest

from dispatch.backends.slurm.control.commands import instant_word
from dispatch.backends.slurm.control.errors import SlurmError
from dispatch.backends.slurm.control.records import SlurmJob
from dispatch.backends.slurm.reserved.kept_promises import (
    Verdict,
    promise_record,
    reservations_of,
)
from tests.end_to_end.kills.fault_log import REACTION_S, Absence, longest_calm_s
from tests.end_to_end.server_process import Client
from tests.end_to_end.slurm_lab import NODES, SlurmLab, part, resume, until

#: Each kind once, in the run that is always done.
FEW = ("node", "slurmctld", "drain", "server", "blink", "cancel", "slurmdbd")

#: How long at least and at most a daemon that is not a node's stays away, s.
AWAY_S = {"slurmctld": (0, 3), "slurmdbd": (0, 12)}

SECONDS = float(os.environ.get("AGENDA_SOAK_SECONDS", "3600"))

#: From a request to its deadline, s, and for how long it holds nodes. A silent node is lost after 6
#: and a server starts in 10: where the agent plans late, the last 40 leave time to run 3 s again;
#: where it plans early, what a short lease missed is planned again in the rest of the window.
WINDOW_S = int(os.environ.get("AGENDA_SOAK_WINDOW", "120"))
LEASE_S = int(os.environ.get("AGENDA_SOAK_LEASE", "40"))
AGENT = os.environ.get("AGENDA_SOAK_AGENT", "gree-l")
#: What was decided so soon after the last of a gang had ended, s, did not know of it yet.
LOOK_S = 2
#: The reaction, s, where other tests use the same machine.
BUSY_REACTION_S = 40.0
PAUSE_S = float(os.environ.get("AGENDA_SOAK_PAUSE", "25"))


@dataclass(slots=True)
class FaultStory:
    """What was asked, promised and done to a Slurm.

    Attributes
    ----------
    since_s
        When it began, Unix time.
    applications
        Ids of those that must complete.
    windows
        From when to when each accepted reservation could be kept, Unix time.
    absences
        What was away, and when.
    told
        Id of each reservation, its state at the end and the words of its history.
    refused, faults
        How many requests were refused, and faults by kind.
    reaction_s
        How much longer than a lease calm must be until a promise is late for no fault.
    """

    since_s: int
    reaction_s: float = REACTION_S
    applications: list[str] = field(default_factory=list)
    windows: dict[str, tuple[float, int]] = field(default_factory=dict)
    absences: list[Absence] = field(default_factory=list)
    told: dict[str, tuple[str, list[str]]] = field(default_factory=dict)
    refused: int = 0
    faults: Counter[str] = field(default_factory=Counter)


def ask(lab: SlurmLab, story: FaultStory, rng: random.Random) -> None:
    """Ask for a promise with a gang in it, and for best effort alongside it."""
    number = len(story.applications)
    nodes, id_ = rng.randint(1, 2), f"p{number}"
    deadline_s = int(time.time()) + WINDOW_S
    gang = f"{nodes}, {nodes}, {LEASE_S}, {LEASE_S * nodes}"
    rdl = f"deadline(atom(<4 cpu>, {gang}), +{WINDOW_S})"
    assert lab.port is not None
    body = {"id": id_, "rdl": rdl, "tenant": "root", "agent": AGENT}
    status, _ = Client(lab.port).call("POST", "/v1/reservations", body)
    if status < 300:
        story.windows[id_] = time.time(), deadline_s
        lab.submit(f"g{number}", part("w", nodes, "sleep 3"), reservation=id_)
        story.applications.append(f"g{number}")
    else:
        story.refused += 1
    lab.submit(f"b{number}", part("w", rng.randint(1, 2), "sleep 2", cpu=2))
    story.applications.append(f"b{number}")


def cause(lab: SlurmLab, kind: str, rng: random.Random) -> Absence:
    """Cause one fault, and repaired what does not come back of itself; return what was away."""
    node, since_s = f"n{rng.randint(1, NODES)}", time.time()
    match kind:
        case "node" | "blink":
            lab.slurm.kill(node)
            time.sleep(rng.uniform(8, 12) if kind == "node" else 0.5)
            lab.slurm.start(node)
        case "slurmctld" | "slurmdbd":
            lab.slurm.kill(kind)
            time.sleep(rng.uniform(*AWAY_S[kind]))
            lab.slurm.start(kind)
        case "server":
            assert lab.server is not None
            lab.server.kill()
            lab.serve()
        case "drain":
            change = ("scontrol", "update", f"nodename={node}")
            lab.slurm.commands.run(*change, "state=drain", "reason=soak")
            time.sleep(rng.uniform(2, 6))
            resume(lab, node)
        case "cancel":
            elastic = lab.running("fill", "e")
            lab.slurm.commands.cancel(job.id for job in elastic[:1])
    until(lambda: can_answer(lab))
    what = node if kind in ("node", "blink", "drain") else kind
    return Absence(what, since_s, time.time())


def can_answer(lab: SlurmLab) -> bool:
    """Return whether slurmctld answers, and slurmdbd."""
    try:
        lab.slurm.commands.accounted_runs("now")
        return bool(lab.slurm.commands.nodes())
    except SlurmError:
        return False


def play(
    lab: SlurmLab,
    kinds: Iterable[str],
    seed: int,
    seconds: float,
    pause_s: float,
    reaction_s: float,
) -> FaultStory:
    """Ask and cause faults in turn; return when every application has completed."""
    rng, ends = random.Random(seed), time.monotonic() + seconds
    story = FaultStory(int(time.time()), reaction_s)
    lab.submit("fill", part("c", 1, "sleep 86400"), part("e", 3, "sleep 86400", core=False))
    for kind in kinds:
        if time.monotonic() > ends:
            break
        ask(lab, story, rng)
        time.sleep(rng.uniform(0, pause_s))
        story.absences.append(cause(lab, kind, rng))
        story.faults[kind] += 1
    lab.slurm.wait_for_nodes()
    for id_ in story.applications:
        until(lambda id_=id_: lab.application(id_)["state"] in ("completed", "failed"), 300)  # type: ignore[misc]
    lab.call("DELETE", "/v1/applications/fill")
    until(lambda: is_accounted(lab), 300)
    return story


def is_accounted(lab: SlurmLab) -> bool:
    """Return whether the accounting knows how each run has ended that slurmctld remembers.

    It is a little behind; after slurmdbd was unavailable somewhat more.
    """
    jobs = [job for job in lab.slurm.jobs(f"{lab.prefix}/") if job.started_s]
    told = {run.id for run in lab.slurm.commands.accounted_runs("now-1hour") if not run.is_open}
    return all(not job.is_open and job.id in told for job in jobs)


def records_of(lab: SlurmLab, story: FaultStory) -> list[SlurmJob]:
    """Return what Slurm's accounting has of the components."""
    runs = lab.slurm.commands.accounted_runs(instant_word(story.since_s))
    return [run for run in runs if run.name.startswith(f"{lab.prefix}/")]


def faults_of(
    story: FaultStory, records: Sequence[SlurmJob], states: Mapping[str, str]
) -> list[str]:
    """Return what must not be: an application lost, a component twice at once, a promise late."""
    faults = [f"{id_} is {state}" for id_, state in states.items() if state != "completed"]
    by_name: dict[str, list[SlurmJob]] = defaultdict(list)
    for run in records:
        if run.started_s:
            by_name[run.name].append(run)
    #: A gang that loses one begins again, with those that had ended.
    anew = {run.name.split("/")[1] for run in records if run.state != "COMPLETED"}
    good_ends: dict[str, list[int]] = defaultdict(list)
    for run in records:
        if run.state == "COMPLETED":
            good_ends[run.name.split("/")[1]].append(run.ends_s)
    for name, runs in by_name.items():
        runs.sort(key=lambda run: (run.started_s, run.id))
        for before, after in pairwise(runs):
            if not before.ends_s or after.started_s < before.ends_s:
                faults.append(f"{name} ran twice at once: jobs {before.id} and {after.id}")
            whole_s = max(
                (end for end in good_ends[name.split("/")[1]] if end <= after.submitted_s),
                default=0,
            )
            seen = after.submitted_s - whole_s > LOOK_S
            if before.state == "COMPLETED" and name.split("/")[1] not in anew and seen:
                gang = [run for run in records if run.name.split("/")[1] == name.split("/")[1]]
                begin_s = min(run.submitted_s for run in gang)
                tale = course_of(story, (begin_s, after.started_s), gang)
                faults.append(f"{name} ran again after it had completed: job {after.id}; {tale}")
    by_id = reservations_of(records)
    for id_, verdict in verdicts_of(story, records).items():
        if verdict in ("late", "untold"):
            faults.append(f"the promise of {id_} is {verdict}: {tale_of(story, id_, by_id)}")
    return faults


def verdicts_of(story: FaultStory, records: Sequence[SlurmJob]) -> dict[str, str]:
    """Return the outcome of each promise, by the rule of `fault_log`.

    ``kept``; ``timeless``: faults left it no time, and its owner was notified; ``untold``: he was
    not; ``late``: it had the time.
    """
    by_id = reservations_of(records)
    found: dict[str, str] = {}
    for id_, window in story.windows.items():
        runs = by_id.get(id_, [])
        verdict = promise_record(id_, runs, window[1], 2**40).verdict if runs else Verdict.LATE
        if verdict is Verdict.IN_TIME:
            found[id_] = "kept"
        elif longest_calm_s(window, story.absences, runs) >= LEASE_S + story.reaction_s:
            found[id_] = "late"
        else:
            is_told = story.told.get(id_, ("", []))[0] in ("failed", "degraded")
            found[id_] = "timeless" if is_told else "untold"
    return found


def tale_of(story: FaultStory, id_: str, runs: Mapping[str, Sequence[SlurmJob]]) -> str:
    """Return what there is to say of a promise, in s from when it was made."""
    begin_s, end_s = window = story.windows[id_]
    told = story.told.get(id_, ("", []))
    course = course_of(story, window, runs.get(id_, []))
    return f"deadline {end_s - begin_s:.0f}; {course}; told: {told}"


def course_of(story: FaultStory, window: tuple[float, float], runs: Sequence[SlurmJob]) -> str:
    """Return what was away in a window and what ran, in s from its begin."""
    begin_s, end_s = window
    away = [
        f"{one.what} {one.since_s - begin_s:.0f} to {one.until_s - begin_s:.0f}"
        for one in story.absences
        if one.until_s > begin_s and one.since_s < end_s
    ]
    ran = [
        f"job {run.id} of {run.name.split('/')[-1]} on {','.join(run.nodes) or '-'} "
        f"asked {run.submitted_s - begin_s:.0f}, ran {run.started_s - begin_s:.0f} "
        f"to {run.ends_s - begin_s:.0f}, {run.state}"
        for run in sorted(runs, key=lambda run: run.id)
    ]
    return f"away: {away}; runs: {ran}"


def note_what_was_told(lab: SlurmLab, story: FaultStory) -> None:
    """Note the outcome of the promises, as their owner sees it."""
    for id_ in story.windows:
        shown = lab.call("GET", f"/v1/reservations/{id_}")
        words = [
            f"{entry['what']} at {entry['at_at']}: {entry.get('detail', '')}"
            for entry in shown["history"]
        ]
        story.told[id_] = str(shown["state"]), words


def judged(
    folder: Path,
    kinds: Iterable[str],
    seed: int,
    seconds: float,
    pause_s: float,
    reaction_s: float = REACTION_S,
) -> list[str]:
    """Play on a server of its own; print what there was and return the faults.

    What Slurm's daemons logged is left in the folder, for anyone who asks why.
    """
    with ExitStack() as stack:
        lab = SlurmLab(folder, stack)
        stack.callback(lab.close)
        lab.serve()
        story = play(lab, kinds, seed, seconds, pause_s, reaction_s)
        states = {id_: str(lab.application(id_)["state"]) for id_ in story.applications}
        records = records_of(lab, story)
        note_what_was_told(lab, story)
        shutil.copytree(lab.slurm.folder / "log", folder / "daemons", dirs_exist_ok=True)
    told = Counter(
        word for _, words in story.told.values() for word in {one.split()[0] for one in words}
    )
    verdicts = verdicts_of(story, records)
    print(
        f"\n{sum(story.faults.values())} faults {dict(story.faults)}; {len(states)} applications, "
        f"{len(records)} runs of components; promises {dict(Counter(verdicts.values()))}, "
        f"{story.refused} refused; informed of them {dict(told)}",
        flush=True,
    )
    faults = faults_of(story, records, states)
    print("\n".join(faults), flush=True)
    return faults


@pytest.mark.slurm
def test_a_fault_of_each_kind_loses_and_repeats_nothing_and_breaks_no_promise(
    tmp_path: Path,
) -> None:
    """By Slurm's own accounting, on a machine that is busy with other tests."""
    assert judged(tmp_path, FEW, 1, 1800, 4, BUSY_REACTION_S) == []


@pytest.mark.soak
@pytest.mark.slurm
def test_an_hour_of_random_faults_loses_and_repeats_nothing_and_breaks_no_promise(
    tmp_path: Path,
) -> None:
    """The same at random for AGENDA_SOAK_SECONDS, from a seed that is reported."""
    seed = int(os.environ.get("AGENDA_SOAK_SEED") or random.SystemRandom().randrange(10**9))
    print(f"\nAGENDA_SOAK_SEED={seed}")
    rng = random.Random(seed)
    kinds = iter(lambda: rng.choice(FEW), "")
    assert judged(tmp_path, kinds, seed, SECONDS, PAUSE_S) == []


def run_of(name: str, state: str, started_s: int, ends_s: int) -> SlurmJob:
    """Return one run of a component for the reservation p0, whose deadline is 100."""
    comment = "agenda tenure=1 reservation=p0"
    return SlurmJob(
        started_s, name, "root", comment, state, "", ("n1",), submitted_s=started_s,
        started_s=started_s, ends_s=ends_s,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("runs", "state", "count"),
    [
        ([run_of("t/g0/w/0", "COMPLETED", 10, 20)], "completed", 0),
        ([run_of("t/g0/w/0", "COMPLETED", 10, 20)], "failed", 1),
        ([run_of("t/g0/w/0", "COMPLETED", 110, 120)], "completed", 1),
        ([run_of("t/g0/w/0", "NODE_FAIL", 90, 99), run_of("t/g0/w/0", "COMPLETED", 110, 120)],
         "completed", 1),
        ([run_of("t/g0/w/0", "NODE_FAIL", 10, 30), run_of("t/g0/w/0", "COMPLETED", 20, 40)],
         "completed", 1),
        ([run_of("t/g0/w/0", "COMPLETED", 10, 20), run_of("t/g0/w/0", "COMPLETED", 30, 40)],
         "completed", 1),
        ([run_of("t/g0/w/0", "COMPLETED", 10, 20), run_of("t/g0/w/0", "COMPLETED", 30, 40),
          run_of("t/g0/w/1", "NODE_FAIL", 10, 15), run_of("t/g0/w/1", "COMPLETED", 30, 40)],
         "completed", 0),
    ],
)  # fmt: skip
def test_what_is_lost_twice_or_late_is_noticed(
    runs: list[SlurmJob], state: str, count: int
) -> None:
    """The judge of this file can find something."""
    story = FaultStory(0, applications=["g0"], windows={"p0": (0, 100)})
    assert len(faults_of(story, runs, {"g0": state})) == count


SERVER, NODE = Absence("server", 30, 70), Absence("n1", 2, 6)
LOST = run_of("t/g0/w/0", "NODE_FAIL", 0, 8)
LATE = run_of("t/g0/w/0", "COMPLETED", 110, 120)


@pytest.mark.parametrize(
    ("absences", "runs", "calm_s"),
    [
        ([], [LATE], 100),
        ([SERVER], [LATE], 30),
        ([SERVER, Absence("slurmctld", 20, 25)], [LATE], 30),
        ([SERVER, Absence("slurmctld", 5, 40)], [LATE], 30),
        ([SERVER, NODE], [LATE], 30),  # nothing ran on it
        ([SERVER, NODE], [LOST, LATE], 30),
        ([SERVER, Absence("n2", 2, 6)], [LOST, LATE], 30),
        ([Absence("server", 0, 70), NODE], [LOST], 30),
        ([Absence("server", -20, 120)], [], 0),
    ],
)
def test_calm_is_what_no_fault_has_taken(
    absences: list[Absence], runs: list[SlurmJob], calm_s: float
) -> None:
    """Of a window of 100 s."""
    assert longest_calm_s((0, 100), absences, runs) == calm_s


def test_a_run_that_a_fault_of_its_node_ended_is_no_calm() -> None:
    """One that ended badly of itself is; of a node that was down when asked all since then is."""
    run = run_of("t/g0/w/0", "NODE_FAIL", 40, 60)
    waited = replace(run, submitted_s=33)
    assert longest_calm_s((0, 100), [Absence("n1", 30, 36)], [waited]) == 40
    assert longest_calm_s((0, 100), [Absence("n1", 30, 36), SERVER], [waited]) == 30
    assert longest_calm_s((0, 90), [Absence("n1", 30, 36)], [waited]) == 33
    assert longest_calm_s((0, 100), [Absence("n1", 45, 50)], [run]) == 40
    assert longest_calm_s((0, 100), [Absence("n2", 45, 50)], [run]) == 100


@pytest.mark.parametrize(
    ("told", "away", "verdict"),
    [
        ("failed", [SERVER], "timeless"),
        ("completed", [SERVER], "untold"),
        ("failed", [Absence("server", 10, 20)], "late"),
    ],
)
def test_a_promise_is_broken_rightly_where_no_time_was_left_and_its_owner_told(
    told: str, away: list[Absence], verdict: str
) -> None:
    """Both, and nothing else."""
    story = FaultStory(0, windows={"p0": (0, 100)}, absences=away, told={"p0": (told, [])})
    assert verdicts_of(story, [LATE]) == {"p0": verdict}
