"""A robot on soles: its record, and its sensed stance."""

import numpy as np
import pytest
from msgspec import structs

from idcontrol import cli, controllers
from idcontrol.config.configuration import build
from idcontrol.contact.soles import by_foot
from idcontrol.errors import InputError
from idcontrol.loop.life import Phase
from idcontrol.loop.session import wire_format
from idcontrol.record.metrics import sole_wrenches
from idcontrol.record.recording import Run, load
from idcontrol.scenes.locomotion import record_walk
from idcontrol.scenes.session import WalkSession
from idcontrol.scenes.walk import WalkConfig, WalkScene
from idcontrol.show.report import report

STANDS = {"robot": "talos", "gait.kind": "stand", "mu": 0.6, "duration_s": 0.05}


def scene(**changes) -> WalkScene:
    return WalkScene.of(build(WalkConfig(), STANDS | changes))


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    folder = tmp_path_factory.mktemp("stand") / "run"
    record_walk(scene(), folder)
    return load(folder)


def test_forces_are_recorded_by_sole(run):
    weight = 9.81 * scene().robot.system().mass
    assert run.layout.feet == ("left", "right")
    assert run.arrays["force"].shape[1:] == run.arrays["moment"].shape[1:] == run.arrays["cop"].shape[1:] == (2, 3)
    np.testing.assert_allclose(run.arrays["force"][10:, :, 2].sum(axis=1), weight, rtol=0.02)
    assert run.metrics["completed"]


def test_recorded_wrenches_balance_the_weight(run):
    """Statics: at rest, forces at the centres of pressure and yaw moments carry the weight at the centre of mass."""
    arrays = run.arrays
    force, moment, cop = (arrays[name][-1] for name in ("force", "moment", "cop"))
    at_cop = moment - np.cross(cop - arrays["feet"][-1], force)
    np.testing.assert_allclose(at_cop[:, :2], 0.0, atol=1e-9)
    total = (moment + np.cross(arrays["feet"][-1] - arrays["com"][-1], force)).sum(axis=0)
    weight = 9.81 * scene().robot.system().mass
    np.testing.assert_allclose(total / weight, 0.0, atol=2e-3)  # it has just begun to stand
    inside = np.abs(cop - arrays["feet"][-1]) <= np.array([0.1, 0.065, 1e-6]) + 1e-9
    assert inside.all()


def test_predicted_wrenches_match_the_plant(run):
    for name in ("force", "moment", "cop"):
        np.testing.assert_allclose(run.arrays[f"{name}_pred"], run.arrays[name], atol=1e-5)
    assert run.metrics["wrench_err_rel"] < 1e-6
    assert run.metrics["cop_err_m"] < 1e-8


def test_a_wrench_error_counts_moments_as_forces_at_a_tenth_of_a_metre():
    arrays = {name: np.zeros((4, 2, 3)) for name in ("force", "moment", "cop", "force_pred", "moment_pred", "cop_pred")}
    arrays["force"][:, 0, 2] = arrays["force_pred"][:, 0, 2] = 100.0  # the other sole is in the air
    arrays["moment_pred"][:3, 0, 1], arrays["cop_pred"][:, 0, 0] = 1.0, 0.01
    arrays["force_pred"][3] = arrays["cop_pred"][3] = np.nan
    assert sole_wrenches(arrays) == pytest.approx({"wrench_err_rel": 0.1, "cop_err_m": 0.01})
    assert set(sole_wrenches({name: values[:0] for name, values in arrays.items()}).values()) == {None}


def test_columns_and_report_know_soles(run):
    pandas = pytest.importorskip("pandas")
    table = run.frame("cop_pred")
    assert isinstance(table, pandas.DataFrame)
    assert table["left", "y"].iloc[-1] == run.arrays["cop_pred"][-1, 0, 1]
    page = report(run.folder).read_text(encoding="utf-8")
    assert "pressure, x [mm]" in page
    assert "predicted wrench of a sole" in page


def test_point_feet_record_no_moments(tmp_path):
    metrics = record_walk(WalkScene.of(WalkConfig(duration_s=0.01)), tmp_path / "run")
    arrays = load(tmp_path / "run").arrays
    assert not {"moment", "moment_pred", "cop", "cop_pred"} & arrays.keys()
    assert not {"wrench_err_rel", "cop_err_m"} & metrics.keys()


@pytest.mark.parametrize(("contacts", "ahead_s"), [("geometry", 0.0), ("sensed", 0.002), ("fused", 0.0)])
def test_stance_is_sensed_by_sole(contacts, ahead_s):
    for tick in scene(**{"sensing.contacts": contacts, "command.ahead_s": ahead_s}).simulated().ticks(20):
        assert tick.state.forces is None or tick.state.forces.identity.tolist() == [0, 1]
        assert tick.reference.stance.shape == (2,)
    assert tick.reference.stance.all()
    np.testing.assert_allclose(tick.after.forces.force.sum(axis=0), tick.forces.force.sum(axis=0))


def test_a_robot_without_a_gait_can_only_stand():
    with pytest.raises(InputError, match=r"no gait: it can only stand; --set gait\.kind=stand"):
        scene(**{"gait.kind": "trot"})


def test_settings_that_need_point_feet_are_refused_on_soles():
    for base in ("plant", "estimated"):
        with pytest.raises(InputError, match="only be estimated for point feet"):
            scene(**{"sensing.base": base, "sensing.forces": "estimated"}).simulated()
    with pytest.raises(InputError, match="corners of soles"):
        controllers.make("id-sensed-1", scene().robot, mu=0.6)


def test_datagrams_carry_a_force_for_each_sole_as_for_each_point_foot():
    """The layout is that of a machine with two point feet: no new version."""
    session = WalkSession("trot", scene().config)
    wire = wire_format(session)
    assert session.feet == ("left", "right")
    assert wire.state["force_sensed"] == wire.state["normal_sensed"] == (2, 3)
    start = session.start
    plant = session.plant(1e-3)
    plant.reset(start)
    plant.step(np.zeros(session.system.n_actuated), 1e-3)
    at_corners = plant.contact_forces()
    assert at_corners.identity.size > 2
    values = np.empty(wire.state_values)
    felt = structs.replace(start, forces=by_foot(at_corners, wire.patch))
    wire.write_state(values, felt, np.zeros(len(wire.torque_limit)), np.zeros(3))
    forces = wire.read_state(values).state.forces
    assert forces.identity.tolist() == [0, 1]
    np.testing.assert_allclose(forces.force.sum(axis=0), at_corners.force.sum(axis=0), atol=1e-9)


@pytest.mark.slow
def test_a_loop_runs_a_humanoid_and_records_forces_by_sole(tmp_path):
    settings = ["--set", "gait.kind=stand", "--mu", "0.6", "--duration", "0.1"]
    how = ["--transport", "inprocess", "--pacing", "fast", "--out", str(tmp_path / "run")]
    assert cli.main(["loop", "--robot", "talos", *settings, *how]) == 0
    run = load(tmp_path / "run")
    assert run.metrics["completed"]
    stands = (run.arrays["phase"] == Phase.WORKING) & (run.arrays["t"] > 0.03)  # torques have risen to their full size
    force, predicted = run.arrays["force"][stands], run.arrays["force_pred"][stands]
    # a thousandth of the weight: what the rise of the torques has caused fades over a tenth of a second
    np.testing.assert_allclose(force[:-1], predicted[:-1], atol=0.9)
    np.testing.assert_allclose(force[-2, :, 2].sum(), 9.81 * scene().robot.system().mass, rtol=2e-2)
    assert load(tmp_path / "run" / "machine").arrays["force"].shape[1:] == (2, 3)
