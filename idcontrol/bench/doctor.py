"""Check how well this computer can run idcontrol, and name a command that fixes or explains each problem."""

import importlib
import importlib.metadata
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from packaging.requirements import Requirement

from idcontrol.bench.machine import processor
from idcontrol.errors import install_command
from idcontrol.loop.realtime import LATENCY, PRIORITY, undisturbed

Severity = Literal["fine", "advice", "broken"]

_LIMITS = "/etc/security/limits.d/99-idcontrol.conf"
_MODULES = {"pin": "pinocchio"}
"""Modules of the requirements whose module has another name."""
_GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The result of one check.

    Attributes:
        topic: Topic of the check, e.g. ``"real time"``.
        name: Name of the check.
        found: Result in words.
        verdict: ``"fine"``; ``"advice"`` if idcontrol runs more slowly, less evenly or without an extra; or
            ``"broken"``.
        remedy: Command that fixes the problem or shows its cause, perhaps with a shell comment; "" without a problem.
    """

    topic: str
    name: str
    found: str
    verdict: Severity = "fine"
    remedy: str = ""


def examine(tell: Callable[[str], None] = lambda line: None, *, full: bool = True) -> Iterator[Diagnosis]:
    """Run all checks, the check of physics last. If a package is broken, BLAS and physics are not checked.

    Args:
        tell: Called with a line before each check that may take long.
        full: True to check the physics as well.

    Yields:
        The diagnoses, in display order.
    """
    broken = False
    for finding in _packages():
        broken |= finding.verdict == "broken"
        yield finding
    yield from _processor()
    if not broken:
        yield from _blas()
    yield from _real_time()
    if broken:
        return  # without these packages, physics checks would fail
    if full:
        yield from _physics(tell)
    else:
        yield _diagnosis("physics", "self-check", "not made; `idcontrol doctor --full` makes it")


def _diagnosis(topic: str, name: str, result: str, remedy: str = "", *, severity: Severity = "advice") -> Diagnosis:
    """Return the result of a check; its verdict is ``"fine"`` without a remedy, otherwise `severity`."""
    verdict: Severity = severity if remedy else "fine"
    return Diagnosis(topic=topic, name=name, found=result, verdict=verdict, remedy=remedy)


def _packages() -> Iterator[Diagnosis]:
    """Check the versions of Python, idcontrol, its requirements and its extras."""
    yield _diagnosis("versions", "python", f"{platform.python_version()} ({sys.executable})")
    try:
        metadata = importlib.metadata.metadata("idcontrol")
    except importlib.metadata.PackageNotFoundError:
        result = "runs from its sources, not installed: experiments and robots have no names"
        yield _diagnosis("versions", "idcontrol", result, "pip install -e .", severity="broken")
        return
    yield _diagnosis("versions", "idcontrol", metadata["Version"])
    needed = [Requirement(text) for text in importlib.metadata.requires("idcontrol") or ()]
    for requirement in needed:
        if _belongs(requirement, ""):
            result, missing = _installed(requirement)
            mend = f"pip install '{requirement.name}{requirement.specifier}'" if missing else ""
            if not missing and (fault := _import_fault(requirement.name)):
                result = f"{result} cannot be imported: {fault}"
                mend = f"pip install --force-reinstall '{requirement.name}{requirement.specifier}'"
            yield _diagnosis("versions", requirement.name, result, mend, severity="broken")
    for extra in metadata.get_all("Provides-Extra") or ():
        states = {each.name: _installed(each) for each in _wanted(needed, extra)}
        result = ", ".join(f"{name} {result}" for name, (result, _) in states.items()) or "nothing for this Python"
        lacking = any(missing for _, missing in states.values())
        yield _diagnosis("extras", extra, result, install_command(extra) if lacking else "")


def _belongs(requirement: Requirement, extra: str) -> bool:
    """True if idcontrol with `extra` needs a requirement; if `extra` is empty, True if idcontrol itself needs it."""
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def _wanted(needed: Sequence[Requirement], extra: str) -> Iterator[Requirement]:
    """Yield the requirements of an extra, and of the extras that it consists of."""
    for each in needed:
        if _belongs(each, extra) and not _belongs(each, ""):
            if each.name == "idcontrol":
                for part in sorted(each.extras):
                    yield from _wanted(needed, part)
            else:
                yield each


def _import_fault(name: str) -> str:
    """Return the reason why a requirement of idcontrol cannot be imported; "" if it can be."""
    try:
        importlib.import_module(_MODULES.get(name, name))
    except Exception as error:  # a damaged or contradictory package may raise anything
        return f"{type(error).__name__}: {error}".partition("\n")[0]
    return ""


def _installed(requirement: Requirement) -> tuple[str, bool]:
    """Return the version of a package in words, and True if it is missing or does not fit."""
    try:
        version = importlib.metadata.version(requirement.name)
    except importlib.metadata.PackageNotFoundError:
        return "is not installed", True
    if not requirement.specifier.contains(version, prereleases=True):
        return f"{version} does not fit {requirement.specifier}", True
    return version, False


def _processor() -> Iterator[Diagnosis]:
    yield _diagnosis("CPU", "model", processor())
    usable = len(os.sched_getaffinity(0))
    busy = os.getloadavg()[0] / usable
    result = f"{usable} for this process; load of the last minute {busy:.0%} of them"
    yield _diagnosis(
        "CPU", "cores", result, "top   # the machine is busy: measured times are unreliable" if busy > 1.0 else ""
    )
    try:
        governor = _GOVERNOR.read_text().strip()
    except OSError:
        return  # on a virtual machine, the host sets the frequency
    mend = "" if governor == "performance" else "sudo cpupower frequency-set -g performance"
    yield _diagnosis("CPU", "frequency", f"governor {governor}", mend)


def _blas() -> Iterator[Diagnosis]:
    """Check that BLAS uses one thread: on the small matrices of a control step, more threads cost time."""
    from numpy import show_config

    library = show_config(mode="dicts")["Build Dependencies"]["blas"]["name"]
    variable = "MKL_NUM_THREADS" if "mkl" in library.lower() else "OPENBLAS_NUM_THREADS"
    # both libraries read OMP_NUM_THREADS only where their own variable has no number
    threads = os.environ.get(variable) or os.environ.get("OMP_NUM_THREADS")
    if threads == "1":
        yield _diagnosis("BLAS", "threads", "one")
        return
    result = f"{threads or 'as many as there are cores'}; `idcontrol loop` sets one by itself"
    yield _diagnosis("BLAS", "threads", result, f"export {variable}=1")


def _real_time() -> Iterator[Diagnosis]:
    """Request the priority, locked memory and awake CPUs that `idcontrol loop` needs, then release them."""
    topic, rt_kernel = "real time", Path("/sys/kernel/realtime").exists()
    yield _diagnosis(topic, "kernel", platform.release() + (", PREEMPT_RT" if rt_kernel else ""))
    with undisturbed() as granted:
        pass
    limit = f'echo "$USER - {{}}" | sudo tee -a {_LIMITS}   # then log in again'
    refused = granted.refused.get("scheduler", "")
    result = f"{granted.scheduler}: {refused}" if refused else f"{granted.scheduler} {granted.priority}"
    yield _diagnosis(topic, "priority", result, limit.format(f"rtprio {PRIORITY}") if refused else "")
    refused = granted.refused.get("memory_lock", "")
    yield _diagnosis(topic, "locked memory", refused or "granted", limit.format("memlock unlimited") if refused else "")
    if LATENCY.exists():  # absent in containers and other operating systems, where no command can help
        refused = granted.refused.get("cpu_awake", "")
        mend = f"sudo chmod o+w {LATENCY}   # until the next start" if refused else ""
        yield _diagnosis(topic, "wakeful CPUs", refused or "granted", mend)


def _physics(tell: Callable[[str], None]) -> Iterator[Diagnosis]:
    """Measure the quick claims of `idcontrol.bench.claims`, and report the compiled kernels."""
    began = time.perf_counter()
    tell("self-check of physics")
    from idcontrol.bench.claims import CLAIMS, weigh
    from idcontrol.kernels.compiling import announced

    quick = [claim for claims in CLAIMS.values() for claim in claims if claim.quick]
    verdicts = []
    with announced("the self-check"):
        for number, claim in enumerate(quick, start=1):
            tell(f"{number} of {len(quick)}: {claim.statement}")
            verdicts.append(weigh(claim))
    yield _kernels(time.perf_counter() - began)
    for verdict in verdicts:
        claim = verdict.claim
        result = verdict.fault or f"to {verdict.figure:.1e} {claim.unit}".rstrip() + f" (limit {claim.limit:.0e})"
        mend = "" if verdict.holds else "pip check; idcontrol trust   # do not use its torques"
        yield _diagnosis("physics", claim.statement, result, mend, severity="broken")


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
    result = f"{loaded} from {where}, {compiled} compiled just now; with the self-check {took:.1f} s"
    return _diagnosis("kernels", "cache", result, "idcontrol warmup" if compiled else "")
