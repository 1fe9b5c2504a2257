"""Tosses that a plant made are found to be its own; the measured ones say the same of the cube in both halves."""

import msgspec
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from idcontrol.errors import InputError, UnknownName
from idcontrol.experiments import cube as record
from idcontrol.experiments import tosses
from idcontrol.experiments.cube import PERIOD, Cube
from idcontrol.experiments.tosses import Config, Engine
from idcontrol.types import State
from tests.experiments.measured import measured

CUBE = Cube(scale=1.02, half_width_m=0.0525, inertia_kg_m2=0.0011, centre_m=(0.0, 0.001, 0.005))
TRUE = {"mu": 0.2, "restitution": 0.25}
SUBSTEPS = 2


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A file of tosses that ``coulomb-lcp`` made, in the lengths of a record that is too small by 2 %."""
    rng = np.random.default_rng(7)
    plant = tosses.engine(Engine("coulomb-lcp", TRUE), TRUE, CUBE, PERIOD / SUBSTEPS)
    rows = []
    for _ in range(12):
        turn = Rotation.random(random_state=rng.integers(1 << 30))
        down = -(turn.apply(CUBE.corners)[:, 2].min())
        v = turn.inv().apply(np.append(rng.uniform(0.3, 0.8, 2), -0.2))
        state = plant.reset(
            State(
                t=0.0,
                q=np.concatenate(([0.0, 0.0, down + 0.1], turn.as_quat())),
                v=np.concatenate((v, rng.normal(scale=3.0, size=3))),
            )
        )
        poses = [state.q]
        for _ in range(60):
            state = plant.step(np.zeros(0), PERIOD)
            poses.append(state.q)
        pose = np.array(poses)
        rows.append(np.column_stack((pose[:, :3] / CUBE.scale, pose[:, [6, 3, 4, 5]], np.zeros((len(pose), 6)))))
    path = tmp_path_factory.mktemp("tosses") / "cube_tosses.npz"
    np.savez(path, rows=np.concatenate(rows), offsets=np.cumsum([0] + [len(each) for each in rows]))
    return path


def test_flights_and_single_impacts_tell_scale_mass_centre_inertia_and_restitution(made):
    tracks = record.read(made)
    found = record.calibrate(tracks)
    assert found.scale == pytest.approx(CUBE.scale, rel=1e-3)
    assert found.half_width_m == pytest.approx(CUBE.half_width_m, abs=2e-4)
    np.testing.assert_allclose(found.centre_m, CUBE.centre_m, atol=2e-4)
    # rows and the plant's steps are coarse beside an impact
    assert found.inertia_kg_m2 == pytest.approx(CUBE.inertia_kg_m2, rel=0.1)
    hits = record.impacts(tracks, found)
    assert hits.number.size >= 3
    assert np.median(hits.restitution) == pytest.approx(TRUE["restitution"], abs=0.03)
    # of an inscribed pyramid: from μ/√2 to μ
    assert 0.9 * TRUE["mu"] / np.sqrt(2) < np.median(hits.friction) < 1.1 * TRUE["mu"]


def test_a_toss_ends_before_somebody_takes_the_resting_cube_away():
    falls = np.repeat(np.linspace(0.2, 0.0, 20)[:, None, None], 8, axis=1) * [0.0, 0.0, 1.0]
    rests, taken = np.zeros((30, 8, 3)), np.full((10, 8, 3), 0.05)
    assert record.undisturbed(np.concatenate((falls, rests))) == 50
    assert record.undisturbed(np.concatenate((falls, rests, taken))) == 50
    assert record.undisturbed(np.concatenate((falls, rests[:10], taken))) == 40  # it never rested
    assert record.undisturbed(falls[:5]) == 5


def test_the_generating_plant_repeats_its_tosses(made):
    kept = [toss for track in record.read(made) if (toss := record.prepare(track, CUBE)) is not None]
    scored = tosses.score(Engine("coulomb-lcp", TRUE), TRUE, kept, CUBE, SUBSTEPS)
    # when a corner touches differs by a part of a step
    assert np.median([each.corner.mean() for each in scored.errors]) < 4e-3
    worse = tosses.score(Engine("coulomb-lcp", TRUE), TRUE | {"restitution": 0.0}, kept, CUBE, SUBSTEPS)
    assert worse.mean("corner") > 2.0 * scored.mean("corner")


@pytest.mark.slow
def test_a_run_fits_on_one_half_scores_on_the_other_and_can_be_replayed(made, tmp_path):
    config = Config(data=str(made), plant="coulomb-lcp", evaluations=3, fit_tosses=2, score_tosses=3)
    metrics = tosses.experiment.run(config, tmp_path, lambda share: None)
    assert metrics["tosses"] == 3
    told = metrics["engines"]["coulomb-lcp"]
    assert {"position_m", "rotation_rad", "rest_m"} <= set(told)
    assert told["parameters"].keys() == TRUE.keys()
    assert (tmp_path / "figure-1.svg").is_file()


@pytest.mark.slow
def test_fixed_parameters_are_scored_on_a_file_without_a_fit(made, tmp_path):
    config = Config(data=str(made), plant="dissipation", evaluations=0, score="all", substeps=1, cube=CUBE)
    metrics = tosses.experiment.run(config, tmp_path, lambda share: None)
    assert metrics["tosses"] == 12
    assert metrics["cube"] == msgspec.to_builtins(CUBE)
    assert metrics["engines"]["dissipation"]["parameters"] == tosses.ENGINES["dissipation"].fitted


def test_what_cannot_be_read_is_refused_in_one_line(tmp_path, made):
    def refused(line, **settings):
        with pytest.raises(InputError, match=line):
            tosses.experiment.run(Config(**settings), tmp_path / "out", lambda share: None)

    refused("is no record of tosses", data=str(tmp_path / "nowhere.npz"))
    np.savez(tmp_path / "short.npz", rows=np.zeros((3, 13)), offsets=np.array([0, 4]))
    refused("is no record of tosses", data=str(tmp_path / "short.npz"))
    with pytest.raises(UnknownName, match="coulomb-lcp"):
        tosses.experiment.run(Config(data=str(made), plant="coulomb", evaluations=0), tmp_path / "out", lambda s: None)


def test_both_halves_of_the_measured_tosses_say_the_same_of_the_cube():
    tracks = record.read(measured("cube_tosses.npz"))
    one, other = (record.calibrate(half) for half in (tracks[::2], tracks[1::2]))
    assert one.scale == pytest.approx(other.scale, rel=1e-3)
    assert one.centre_m[2] == pytest.approx(other.centre_m[2], abs=3e-4)
    assert one.inertia_kg_m2 == pytest.approx(other.inertia_kg_m2, rel=0.01)
    # a solid cube would have 0.00068, a thin shell 0.00113
    assert one.inertia_kg_m2 == pytest.approx(0.00113, rel=0.05)
    hits = record.impacts(tracks, one)
    assert np.percentile(hits.restitution, 5) > 0.2
    assert 3e-3 < hits.delay < 7e-3  # a contact of some 10 ms
