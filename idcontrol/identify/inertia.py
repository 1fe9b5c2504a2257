"""Inertial parameters of real mass distributions, in coordinates around a nominal body.

Parameters π are Pinocchio's: mass m, first moments m c, and the inertia about the joint's origin (xx, xy, yy, xz, yz,
zz). They belong to a distribution of positive mass if the pseudo-inertia ::

    J = [Σ, m c; m cᵀ, m],   Σ = tr(I)/2 1 - I,

is positive definite (Wensing, Kim & Slotine 2018). A nominal pseudo-inertia J₀ = L Lᵀ has the neighbours ::

    J = L T(x) T(x)ᵀ Lᵀ

with T lower triangular and exponentials on its diagonal: the log-Cholesky coordinates of Rucker & Wensing 2022, about
J₀ instead of the identity. So every x belongs to a possible body. To first order, the length of x is the
affine-invariant distance from J₀ (Lee & Park 2018): a length of 0.3 means changes of about 30 %.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from idcontrol.types import Array

SIZE: Final = 10
"""Number of inertial parameters of a body, and number of its inertial coordinates."""

THINNEST: Final = 1e-3
"""Smallest second moment of a nominal body about its mass centre, relative to the largest. Rods have second moments of
zero, and URDFs often state moments that no body has."""
POINT_M: Final = 1e-3
"""Assumed root of each second moment per mass, for a nominal body without moments [m]."""

_ROWS, _COLUMNS = np.tril_indices(4, -1)


def pseudo(parameters: Array) -> Array:
    """Return the pseudo-inertias (k, 4, 4) of bodies with `parameters` (k, 10)."""
    J = np.empty((len(parameters), 4, 4))
    J[:, 3, 3] = parameters[:, 0]
    J[:, :3, 3] = J[:, 3, :3] = parameters[:, 1:4]
    inertia = parameters[:, [4, 5, 7, 5, 6, 8, 7, 8, 9]].reshape(-1, 3, 3)
    J[:, :3, :3] = 0.5 * np.trace(inertia, axis1=1, axis2=2)[:, None, None] * np.eye(3) - inertia
    return J


def parameters_of(J: Array) -> Array:
    """Return the parameters (..., 10) of pseudo-inertias (..., 4, 4); the inverse of `pseudo`."""
    second = J[..., :3, :3]
    inertia = np.trace(second, axis1=-2, axis2=-1)[..., None, None] * np.eye(3) - second
    moments = inertia[..., [0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]
    return np.concatenate((J[..., 3, 3:], J[..., 3, :3], moments), axis=-1)


def physical(J: Array) -> Array:
    """Return a copy of the pseudo-inertias `J` (k, 4, 4) in which no second moment about the mass centre is too small.

    Each moment is raised to at least `THINNEST` times the body's largest moment; all moments of a point mass are set by
    `POINT_M`.
    """
    mass, first = J[:, 3, 3], J[:, :3, 3]
    shift = np.einsum("ki,kj->kij", first, first) / mass[:, None, None]
    moments, axes = np.linalg.eigh(J[:, :3, :3] - shift)
    largest = moments.max(axis=1)
    least = np.where(largest > 0.0, THINNEST * largest, mass * POINT_M**2)
    moments = np.maximum(moments, least[:, None])
    sound = J.copy()
    sound[:, :3, :3] = np.einsum("kia,ka,kja->kij", axes, moments, axes) + shift
    return sound


def neighbours(root: Array, x: Array) -> tuple[Array, Array]:
    """Return the parameters of bodies at coordinates `x`, and the derivatives of these parameters.

    Args:
        root: Cholesky factors L of the nominal pseudo-inertias, shape (k, 4, 4).
        x: Coordinates, shape (k, 10): 2 ln T_ii, then √2 T_ij below the diagonal, by rows.

    Returns:
        Parameters, shape (k, 10); and derivatives, parameter by coordinate, shape (k, 10, 10).
    """
    k, each = len(x), np.arange(4)
    T, slope = np.zeros((k, 4, 4)), np.zeros((k, SIZE, 4, 4))
    T[:, each, each] = np.exp(0.5 * x[:, :4])
    T[:, _ROWS, _COLUMNS] = np.sqrt(0.5) * x[:, 4:]
    slope[:, each, each, each] = 0.5 * T[:, each, each]
    slope[:, 4 + np.arange(6), _ROWS, _COLUMNS] = np.sqrt(0.5)
    half = root @ T
    turn = (root[:, None] @ slope) @ np.swapaxes(half, 1, 2)[:, None]
    changes = parameters_of(turn + np.swapaxes(turn, 2, 3))
    return parameters_of(half @ np.swapaxes(half, 1, 2)), np.swapaxes(changes, 1, 2)
