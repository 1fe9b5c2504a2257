"""Draw the pictures of the pages from new runs: ``python idcontrol/docs/pictures.py DIR``, or ``make figures``."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import matplotlib.pyplot as plt
import msgspec
import nbformat
import numpy as np
from nbclient import NotebookClient

from idcontrol.experiments import trot
from idcontrol.record.recording import Run, load
from idcontrol.scenes.walk import WalkGait, WalkPath

GAITS = ("trot", "walk", "pace", "bound", "flying-trot")
LEG = ("LF_X_1", "LF_Y_2", "LF_Y_3")


def walk(controller: str, **settings: Any) -> Run:
    """Run a trot of two seconds, or of ``duration_s`` in `settings`, and return its record."""
    with TemporaryDirectory() as folder:
        changes = {"controller": controller, "duration_s": 2.0, **settings}
        config = msgspec.structs.replace(trot.PRESETS["default"], **changes)
        trot.experiment.run(config, Path(folder) / "run", lambda share: None)
        return load(Path(folder) / "run")


def gaits(out: Path) -> None:
    """Draw planned stance and loaded feet of the robot ``links`` over 0.6 s of each gait at 0.2 m/s."""
    figure, axes = plt.subplots(len(GAITS), 1, figsize=(8, 7.5), sharex=True, layout="constrained")
    for ax, kind in zip(axes, GAITS, strict=True):
        run = walk("id-coulomb-qp", path=WalkPath(kind="command"), gait=WalkGait(kind=kind), duration_s=3.0)
        t, feet = run.arrays["t"], run.meta["layout"]["feet"]
        shown = (t >= 2.0) & (t < 2.6)
        planned, bears = run.arrays["stance"][shown] > 0.5, run.arrays["force"][shown][:, :, 2] > 1e-3
        for on, color, height in ((planned, "0.85", 0.8), (bears, "#0072b2", 0.44)):
            for foot in range(len(feet)):
                edges = np.flatnonzero(np.diff(on[:, foot], prepend=False, append=False)).reshape(-1, 2) * 1e-3
                bars = [(2.0 + begin, end - begin) for begin, end in edges.tolist()]
                ax.broken_barh(bars, (foot - 0.5 * height, height), color=color)
        ax.set_yticks(range(len(feet)), feet)
        ax.invert_yaxis()
        ax.set_title(kind, loc="left", fontsize=10)
        ax.margins(x=0)
    axes[-1].set_xlabel("time [s]")
    save(figure, out)


def strides(out: Path) -> None:
    """Draw the torques of a leg, their rate, and predicted and actual normal forces over two strides of the trot."""
    run = walk("id-coulomb-qp")
    layout, arrays = run.meta["layout"], run.arrays
    t, h = arrays["t"], layout["period_s"]
    rows = (t >= 1.1) & (t < 1.1 + 2 * layout["gait_period_s"])
    figure, axes = plt.subplots(3, 1, figsize=(9, 6.5), sharex=True, layout="constrained")
    for joint in LEG:
        tau = arrays["tau"][rows, layout["joints"].index(joint)]
        axes[0].plot(t[rows], tau, lw=1.4, label=joint)
        axes[1].plot(t[rows], np.gradient(tau, h), lw=1.1)
    for foot, name in enumerate(layout["feet"]):
        (line,) = axes[2].plot(t[rows], arrays["force_pred"][rows, foot, 2], lw=1.4, label=name)
        axes[2].plot(t[rows][::6], arrays["force"][rows, foot, 2][::6], ".", ms=4, color=line.get_color())
    for ax, label in zip(axes, ("torque [N m]", "torque rate [N m/s]", "normal force [N]"), strict=True):
        ax.set_ylabel(label)
        ax.margins(x=0.0)
    axes[2].set_xlabel("time [s]")
    for ax in axes[::2]:
        ax.legend(ncols=4, loc="lower right", bbox_to_anchor=(1.0, 0.98), frameon=False, fontsize=9)
    save(figure, out)


def save(figure: plt.Figure, out: Path) -> None:
    """Write a picture, byte for byte reproducible."""
    for ax in figure.axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(alpha=0.25)
    figure.savefig(out, metadata={"Date": None})
    plt.close(figure)


def tutorial(path: Path) -> None:
    """Run the notebook in an empty folder and store its outputs."""
    notebook = nbformat.read(path, as_version=4)
    with TemporaryDirectory() as folder:
        NotebookClient(notebook, resources={"metadata": {"path": folder}}, record_timing=False).execute()
    notebook.metadata = {"kernelspec": notebook.metadata.kernelspec}  # without the versions of this machine
    nbformat.write(notebook, path)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    plt.rcParams["svg.hashsalt"] = "idcontrol"
    tutorial(Path(__file__).parent / "howto" / "notebook.ipynb")
    gaits(folder / "gaits.svg")
    strides(Path(__file__).parents[2] / "experiments" / "pictures" / "trot.svg")
