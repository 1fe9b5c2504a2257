"""Averages of contact forces over substeps."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from idcontrol.plants.parts import averaged, touch

touches = st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(-9, 9)), max_size=4), min_size=1, max_size=4)


@given(touches)
def test_forces_are_averaged_contact_by_contact_and_normals_are_the_last(pieces):
    parts = [
        touch(contact, size * np.array([1.0, 2.0, 3.0]), np.full(3, float(index)))
        for index, (contact, size) in enumerate(entry for substep in pieces for entry in substep)
    ]
    mean = averaged(parts, len(pieces))
    total: dict[int, int] = {}
    last: dict[int, int] = {}
    for index, (contact, size) in enumerate(entry for substep in pieces for entry in substep):
        total[contact], last[contact] = total.get(contact, 0) + size, index
    assert mean.identity.tolist() == sorted(total)
    for contact, force, normal in zip(mean.identity, mean.force, mean.normal, strict=True):
        np.testing.assert_allclose(force, total[int(contact)] * np.array([1.0, 2.0, 3.0]) / len(pieces), atol=1e-12)
        assert normal.tolist() == [last[int(contact)]] * 3
