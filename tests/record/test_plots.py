"""Plots are encoded in the page with every extreme, and their thinning is exact."""

import base64
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from idcontrol.record import plots
from idcontrol.record.plots import Curve, Panel, Plots, Section, data, packed, thinned


def unpacked(text, kind):
    """Decode numbers from the text of a page: the reverse of `packed`, as in the page's script."""
    planes = np.frombuffer(zlib.decompress(base64.b64decode(text)), np.uint8).reshape(np.dtype(kind).itemsize, -1)
    return np.ascontiguousarray(planes.T).view(kind).ravel()


@given(st.integers(3, 400), st.integers(1, 60), st.integers(0, 2**32 - 1))
def test_thinning_keeps_every_extreme_of_every_bin_and_invents_nothing(rows, bins, seed):
    rng = np.random.default_rng(seed)
    t, values = np.cumsum(rng.random(rows)), rng.standard_normal((rows, 3))
    values[rng.random((rows, 3)) < 0.2] = np.nan
    fewer_t, fewer = thinned(t, values, bins)
    if rows <= 2 * bins:
        assert fewer_t is t
        assert fewer is values
        return
    assert fewer.shape == (2 * bins, 3)
    assert (np.diff(fewer_t) >= 0.0).all()
    first = np.arange(bins) * rows // bins
    for begin, end, pair in zip(first, [*first[1:], rows], fewer.reshape(bins, 2, 3), strict=True):
        for extremes, column in zip(pair.T, values[begin:end].T, strict=True):
            known = column[~np.isnan(column)]
            assert sorted(extremes) == [known.min(), known.max()] if known.size else np.isnan(extremes).all()


def test_thinned_rows_go_up_where_the_curve_goes_up():
    t = np.arange(100.0)
    _, up = thinned(t, t[:, None], 10)
    _, down = thinned(t, -t[:, None], 10)
    assert (np.diff(up[:, 0]) > 0.0).all()
    assert (np.diff(down[:, 0]) < 0.0).all()


@pytest.mark.parametrize("kind", ["<f4", "<f8"])
def test_numbers_arrive_as_they_were_packed(kind):
    numbers = np.array([0.0, -1.5, np.nan, 1e12, -1e-30], kind)
    np.testing.assert_array_equal(unpacked(packed(numbers), kind), numbers)


def test_a_page_almost_filled_by_pictures_keeps_its_peak():
    t = 1e-3 * np.arange(50_000)
    noise = np.random.default_rng(0).standard_normal(len(t))
    noise[31_415] = 77.0
    curve = Curve("noise", noise, "#000000")
    page = data(Plots(t, curve, [Section("", "", [Panel("", [curve])])]), beside=plots.LARGEST_PAGE - 40_000)
    assert len(page["numbers"]) <= 40_000
    times = unpacked(page["time"], "<f8")
    for column in unpacked(page["numbers"], "<f4").reshape(2, -1):
        assert len(column) == len(times)
        assert column.max() == 77.0
        assert abs(times[column.argmax()] - t[31_415]) < 2.0 * np.diff(times).max()


def test_nan_and_values_without_a_logarithm_are_skipped():
    values = np.array([1.0, 0.0, -1.0, np.inf, 1e13, np.nan])
    curve = Curve("", values, "#000000")
    page = data(Plots(np.arange(6.0), curve, [Section("", "", [Panel("", [curve], log=True)])]))
    plain, log = unpacked(page["numbers"], "<f4").reshape(2, -1)
    np.testing.assert_array_equal(plain, [1.0, 0.0, -1.0, np.nan, np.nan, np.nan])
    np.testing.assert_array_equal(log, [1.0, *[np.nan] * 5])


def test_a_curve_far_from_zero_is_drawn_as_finely_as_at_zero():
    """A base sways by 60 µm at 0.17 m next to its constant reference: drawn to an 8000th of the sway."""
    t = 1e-3 * np.arange(1000)
    sway = 30e-6 * np.sin(7.0 * t)
    curves = [Curve("", values, "#000000") for values in (0.17186 + sway, np.full_like(t, 0.17186))]
    page = data(Plots(t, Curve("", sway, "#000000"), [Section("", "", [Panel("", curves)])]))
    about_zero, measured, reference = unpacked(page["numbers"], "<f4").reshape(3, -1).astype(float)
    single = 0.17 * np.finfo("<f4").eps
    np.testing.assert_allclose(about_zero, sway, rtol=2.0**-14)
    np.testing.assert_allclose(measured, 0.17186 + sway, rtol=0.0, atol=60e-6 * 2.0**-13 + single)
    np.testing.assert_allclose(reference, 0.17186, rtol=0.0, atol=single)
