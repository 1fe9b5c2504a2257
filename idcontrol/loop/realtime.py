"""Request privileges from the operating system, and report which of them it grants.

Without these privileges the period of ticks varies more.

Linux withholds 50 ms of every second from a SCHED_FIFO process that uses more than 95 % of its CPU
(``/proc/sys/kernel/sched_rt_runtime_us``). A loop or plant that computes for nearly its whole period therefore pauses
for 50 ms, and the watchdogs report it. Use a longer period (``--rate``, ``--set loop.plant_rate_hz=500``).
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import math
import os
import resource
import socket
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import msgspec

PRIORITY = 40
"""Priority under SCHED_FIFO, 1 to 99: above every ordinary process, below the kernel's interrupt threads (50)."""

ONE_THREAD: Mapping[str, str] = MappingProxyType(
    {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
)
"""Environment variables with which BLAS starts no threads; they are read when NumPy is first imported."""

LATENCY = Path("/dev/cpu_dma_latency")
"""File for the longest wake-up time of CPUs, an int32 [µs]; the limit applies while the file is open (Linux, PM QoS).
"""

_PR_SET_TIMERSLACK = 29
_MCL_CURRENT, _MCL_FUTURE = 1, 2


class Granted(msgspec.Struct, frozen=True, kw_only=True):
    """The privileges that the operating system has granted.

    Attributes:
        scheduler: ``"SCHED_FIFO"`` or ``"SCHED_OTHER"``.
        priority: Priority under SCHED_FIFO; 0 under another scheduler.
        cpu: CPU to which the process is bound; None if the process may move.
        memory_locked: True if the memory of the process stays in RAM; under a limit on locked memory, only the memory
            that was allocated before.
        cpu_awake: True if idle CPUs stay awake during the loop.
        gc_frozen: True if the garbage collector ignores all earlier objects.
        threads: Number of threads of the process; more than one usually means that BLAS has started threads.
        refused: Each refused privilege, and the reason.
    """

    scheduler: str = "SCHED_OTHER"
    priority: int = 0
    cpu: int | None = None
    memory_locked: bool = False
    cpu_awake: bool = False
    gc_frozen: bool = False
    threads: int = 1
    refused: dict[str, str] = {}


def one_blas_thread() -> bool:
    """Prevent BLAS from starting threads in this process and its children.

    Return True if NumPy was not yet imported; otherwise its BLAS may already have threads.
    """
    os.environ.update(ONE_THREAD)
    return "numpy" not in sys.modules


@contextlib.contextmanager
def undisturbed(cpus: Iterable[int] | None = None) -> Iterator[Granted]:
    """Hold the privileges of `Granted` while the context lasts, as far as the operating system grants them.

    Enter it when all code is compiled and warm, and all memory is allocated.

    Args:
        cpus: CPUs to stay on, the preferred CPU first. None means the CPUs that the process may use, the last CPU
            first. If SCHED_FIFO is granted, the process is bound to the first CPU that no other loop or plant holds,
            if there is one. Without SCHED_FIFO it is not bound: on one CPU it would wait for other processes.
    """
    refused: dict[str, str] = {}
    before = os.sched_getaffinity(0)
    first = _go_first(refused)
    claim = _claim(sorted(before, reverse=True) if cpus is None else cpus) if first else None
    bound = None
    if claim is not None:
        bound = _bind(claim[0], refused)
    elif first:
        refused["cpu"] = "other loops or plants hold every CPU; this process runs on any free CPU"
    else:
        refused["cpu"] = "not tried: without the priority this process would only wait there for others"
    locked = _lock_memory(refused)
    wakeful = _stay_awake(refused)
    _sharp_timers()
    gc.collect()
    gc.freeze()
    try:
        yield Granted(
            scheduler="SCHED_FIFO" if first else "SCHED_OTHER",
            priority=PRIORITY if first else 0,
            cpu=bound,
            memory_locked=locked,
            cpu_awake=wakeful is not None,
            gc_frozen=True,
            threads=_threads(),
            refused=refused,
        )
    finally:
        gc.unfreeze()
        if wakeful is not None:
            os.close(wakeful)
        if first:
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        if bound is not None:
            os.sched_setaffinity(0, before)
        if claim is not None:
            claim[1].close()
        if locked:
            ctypes.CDLL(None).munlockall()


def resident_mb() -> float:
    """Return the RAM that the process occupies [MB]; NaN if the system does not report it."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return math.nan
    return 1e-6 * pages * resource.getpagesize()


def stolen_s() -> float:
    """Return the time that a hypervisor has taken from the CPUs since boot [s]; NaN if it is unknown."""
    try:
        return int(Path("/proc/stat").read_text().split(maxsplit=9)[8]) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return math.nan


def _go_first(refused: dict[str, str]) -> bool:
    """Request SCHED_FIFO; return True if it was granted."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    except OSError as error:
        refused["scheduler"] = f"{error.strerror}; allow it with an rtprio line in /etc/security/limits.conf"
        return False
    return True


def _claim(cpus: Iterable[int]) -> tuple[int, socket.socket] | None:
    """Claim the first CPU that no loop or plant on this computer holds; None if every CPU is held.

    Under SCHED_FIFO, two processes bound to one CPU wait for each other while other CPUs are idle. A claim is a name in
    Linux's abstract socket namespace (unix(7)): it needs no file, and the kernel releases it when its process ends.
    """
    for cpu in cpus:
        holder = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            holder.bind(f"\0idcontrol-cpu-{cpu}")
        except OSError:
            holder.close()
        else:
            return cpu, holder
    return None


def _bind(cpu: int, refused: dict[str, str]) -> int | None:
    """Bind the process to a CPU; return the CPU, or None if the system refuses."""
    try:
        os.sched_setaffinity(0, {cpu})
    except OSError as error:
        refused["cpu"] = error.strerror or str(error)
        return None
    return cpu


def _lock_memory(refused: dict[str, str]) -> bool:
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        lock = libc.mlockall
    except (OSError, AttributeError):
        refused["memory_lock"] = "this system has no mlockall"
        return False
    # with a limit on locked memory, later allocations would fail if future memory were also locked
    unlimited = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] == resource.RLIM_INFINITY or os.geteuid() == 0
    if lock(_MCL_CURRENT | (_MCL_FUTURE if unlimited else 0)) == 0:
        return True
    refused["memory_lock"] = f"{os.strerror(ctypes.get_errno())}; allow it with a memlock line in limits.conf"
    return False


def _stay_awake(refused: dict[str, str]) -> int | None:
    """Return the open file that prevents idle CPUs from sleeping; None if the system refuses.

    A sleeping CPU wakes later, with colder caches; a sleeping virtual CPU is returned to the host.
    """
    try:
        wakeful = os.open(LATENCY, os.O_WRONLY)
    except FileNotFoundError:
        refused["cpu_awake"] = f"this system has no {LATENCY}"
        return None
    except OSError as error:
        refused["cpu_awake"] = f"{LATENCY}: {error.strerror}; allow it with a udev rule"
        return None
    try:
        os.write(wakeful, struct.pack("=i", 0))
    except OSError as error:
        os.close(wakeful)
        refused["cpu_awake"] = f"{LATENCY}: {error.strerror}"
        return None
    return wakeful


def _sharp_timers() -> None:
    """Let sleeps end within a microsecond; by default the kernel extends sleeps by 50 µs."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1000, 0, 0, 0)


def _threads() -> int:
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return 1
