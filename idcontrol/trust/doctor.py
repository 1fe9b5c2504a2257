"""Examines whether this computer can run idcontrol and how well, and names the command that mends each problem."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from packaging.requirements import Requirement

from idcontrol.bench.machine import processor
from idcontrol.errors import install_command
from idcontrol.loop.realtime import LATENCY, ONE_THREAD, PRIORITY, undisturbed

Severity = Literal["fine", "advice", "broken"]

_LIMITS = "/etc/security/limits.d/99-idcontrol.conf"
_GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The result of one check.

    Attributes:
        topic: Topic of the check, e.g. ``"real time"``.
        name: Name of the check.
        found: Result in words.
        verdict: ``"fine"``; ``"advice"`` if idcontrol runs, but slower, less evenly or without an extra; or
            ``"broken"``.
        remedy: Command that mends it; "" where nothing needs mending.
    """

    topic: str
    name: str
    found: str
    verdict: Severity = "fine"
    remedy: str = ""


def examine(tell: Callable[[str], None] = lambda line: None, *, full: bool = True) -> Iterator[Diagnosis]:
    """Run all checks, physics last because it takes long where kernels have to be compiled.

    Args:
        tell: Called with a line before each check that may take long.
        full: Whether to check the physics, too.

    Yields:
        The diagnoses, in the order in which they are shown.
    """
    broken = False
    for finding in _packages():
        broken |= finding.verdict == "broken"
        yield finding
    yield from _processor()
    yield from _blas()
    yield from _real_time()
    if broken:
        return  # without its packages the physics checks would only add noise
    if full:
        yield from _physics(tell)
    else:
        yield Diagnosis(topic="physics", name="self-check", found="not made; `idcontrol doctor --full` makes it")


def _packages() -> Iterator[Diagnosis]:
    """Check the versions of Python, idcontrol, its requirements and its extras."""
    yield Diagnosis(topic="versions", name="python", found=f"{platform.python_version()} ({sys.executable})")
    try:
        metadata = importlib.metadata.metadata("idcontrol")
    except importlib.metadata.PackageNotFoundError:
        yield Diagnosis(
            topic="versions",
            name="idcontrol",
            found="runs from its sources, not installed: experiments and robots have no names",
            verdict="broken",
            remedy="pip install -e .",
        )
        return
    yield Diagnosis(topic="versions", name="idcontrol", found=metadata["Version"])
    needed = [Requirement(text) for text in importlib.metadata.requires("idcontrol") or ()]
    for requirement in needed:
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            found, missing = _installed(requirement)
            yield Diagnosis(
                topic="versions",
                name=requirement.name,
                found=found,
                verdict="broken" if missing else "fine",
                remedy=f"pip install '{requirement.name}{requirement.specifier}'" if missing else "",
            )
    for extra in metadata.get_all("Provides-Extra") or ():
        wanted = [r for r in needed if r.marker is not None and r.marker.evaluate({"extra": extra})]
        wanted = [r for r in wanted if not (r.marker is not None and r.marker.evaluate({"extra": ""}))]
        states = {r.name: _installed(r) for r in wanted}
        lacking = [name for name, (_, missing) in states.items() if missing]
        yield Diagnosis(
            topic="extras",
            name=extra,
            found=", ".join(f"{name} {found}" for name, (found, _) in states.items()) or "nothing for this Python",
            verdict="advice" if lacking else "fine",
            remedy=install_command(extra) if lacking else "",
        )


def _installed(requirement: Requirement) -> tuple[str, bool]:
    """Version of a package in words, and whether it is missing or does not fit."""
    try:
        version = importlib.metadata.version(requirement.name)
    except importlib.metadata.PackageNotFoundError:
        return "is not installed", True
    if not requirement.specifier.contains(version, prereleases=True):
        return f"{version} does not fit {requirement.specifier}", True
    return version, False


def _processor() -> Iterator[Diagnosis]:
    yield Diagnosis(topic="CPU", name="model", found=processor())
    usable = len(os.sched_getaffinity(0))
    busy = os.getloadavg()[0] / usable
    yield Diagnosis(
        topic="CPU",
        name="cores",
        found=f"{usable} for this process; load of the last minute {busy:.0%} of them",
        verdict="advice" if busy > 1.0 else "fine",
        remedy="top   # times measured now are those of a busy machine" if busy > 1.0 else "",
    )
    try:
        governor = _GOVERNOR.read_text().strip()
    except OSError:
        return  # a virtual machine: its host sets the frequency
    slow = governor != "performance"
    yield Diagnosis(
        topic="CPU",
        name="frequency",
        found=f"governor {governor}",
        verdict="advice" if slow else "fine",
        remedy="sudo cpupower frequency-set -g performance" if slow else "",
    )


def _blas() -> Iterator[Diagnosis]:
    """Check that BLAS uses one thread: on the small matrices of a control step, more threads cost time."""
    one = all(os.environ.get(name) == "1" for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"))
    yield Diagnosis(
        topic="BLAS",
        name="threads",
        found="one" if one else "as many as there are cores; `idcontrol loop` sets one by itself",
        verdict="fine" if one else "advice",
        remedy="" if one else "export " + " ".join(f"{name}={value}" for name, value in ONE_THREAD.items()),
    )


def _real_time() -> Iterator[Diagnosis]:
    """Request the priority, locked memory and wakeful CPUs that `idcontrol loop` needs, then give them back."""
    rt_kernel = Path("/sys/kernel/realtime").exists()
    yield Diagnosis(topic="real time", name="kernel", found=platform.release() + (", PREEMPT_RT" if rt_kernel else ""))
    with undisturbed() as granted:
        pass
    refused = granted.refused.get("scheduler", "")
    yield Diagnosis(
        topic="real time",
        name="priority",
        found=f"{granted.scheduler} {granted.priority}" if not refused else f"{granted.scheduler}: {refused}",
        verdict="advice" if refused else "fine",
        remedy=f'echo "$USER - rtprio {PRIORITY}" | sudo tee -a {_LIMITS}   # then log in again' if refused else "",
    )
    memlock = f'echo "$USER - memlock unlimited" | sudo tee -a {_LIMITS}   # then log in again'
    yield _privilege("locked memory", granted.refused.get("memory_lock", ""), memlock)
    if LATENCY.exists():  # else a container, or another system than Linux: no command mends it from here
        chmod = f"sudo chmod o+w {LATENCY}   # until the next start"
        yield _privilege("wakeful CPUs", granted.refused.get("cpu_awake", ""), chmod)


def _privilege(name: str, refused: str, remedy: str) -> Diagnosis:
    """Whether the system grants a privilege; `refused` says why not, and is empty where it does."""
    return Diagnosis(
        topic="real time",
        name=name,
        found=refused or "granted",
        verdict="advice" if refused else "fine",
        remedy=remedy if refused else "",
    )


def _physics(tell: Callable[[str], None]) -> Iterator[Diagnosis]:
    """Measure the quick claims of `idcontrol.trust`, and say whether kernels had to be compiled."""
    began = time.perf_counter()
    tell("self-check of physics")
    from idcontrol import trust
    from idcontrol.kernels.compiling import announced

    quick = [claim for claims in trust.CLAIMS.values() for claim in claims if claim.quick]
    verdicts = []
    with announced("the self-check"):
        for number, claim in enumerate(quick, start=1):
            tell(f"{number} of {len(quick)}: {claim.statement}")
            verdicts.append(trust.weigh(claim))
    took = time.perf_counter() - began
    yield _kernels(took)
    for verdict in verdicts:
        claim = verdict.claim
        yield Diagnosis(
            topic="physics",
            name=claim.statement,
            found=verdict.fault or f"to {verdict.figure:.1e} {claim.unit}".rstrip() + f" (limit {claim.limit:.0e})",
            verdict="fine" if verdict.holds else "broken",
            remedy="" if verdict.holds else "pip check; idcontrol trust   # do not use its torques",
        )


def _kernels(took: float) -> Diagnosis:
    """Count the kernels that Numba compiled in this process and loaded from its cache, and name the cache's folder."""
    from numba.core.dispatcher import Dispatcher

    stats = {
        id(thing): thing.stats
        for name, module in list(sys.modules.items())
        if name.startswith("idcontrol")
        for thing in vars(module).values()
        if isinstance(thing, Dispatcher)
    }
    compiled = sum(sum(entry.cache_misses.values()) for entry in stats.values())
    loaded = sum(sum(entry.cache_hits.values()) for entry in stats.values())
    kept = [entry.cache_path for entry in stats.values() if entry.cache_path is not None]
    where = os.path.commonpath(kept) if kept else "nowhere"
    return Diagnosis(
        topic="kernels",
        name="cache",
        found=f"{loaded} from {where}, {compiled} compiled just now; with the self-check {took:.1f} s",
        verdict="advice" if compiled else "fine",
        remedy="idcontrol warmup" if compiled else "",
    )
