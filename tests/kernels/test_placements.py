"""Placements of Pinocchio read without copies."""

import numpy as np
import pinocchio as pin
import pytest

from idcontrol.kernels.placements import placement_views


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_views_show_every_placement_and_what_is_written_later(count):
    rng = np.random.default_rng(count)
    vector = pin.StdVec_SE3()
    for _ in range(count):
        vector.append(pin.SE3.Identity())
    position, rotation = placement_views(vector)
    for i in range(count):
        vector[i] = pin.SE3(pin.exp3(rng.normal(size=3)), rng.normal(size=3))
    assert position.shape == (count, 3)
    assert rotation.shape == (count, 3, 3)
    for i in range(count):
        np.testing.assert_array_equal(position[i], vector[i].translation)
        np.testing.assert_array_equal(rotation[i], vector[i].rotation)


class Scattered:
    """A placement whose rotation and translation are arrays of their own."""

    def __init__(self, order: str, shift: int) -> None:
        block = np.zeros(40)
        self.rotation = block[:9].reshape((3, 3), order=order)
        self.translation = block[shift : shift + 3]


def test_another_layout_of_placements_is_refused():
    with pytest.raises(RuntimeError, match="lays out placements"):
        placement_views([Scattered("F", 10)])
    with pytest.raises(RuntimeError, match="lays out placements"):
        placement_views([pin.SE3.Identity() for _ in range(3)] + [Scattered("F", 9)])
    with pytest.raises(RuntimeError, match="stores rotations"):
        placement_views([Scattered("C", 9)])
