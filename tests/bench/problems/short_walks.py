"""A short walk, recorded once for all tests of the bench."""

from functools import cache

from idcontrol.bench.problems import walks
from idcontrol.bench.problems.walks import Heap, RecordedWalk


@cache
def solo12(plant: str = "coulomb-lcp") -> RecordedWalk:
    return walks.walk("solo12", plant, 60)


@cache
def heap(bodies: int) -> Heap:
    return walks.heap(bodies)
