"""Contact problems in terms of their Delassus operator, from files and from recorded steps.

A file is a NumPy ``.npz`` with the arrays of `FrictionProblem`: ``W`` (3 n, 3 n), ``q`` (3 n,) and ``mu`` (n,). Other
arrays are ignored.
"""

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from idcontrol.errors import InputError
from idcontrol.models.step import StepProblem
from idcontrol.models.whitened import whiten
from idcontrol.types import Array

RECORDED: Final = Path(__file__).parent / "recorded"
"""Plant steps of grasps (μ 0.3 and 1), and of trots that follow velocity commands (robot ``links`` at μ 0.1 and 0.8,
``go1`` at 0.1, ``anymal`` at 0.8). From the 300th step on, every 97th step of a run was converted by `of_step`."""


class FrictionProblem(NamedTuple):
    """Find impulses r with u = W r + q under Coulomb's law (`idcontrol.bench.judge`).

    Contact i has the entries 3 i (normal), 3 i + 1 and 3 i + 2 (tangents); u_N > 0 means that it separates.

    Attributes:
        name: Name of the set and of the problem in it.
        W: Delassus operator, symmetric, shape (3 n, 3 n) [1/kg].
        q: Contact velocities at zero impulse, shape (3 n,) [m/s].
        mu: Friction, shape (n,).
    """

    name: str
    W: Array
    q: Array
    mu: Array


def read(paths: Sequence[str | Path]) -> list[FrictionProblem]:
    """Return the problems of files and folders, a folder's files in order of name; W is replaced by (W + Wᵀ)/2.

    Raises:
        InputError: A folder has no problems, or a file is not a problem.
    """
    files: list[Path] = []
    for path in map(Path, paths):
        archives = sorted(path.rglob("*.npz")) if path.is_dir() else [path]
        if not archives or not archives[0].is_file():
            raise InputError(f"data: {path} has no .npz files; give a file, or a folder with contact problems")
        files += archives
    return [_read(file) for file in files]


def _read(file: Path) -> FrictionProblem:
    try:
        with np.load(file, allow_pickle=False) as arrays:
            W, q, mu = (np.asarray(arrays[name], dtype=np.float64) for name in ("W", "q", "mu"))
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise InputError(f"data: {file} is no contact problem with W, q and mu: {error}") from error
    q, mu = q.ravel(), mu.ravel()
    n = mu.size
    if not n or W.shape != (3 * n, 3 * n) or q.shape != (3 * n,):
        raise InputError(
            f"data: {file}: {n} frictions need W ({3 * n}, {3 * n}) and q ({3 * n},), not {W.shape}, {q.shape}"
        )
    if not (np.isfinite(W).all() and np.isfinite(q).all() and np.isfinite(mu).all() and (mu >= 0.0).all()):
        raise InputError(f"data: {file}: W, q and mu must be finite, and mu not negative")
    return FrictionProblem(f"{file.parent.name}/{file.stem}", np.ascontiguousarray(0.5 * (W + W.T)), q, mu)


def of_step(name: str, step: StepProblem) -> FrictionProblem:
    """Return the contact problem of a forward or inverse step with finite friction and without bilateral rows."""
    whitened, n = whiten(step), len(step.contacts)
    order = np.arange(3 * n).reshape(3, n).T.ravel()
    rho = whitened.rho[order]
    return FrictionProblem(name, rho @ rho.T, whitened.c[order], np.ascontiguousarray(step.contacts.mu))
