"""The memory of the last step: its contacts, and their active rows.

Each controller and each plant has a separate memory. Contacts are matched by their identity. Compiled steps read and
write the arrays; models in Python exchange a `WarmStart`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from idcontrol.kernels.arena import Arena, indices
from idcontrol.kernels.jit import njit
from idcontrol.models.step import WarmStart
from idcontrol.types import Integers

MOST: int = 1024
"""Largest number of remembered contacts; further contacts start cold."""


class Memory(NamedTuple):
    """The contacts of the last step.

    Attributes:
        identity: Identity of each contact, shape (`MOST`,).
        active: Bit set of the active rows of each contact, as defined by the model that wrote it, shape (`MOST`,).
        used: Number of entries in use, shape (1,).
    """

    identity: Integers
    active: Integers
    used: Integers


def memory() -> Memory:
    """Return an empty memory."""
    return Memory(*(np.zeros(size, dtype=np.int64) for size in (MOST, MOST, 1)))


@njit(cache=True, inner=True, forceinline=True)
def recall(memory: Memory, identity: Integers, arena: Arena) -> Integers:
    """Return the bit sets of the contacts `identity`, shape (n,); 0 for contacts that are not in memory."""
    n, count = identity.shape[0], memory.used[0]
    active: Integers = indices(arena, n)
    at = 0
    for i in range(n):
        active[i] = 0
        # contacts keep about the same order from step to step, so each lookup starts where the previous lookup ended
        for _ in range(count):
            if at >= count:
                at = 0
            at += 1
            if memory.identity[at - 1] == identity[i]:
                active[i] = memory.active[at - 1]
                break
    return active


@njit(cache=True, forceinline=True)
def remember(memory: Memory, identity: Integers, active: Integers) -> None:
    """Replace the content of the memory; contacts beyond `MOST` are dropped."""
    count = min(identity.shape[0], memory.identity.shape[0])
    for i in range(count):
        memory.identity[i], memory.active[i] = identity[i], active[i]
    memory.used[0] = count


def as_warm_start(memory: Memory) -> WarmStart:
    """Return the memory as the dictionary that models in Python accept."""
    count = int(memory.used[0])
    return dict(zip(memory.identity[:count].tolist(), memory.active[:count].tolist(), strict=True))


def store(memory: Memory, warm: WarmStart) -> None:
    """Replace the content of the memory by the dictionary `warm` of a model in Python, up to `MOST` contacts."""
    count = min(len(warm), MOST)
    memory.identity[:count] = np.fromiter(warm.keys(), np.int64, count)
    memory.active[:count] = np.fromiter(warm.values(), np.int64, count)
    memory.used[0] = count
