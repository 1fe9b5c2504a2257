"""A test case: it takes a configuration and returns findings, series and drawings."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import numpy as np

from idcontrol.errors import UnknownName
from idcontrol.experiments.findings import Results, save
from idcontrol.types import Array

Progress = Callable[[float], None]
"""Called with the share of a run that is done, 0 to 1."""

GRAVITY: Final = 9.81
"""Gravitational acceleration [m/s²]."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A test case for the command line (`idcontrol.config.entries.Experiment`).

    Attributes:
        name: Name.
        summary: One line.
        presets: Configurations by name, one of them ``"default"``.
        simulate: Runs a configuration; raises `InputError` for an unusable configuration.
        rehearsals: Returns configurations of short runs that together compile and cache every kernel of the case; an
            empty sequence if the case needs data files, or if other cases compile the same kernels.
        adapt: Converts the user's configuration to the configuration that runs and is recorded.
    """

    name: str
    summary: str
    presets: Mapping[str, msgspec.Struct]
    simulate: Callable[[Any, Progress], Results]
    rehearsals: Callable[[], Sequence[msgspec.Struct]] = tuple
    adapt: Callable[[Any], Any] = lambda config: config

    def run(self, config: Any, out: Path, progress: Progress) -> dict[str, Any]:
        """Run `config`, record it in the empty folder `out`, and return its metrics."""
        began, config = time.perf_counter(), self.adapt(config)
        return save(out, self.name, config, self.simulate(config, progress), began=began)


def timed(call: Callable[[], T], repeats: int = 1, clock: Callable[[], float] = time.perf_counter) -> tuple[T, Array]:
    """Repeat a call; return its last result and the time of each repetition, shape (repeats,) [s]."""
    seconds = np.empty(repeats)
    for k in range(repeats):
        began = clock()
        result = call()
        seconds[k] = clock() - began
    return result, seconds


def step_count(duration: float, h: float) -> int:
    """Return the number of steps of length `h` [s] in a run, at least one."""
    return max(1, round(duration / h))


def step_ends(h: float, steps: int) -> Array:
    """Return times at which steps of length `h` [s] end, from a start at 0, shape (steps,) [s]."""
    return np.asarray(h * np.arange(1.0, steps + 1.0))


def chosen(models: Mapping[str, T], name: str) -> dict[str, T]:
    """Return the model called `name`, or all models if `name` is ``all``.

    Raises:
        UnknownName: No model has that name.
    """
    if name not in ("all", *models):
        raise UnknownName("plant", name, [*models, "all"])
    return {each: model for each, model in models.items() if name in ("all", each)}


def exponent(sizes: Sequence[float] | Array, values: Sequence[float] | Array) -> float:
    """Return the exponent p of ``values ~ sizes^p``: the slope of a line through the logarithms of both."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def order(errors: Mapping[float, float]) -> float:
    """Return the order of convergence between the two finest steps; `errors` maps step sizes to errors."""
    fine, coarse = sorted(errors)[:2]
    return float(np.log(errors[coarse] / errors[fine]) / np.log(coarse / fine))
