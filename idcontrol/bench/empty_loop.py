"""A loop that does nothing, in C: the ticks that it misses are missed by the computer, whatever is computed in them."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from idcontrol.loop.clock import NS

SOURCE = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define NS 1000000000LL

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * NS + t.tv_nsec;
}

/* Period [ns], number of beats; prints how many were missed, by the rule of idcontrol.loop.clock.Pacer, with the
   privileges of idcontrol.loop.realtime. */
int main(int count, char **given) {
    if (count != 3) return 2;
    const int64_t period = atoll(given[1]), beats = atoll(given[2]), epoch = now();
    int64_t missed = 0;
    sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = 40});
    mlockall(MCL_CURRENT | MCL_FUTURE);
    const int awake = open("/dev/cpu_dma_latency", O_WRONLY);
    if (awake >= 0 && write(awake, &(int32_t){0}, sizeof(int32_t)) < 0) return 1;
    for (int64_t beat = 1; beat <= beats; beat++) {
        const int64_t late = now() - (epoch + beat * period);
        if (late > period / 2) {
            const int64_t skipped = (late + period / 2) / period;
            missed += skipped;
            beat += skipped;
        }
        const int64_t due = epoch + beat * period;
        const struct timespec until = {due / NS, due % NS};
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL)) {
        }
    }
    printf("%" PRId64 "\n", missed);
    return 0;
}
"""


def missed(rate_hz: float, duration_s: float) -> int | None:
    """How many ticks the loop misses in `duration_s`; None where there is no C compiler."""
    if (cc := shutil.which("cc")) is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder) / "empty_loop.c", Path(folder) / "empty_loop"
        source.write_text(SOURCE)
        subprocess.run([cc, "-O2", "-std=c11", "-o", program, source], check=True)
        asked = [str(program), str(round(NS / rate_hz)), str(round(duration_s * rate_hz))]
        return int(subprocess.run(asked, check=True, capture_output=True, text=True).stdout)
