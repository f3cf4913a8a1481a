"""Histories of small Plans in which everything that proposes changes takes its turn.

A history asks a chooser for every number, so that the same code serves tests that draw examples and
the soak that draws from a seed. Whatever is proposed is prepared on the version that it was found
on; each step ends with the adapter's answer and the independent validator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from planner.adaptation.adapter import adapt, needs_adaptation
from planner.adaptation.drain import drained_from, least_held
from planner.agent import Limits
from planner.agents import agent_named
from planner.cluster.cluster import Cluster, Outage, Queue
from planner.cluster.policy import DisplacementRule, Scope
from planner.displacement import DisplacementAsk, displace
from planner.offer_search import OfferSearch
from planner.optimization.optimizer import optimize
from planner.optimization.result import OptimizeOptions, OptimizeScope
from planner.plan.plan import Plan
from planner.plan.records.changes import (
    Admit,
    Advance,
    Cancel,
    Change,
    Close,
    Reconfigure,
    Update,
)
from planner.promise import PromiseLevel
from planner.renegotiation import renegotiation_of
from planner.replanning.displacement_search import FOR_ROOM, may_displace
from planner.request import Request
from planner.reservations.state import LIVE, State
from planner.validation.document import PlanViolation
from planner.validation.validate import validate
from rdl.compile.compiler import compile_source
from rdl.errors import RdlError
from rdl.resources import Resources
from tests.builders import a_request
from tests.planner.plan.plan_json import plan_json
from tests.planner.plan.slots.slot_history import Chooser, a_small_cluster, expression

#: How far each repair is improved.
EFFORT = Limits(work=6, seed=1)


class MixedHistory:
    """One Plan and what is done to it.

    Parameters
    ----------
    choose
        Makes every choice.
    others
        Whether others also take a part of some machines.
    """

    def __init__(self, choose: Chooser, *, others: bool = False) -> None:
        self.choose, self.others = choose, others
        cluster = a_small_cluster(choose)
        cluster = replace(cluster, queues=(*cluster.queues, Queue("urgent")))
        if choose(0, 2):
            rule = DisplacementRule("urgent", Scope(queue="urgent"), running=bool(choose(0, 1)))
            cluster = replace(cluster, policies=(*cluster.policies, rule))
        #: The machines there ever were, and the outages they had: by it the past is judged too.
        self.all_machines = cluster.machines
        self.away: list[Outage] = []
        #: Where an outage was ever to begin: one that is taken back before leaves stays cut there.
        self.cuts: set[int] = set()
        self.agent = agent_named("gree-l")
        self.plan = Plan(cluster, cluster.grid())
        self.number = 0
        self.done: list[str] = []

    def step(self) -> None:
        """Let one thing happen, let the adapter answer, and check the Plan."""
        kind = self.choose(0, 15)
        if kind <= 6:
            self._admit()
        elif kind == 7:
            self._update()
        elif kind == 8:
            self._end()
        elif kind <= 10:
            step = min(self.plan.now + self.choose(1, 5), self.plan.grid.horizon - 1)
            self._commit([Advance(step, self.plan.grid.horizon + self.choose(0, 6))])
        elif kind <= 14:
            self._change_machines()
        else:
            self._optimize()
        self._adapt()
        self._check()

    def _propose(self, changes: Sequence[Change], based_on: int, what: str) -> None:
        """Prepare what was found on this very version: it has no conflict."""
        if not changes:
            return
        assert based_on == self.plan.version
        prepared = self.plan.prepare(changes, based_on, joint=True)
        self.done.append(
            f"{what}: {[(type(one).__name__, getattr(one, 'id', '')) for one in changes]}"
        )
        assert prepared.record is not None, (what, prepared.conflicts)
        self.plan.apply(prepared.record, prepared.takings)

    def _commit(self, changes: Sequence[Change]) -> bool:
        prepared = self.plan.prepare(changes, self.plan.version, atomic=True)
        self.done.append(f"{changes} -> {prepared.record is not None}")
        if prepared.record is None:
            return False
        self.plan.apply(prepared.record, prepared.takings)
        return True

    def _adapt(self) -> None:
        if not needs_adaptation(self.plan):
            return
        found = adapt(self.plan.copy(), EFFORT)
        assert not found.refused, found.refused
        self._propose(found.changes, found.based_on, "adapt")
        assert not found.short, found.short

    def _request(self, name: str, source: str, submitted_s: int | None = None) -> Request | None:
        plan = self.plan
        now_s = int(plan.grid.seconds(plan.now)) if submitted_s is None else submitted_s
        asked = a_request(name, source).submitted(now_s).priority(self.choose(0, 3))
        asked = asked.weight(self.choose(1, 3)).queue(("default", "urgent")[self.choose(0, 1)])
        try:
            return asked.on(plan.cluster, plan.grid)
        except RdlError:
            return None

    def _admit(self) -> None:
        self.number += 1
        request = self._request(f"r{self.number}", expression(self.choose))
        if request is None:
            return
        if not self.choose(0, 2):
            request = replace(request, promise=PromiseLevel.POOLED)
        result = self.agent.plan([request], self.plan.view(), Limits())[0]
        if result.placed:
            admit = Admit(request, result, self.agent.name, planner=self.agent)
            prepared = self.plan.prepare([admit], self.plan.version)
            if prepared.record is not None:
                self.done.append(f"admit {request.id} {request.graph.expression}")
                self.plan.apply(prepared.record, prepared.takings)
                return
        elif result.code not in FOR_ROOM:
            return
        if may_displace(self.plan, [request]):
            self._displace(DisplacementAsk(request, agent_named("gree")))
        else:
            self._take_offer(request)

    def _displace(self, ask: DisplacementAsk) -> None:
        found = displace(self.plan.copy(), [ask])
        if found is not None:
            self._propose(found.changes, found.based_on, "displace")

    def _take_offer(self, request: Request) -> None:
        """Take an offer up at once: it is accepted as it was offered."""
        search = OfferSearch.of(self.plan, levels=(request.promise,))
        offers = search.offers(request, request.graph.expression, self.agent, 2)
        if not offers:
            return
        offer = offers[self.choose(0, len(offers) - 1)]
        asked = replace(
            request, graph=compile_source(offer["expression"], search.context(request.submitted_ms))
        )
        result = self.agent.plan([asked], self.plan.view(), Limits())[0]
        assert result.placed, (offer, result)
        admit = Admit(asked, result, self.agent.name, planner=self.agent)
        assert self._commit([admit]), (
            offer,
            self.plan.prepare([admit], self.plan.version).conflicts,
        )

    def _live(self) -> list[int]:
        table = self.plan.table
        return [number for number in range(len(table)) if table.state(number) in LIVE]

    def _update(self) -> None:
        live = self._live()
        if not live:
            return
        name = self.plan.table.id_of(live[self.choose(0, len(live) - 1)])
        known = self.plan.reservation(name)
        assert known is not None
        source = known.expression if self.choose(0, 1) else expression(self.choose)
        request = self._request(name, source, known.submitted_ms // 1000)
        if request is None:
            return
        try:
            update = renegotiation_of(self.plan, name, request)
            result = update.place(self.agent, Limits())
        except (RdlError, ValueError):
            return
        if result.placed:
            planner = update.planner(self.agent)
            change = Update(name, known.revision, request, result, self.agent.name, planner=planner)
            self._commit([change])
        elif may_displace(self.plan, [request]):
            self._displace(DisplacementAsk(request, agent_named("gree"), renegotiates=True))

    def _end(self) -> None:
        live = self._live()
        if live:
            name = self.plan.table.id_of(live[self.choose(0, len(live) - 1)])
            self._commit([Cancel(name) if self.choose(0, 1) else Close(name)])

    def _change_machines(self) -> None:
        cluster = self.plan.cluster
        kind = self.choose(0, 8 if self.others else 5)
        if kind > 5:
            group = cluster.machines[self.choose(0, len(cluster.machines) - 1)]
            name = f"{group.name}-{self.choose(0, group.count - 1)}"
            some = {kind: self.choose(0, most) for kind, most in group.resources.items()}
            amounts = Resources.of({kind: count for kind, count in some.items() if count})
            new = replace(cluster, taken=tuple({**dict(cluster.taken), name: amounts}.items()))
        elif kind == 0:
            groups = tuple(
                replace(one, count=self.choose(1, most.count))
                for one, most in zip(cluster.machines, self.all_machines, strict=True)
            )
            kept = tuple(
                one
                for one in cluster.outages
                if max(one.indices) < next(g.count for g in groups if g.name == one.machines)
            )
            new = replace(cluster, machines=groups, outages=kept)
        elif kind <= 2 and cluster.outages:
            gone = self.choose(0, len(cluster.outages) - 1)
            new = replace(cluster, outages=self._taken_back(cluster.outages, gone))
        else:
            new = replace(cluster, outages=(*cluster.outages, self._outage(cluster)))
        self._commit([Reconfigure(new)])
        self._remember_machines(new)

    def _taken_back(self, outages: Sequence[Outage], gone: int) -> tuple[Outage, ...]:
        """Return outages without one; as the server does, one of this step lasts to its end."""
        one, now_ms = outages[gone], 1000 * self.plan.now
        others = (*outages[:gone], *outages[gone + 1 :])
        return (*others, replace(one, end_ms=now_ms + 1000)) if one.start_ms == now_ms else others

    def _remember_machines(self, cluster: Cluster) -> None:
        """Record which machines are down from now on; what was away before stays so."""
        now_ms = 1000 * self.plan.now
        self.cuts |= {one.start_ms // 1000 for one in cluster.outages}
        before = [replace(one, end_ms=min(one.end_ms, now_ms)) for one in self.away]
        self.away = [one for one in before if one.start_ms < one.end_ms]
        for one in cluster.outages:
            if one.end_ms > now_ms:
                self.away.append(replace(one, start_ms=max(one.start_ms, now_ms)))
        for group, most in zip(cluster.machines, self.all_machines, strict=True):
            gone = tuple(range(group.count, most.count))
            if gone:
                self.away.append(Outage(group.name, gone, now_ms, 10**9))

    def _outage(self, cluster: Cluster) -> Outage:
        group = cluster.machines[self.choose(0, len(cluster.machines) - 1)]
        start = 1000 * (self.plan.now + self.choose(0, 8))
        end = start + 1000 * self.choose(1, 20)
        if self.choose(0, 1):
            return Outage(group.name, (self.choose(0, group.count - 1),), start, end)
        some = Outage(group.name, tuple(range(self.choose(1, group.count))), start, end, "drain")
        found = least_held(self.plan, cluster, some)
        first = 1000 * drained_from(self.plan, cluster, found)
        return replace(found, start_ms=min(first, end - 1000))

    def _optimize(self) -> None:
        if not any(self.plan.table.state(number) is not State.DEGRADED for number in self._live()):
            return
        scope = OptimizeScope(frozen_until=self.plan.now, admit_refused=True)
        found = optimize(
            self.plan, None, scope, OptimizeOptions(limits=Limits(work=4, seed=1), solver="")
        )
        if found.conflict is None:
            self._propose(found.changes, found.based_on, "optimize")

    def _check(self) -> None:
        plan = self.plan
        document: dict[str, Any] = plan_json(plan)
        now_s = float(plan.grid.seconds(plan.now))
        judged = replace(plan.cluster, machines=self.all_machines, outages=tuple(self.away))
        faults = validate(document, cluster=judged, grid=plan.grid, now_s=now_s)
        wrong = [one for one in faults if one.rule != "lease" or not self._was_cut(one)]
        assert not wrong, wrong

    def _was_cut(self, short: PlanViolation) -> bool:
        """Return whether a short stay begins or ends where an outage was to begin."""
        assert short.at is not None
        return bool({short.at, short.at + (short.amount or 0)} & self.cuts)
