"""The scenes of the demo, in order: work, a refusal, a lost rack, a better Plan."""

from __future__ import annotations

from typing import Final

from service.cli.client.demo.improvement_scene import improve_the_plan
from service.cli.client.demo.offer_scene import take_an_offer
from service.cli.client.demo.rack_scene import lose_a_rack
from service.cli.client.demo.stage import DemoStage
from service.cli.client.demo.work_scene import begin_work, end_work, work_on

#: How fast the day passes, seconds a second: a quarter of an hour. Afterwards it goes on as fast as
#: the reader's, so that its page is still that of a day that is under way hours later.
_SPEED: Final = 900.0
_AFTERWARDS: Final = 1.0

#: The busy hour of the day at which that begins, and how fast it is reached.
_HOUR: Final = 9.05
_ON: Final = 1800.0


def play_scenes(stage: DemoStage) -> None:
    """Play all scenes; the day goes on afterwards, at the speed of any day."""
    stage.clock.go(_SPEED)
    stage.tell(f"from now on the day passes {_SPEED:g} times as fast as yours")
    work = begin_work(stage, "primes")
    take_an_offer(stage)
    end_work(stage, work)
    lose_a_rack(stage)
    improve_the_plan(stage)
    stage.clock.go(_ON)
    stage.clock.wait_until(_HOUR)
    stage.clock.go(_AFTERWARDS)
    work_on(stage)
