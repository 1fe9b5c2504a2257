"""Draw the picture of the README from a recorded trot: ``python -m idcontrol.experiments.picture RUN_DIR``."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from idcontrol.record.recording import Run, load

OUT = Path(__file__).parent / "pictures" / "trot.svg"
STRIDES = 2
"""Number of strides that are drawn."""
BEGIN_S = 1.1
"""Time from which on they are drawn: the robot has picked up speed."""


def draw(run: Run, out: Path) -> None:
    """Torques, their rate, and predicted beside actual normal forces over two strides in mid-run."""
    layout, arrays = run.meta["layout"], run.arrays
    t, h = arrays["t"], layout["period_s"]
    begin = int(np.searchsorted(t, BEGIN_S))
    rows = slice(begin, begin + round(STRIDES * layout["gait_period_s"] / h))
    figure, axes = plt.subplots(3, 1, figsize=(9, 6.5), sharex=True, layout="constrained")
    axes[0].plot(t[rows], arrays["tau"][rows], lw=1.2)
    axes[0].set_ylabel("torque [N m]")
    axes[1].plot(t[rows], np.gradient(arrays["tau"][rows], h, axis=0) / 1e3, lw=1.0)
    axes[1].set_ylabel("torque rate [kN m/s]")
    for foot, name in enumerate(layout["feet"]):
        (line,) = axes[2].plot(t[rows], arrays["force_pred"][rows, foot, 2], lw=1.4, label=name)
        axes[2].plot(t[rows][::6], arrays["force"][rows, foot, 2][::6], ".", ms=4, color=line.get_color())
    axes[2].set_ylabel("normal force [N]")
    axes[2].set_xlabel("time [s]")
    axes[2].legend(ncols=4, loc="upper right", frameon=False, fontsize=9)
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(alpha=0.25)
        ax.margins(x=0.0)
    figure.savefig(out, metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    draw(load(sys.argv[1]), OUT)
    print(OUT)
