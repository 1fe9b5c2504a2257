"""A walk that `idcontrol.loop` can run, for tests that need a robot on legs in the loop."""

from idcontrol.scenes.session import WalkLoop
from idcontrol.scenes.walk import WalkConfig

TARGET = "tests.scenes.loops:walk"

walk = WalkLoop("walk", "a quadruped walks", {"default": WalkConfig()})
