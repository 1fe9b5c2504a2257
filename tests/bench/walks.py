"""A short walk, recorded once for all tests of the bench."""

from functools import cache

from idcontrol.bench import scenes
from idcontrol.bench.scenes import Heap, RecordedWalk


@cache
def solo12(plant: str = "coulomb-lcp") -> RecordedWalk:
    return scenes.walk("solo12", plant, 60)


@cache
def heap(bodies: int) -> Heap:
    return scenes.heap(bodies)
