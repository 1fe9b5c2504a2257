"""Draw the pictures of the pages from new runs: ``python idcontrol/docs/pictures.py DIR``, or ``make figures``."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import matplotlib.pyplot as plt
import msgspec
import nbformat
import numpy as np
from nbclient import NotebookClient

from idcontrol import plants
from idcontrol.bench.problems.machines import G, H, sled, sled_state
from idcontrol.contact.terrain import plane
from idcontrol.experiments import trot
from idcontrol.record.recording import Run, load
from idcontrol.scenes.walk import WalkGait, WalkPath

SMOOTH = ("id-coulomb-qp", "id-coulomb-qp-raw", "pid")
MODELS = {"coulomb-lcp": "o", "dissipation": "s", "sap": "^", "constraint": "x", "viscous": "+", "noslip": "v"}
GAITS = ("trot", "walk", "pace", "bound", "flying-trot")
SLOPE = np.deg2rad(15.0)
LEG = ("LF_X_1", "LF_Y_2", "LF_Y_3")


def walk(controller: str, **settings: Any) -> Run:
    """Run a trot of two seconds, or of ``duration_s`` in `settings`, and return its record."""
    with TemporaryDirectory() as folder:
        changes = {"controller": controller, "duration_s": 2.0, **settings}
        config = msgspec.structs.replace(trot.PRESETS["default"], **changes)
        trot.experiment.run(config, Path(folder) / "run", lambda share: None)
        return load(Path(folder) / "run")


def smoothness(out: Path) -> None:
    """Draw the torque of one hind knee over two strides, with each of three controllers."""
    figure, axes = plt.subplots(len(SMOOTH), 1, figsize=(8, 5), sharex=True, sharey=True, layout="constrained")
    for ax, controller in zip(axes, SMOOTH, strict=True):
        run = walk(controller)
        t, joint = run.arrays["t"], run.meta["layout"]["joints"].index("LH_Y_3")
        rows = (t >= 1.1) & (t < 1.1 + 2 * run.meta["layout"]["gait_period_s"])
        ax.plot(t[rows], run.arrays["tau"][rows, joint], lw=1.0)
        ax.set_title(controller, loc="left", fontsize=10)
        ax.set_ylabel("torque [N m]")
    axes[-1].set_xlabel("time [s]")
    save(figure, out)


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


def slid(name: str, mu: float) -> float:
    """Return the distance that a body on four ball feet slides down a slope of 15 degrees in a second [m]."""
    plant = plants.build(name, sled(plane((np.sin(SLOPE), 0.0, np.cos(SLOPE))), mu))
    start = state = plant.reset(sled_state(SLOPE))
    for _ in range(1000):
        state = plant.step(np.zeros(0), H)
    return float((state.q[:3] - start.q[:3]) @ [np.cos(SLOPE), 0.0, -np.sin(SLOPE)])


def incline(out: Path) -> None:
    """Draw how far a body slides down a slope with each contact model, and the difference from the closed form."""
    figure, (far, off) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
    frictions = np.linspace(0.0, 0.4, 17)
    exact = 0.5 * G * np.maximum(np.sin(SLOPE) - frictions * np.cos(SLOPE), 0.0)
    far.plot(frictions, exact, color="0.75", lw=6, label="½ g (sin θ - μ cos θ) t²")
    for name, mark in MODELS.items():
        distance = np.array([slid(name, mu) for mu in frictions])
        far.plot(frictions, distance, mark, ms=5, mfc="none", label=name)
        off.semilogy(frictions, np.abs(distance - exact), f"{mark}-", ms=5, mfc="none", lw=0.6)
    for ax, what in ((far, "slid in 1 s [m]"), (off, "distance from the law [m]")):
        ax.set_xlabel("friction coefficient μ")
        ax.set_ylabel(what)
    far.legend(frameon=False, fontsize=9)
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
    smoothness(folder / "smoothness.svg")
    incline(folder / "incline.svg")
    tutorial(Path(__file__).parent / "howto" / "notebook.ipynb")
    gaits(folder / "gaits.svg")
    strides(Path(__file__).parents[2] / "experiments" / "pictures" / "trot.svg")
