"""Every robot loads and stands; a user's robot needs its URDF and a robot file, nothing else."""

import importlib.metadata
import json
import pickle
import re
from pathlib import Path

import coal
import numpy as np
import pinocchio as pin
import pytest

from idcontrol import cli, robots
from idcontrol.errors import InputError, UnknownName, install_command
from idcontrol.robots import locate, urdf
from tests.robots import descriptions

# the models that the planner's settings were found with, to 10 g [kg]
MASS = {"links": 4.80, "solo12": 2.50, "go1": 13.10, "anymal": 30.48}


@pytest.fixture(scope="module", params=sorted(MASS))
def robot(request):
    return robots.load(request.param)


@pytest.fixture
def mule(tmp_path):
    return descriptions.write(tmp_path / "mule")


@pytest.mark.parametrize("name", robots.names())
def test_a_robot_is_listed_with_the_mass_and_the_joints_that_its_model_has(name):
    summary = robots.check(name).summary
    parts = f"{summary['mass_kg']:.3g} kg, {len(summary['joints'])} joints, {len(summary['feet'])} "
    assert parts in robots.library.summaries()[name]


def test_a_robot_has_its_folder_name_and_its_published_mass(robot):
    assert robot.name == robot.path.parent.name
    assert round(robot.system().mass, 2) == MASS[robot.name]


def test_foot_spheres_are_the_lowest_points_of_the_makers_own_foot_geometry(robot):
    """The sphere reaches as deep as the collision shape that the URDF has there, within half a millimetre."""
    system = robot.system()
    model = system.model
    geometry = pin.buildGeomFromUrdf(
        model, str(robot.urdf), pin.COLLISION, package_dirs=[str(p) for p in robot.urdf.parents]
    )
    q = robot.standing_state(system).q
    data, geometry_data = model.createData(), pin.GeometryData(geometry)
    pin.updateGeometryPlacements(model, data, geometry, geometry_data, q)
    down = np.array([0.0, 0.0, -1.0])
    for foot in robot.description.feet:
        frame = system.frame(foot.frame)
        depths = []
        for shape, placed in zip(geometry.geometryObjects, geometry_data.oMg, strict=True):
            if shape.parentFrame == frame:
                depths.append(lowest(shape.geometry, placed, down))
        # half a millimetre: solo12's foot is a mesh with facets, leaning a little at home
        assert depths
        assert min(depths) == pytest.approx(0.0, abs=5e-4)


def lowest(shape, placed, down):
    """Height of the lowest point of a sphere or a mesh."""
    if isinstance(shape, coal.Sphere):
        return placed.translation[2] - shape.radius
    return min(placed.act(shape.vertex(i))[2] for i in range(shape.num_vertices))


def test_legs_come_from_the_tree_from_the_hip_outwards(robot):
    system = robot.system()
    for foot, leg in zip(robot.description.feet, robots.legs(robot, system), strict=True):
        assert len(leg) == 3
        frame = system.model.frames[system.frame(foot.frame)]
        moved = [j for j in range(system.model.njoints) if j in system.model.supports[frame.parentJoint] and j > 1]
        assert [system.actuated_names[i] for i in leg] == [system.model.names[j] for j in moved]
        # moving the leg moves this foot and no other
        q = robot.standing_state(system).q
        turned = system.joint_positions(q).copy()
        turned[leg] += 0.1
        shift = robots.foot_centres(robot, system, system.configuration(turned, q[:7]))
        shift = np.linalg.norm(shift - robots.foot_centres(robot, system, q), axis=1)
        names = [other.name for other in robot.description.feet]
        assert [name for name, far in zip(names, shift, strict=True) if far > 1e-3] == [foot.name]


def test_torque_limits_match_the_real_motors():
    limits = {name: robots.load(name).system().effort_limit for name in MASS}
    assert set(limits["links"]) == {4.0}
    assert set(limits["solo12"]) == {2.7}
    assert set(limits["go1"]) == {23.7, 35.55}
    assert set(limits["anymal"]) == {80.0}


@pytest.mark.parametrize("name", [*MASS, "arm", "panda"])
def test_explicit_damping_of_the_torque_gains_is_stable_at_one_kilohertz(name):
    """The lightest inertia that a motor feels is 1 / (M⁻¹)_jj; with h k_d below it no step turns a velocity around."""
    robot = robots.load(name)
    system = robot.system()
    home = robot.standing_state(system)
    system.update(home.q, home.v)
    lightest = 1.0 / np.diag(np.linalg.inv(system.M))[system.n_unactuated :]
    _, kd = robot.torque_gains(system.actuated_names)
    assert np.all(1e-3 * kd < lightest)


def test_an_unknown_name_lists_the_names_and_the_nearest():
    known = ", ".join(robots.names())
    with pytest.raises(UnknownName, match=rf"no robot 'solo21'; did you mean 'solo12'\? known: {known}"):
        robots.load("solo21")


def test_a_users_robot_loads_by_its_file_its_folder_and_its_urdf(mule):
    by_file = robots.load(mule)
    assert by_file.name == "mule"
    for way in (mule.parent, mule.parent / "mule.urdf", str(mule)):
        assert robots.load(way) == by_file
    system = by_file.system()
    assert system.n_actuated == 12
    # two links of 0.1 m at ±0.5 rad to the vertical above a sole of 0.02 m
    height = by_file.standing_state(system).q[2]
    assert height == pytest.approx(0.2 * np.cos(0.5) + 0.02, abs=1e-12)


def test_a_urdf_is_checked_once_until_its_content_changes(mule, monkeypatch):
    checked, inspect = [], urdf.inspect
    monkeypatch.setattr(urdf, "inspect", lambda path, **options: checked.append(path) or inspect(path, **options))
    robot, text = robots.load(mule), mule.with_name("mule.urdf").read_text()
    first, second = robot.system(), robot.system()
    assert len(checked) == 1
    first.model.inertias[1].mass = 50.0  # a user's change stays with the user's system
    assert second.mass == robot.system().mass == pytest.approx(5.2)
    mule.with_name("mule.urdf").write_text(text.replace('mass value="4"', 'mass value="6"'))
    assert robot.system().mass == pytest.approx(7.2)
    assert len(checked) == 2
    mule.with_name("mule.urdf").unlink()
    with pytest.raises(InputError, match=r"mule.urdf: cannot be read: No such file"):
        robot.system()


def test_a_name_goes_before_a_pattern(mule):
    system = robots.load(mule).system()
    limits = dict(zip(system.actuated_names, system.effort_limit, strict=True))
    assert limits.pop("FL_knee") == 8.0
    assert set(limits.values()) == {9.0}


def test_motor_speeds_are_limited_only_by_the_robot_file(mule):
    mule.write_text(
        mule.read_text().replace(
            "[gains.torque]", 'torque_rate_nm_s = { "*_knee" = 300 }\nno_load_rad_s = { "FL_*" = 30 }\n[gains.torque]'
        )
    )
    system = robots.load(mule).system()
    of = {name: i for i, name in enumerate(system.actuated_names)}
    limits = system.limits
    assert (limits.torque_rate[of["FL_knee"]], limits.torque_rate[of["FL_hip"]]) == (300.0, np.inf)
    assert (limits.no_load[of["FL_hip"]], limits.no_load[of["HR_hip"]]) == (30.0, np.inf)
    assert set(limits.speed) == {20.0}
    mule.write_text(mule.read_text().replace('"FL_*" = 30', '"FL_*" = 20'))
    with pytest.raises(InputError, match="must be above the largest speed"):
        robots.load(mule).system()


def test_a_robot_file_narrows_the_position_limits_of_the_urdf(mule):
    text = mule.read_text()
    mule.write_text(text.replace("[gains.torque]", 'lower_rad = { "*" = -9, "FL_knee" = -1.5 }\n[gains.torque]'))
    system, known = robots.load(mule).system(), dict.fromkeys(robots.load(mule).system().actuated_names, -2.0)
    assert dict(zip(system.actuated_names, system.limits.lower, strict=True)) == known | {"FL_knee": -1.5}
    mule.write_text(text.replace("[gains.torque]", 'upper_rad = { "FL_knee" = -3 }\n[gains.torque]'))
    with pytest.raises(InputError, match="limits leave FL_knee no range: from -2 to -3 rad; widen it"):
        robots.load(mule).system()


def test_actuators_are_as_the_robot_file_says_and_without_a_word_ideal(mule):
    mule.write_text(
        mule.read_text()
        + '[actuators]\narmature_kg_m2 = { "*_knee" = 0.02 }\nfriction_nm = { "FL_*" = 0.3 }\n'
        + 'bandwidth_hz = { "*" = 80 }\n'
    )
    robot = robots.load(mule)
    names = robot.system().actuated_names
    dynamics, of = robot.actuators(names), {name: i for i, name in enumerate(names)}
    assert (dynamics.armature[of["HR_knee"]], dynamics.armature[of["HR_hip"]]) == (0.02, 0.0)
    assert (dynamics.friction[of["FL_hip"]], dynamics.friction[of["HR_hip"]]) == (0.3, 0.0)
    assert (set(dynamics.damping), set(dynamics.bandwidth), set(dynamics.delay)) == ({0.0}, {80.0}, {0.0})
    ideal, real = robot.system(), robot.system(dynamics)
    assert ideal.actuators is None
    added = np.diag(real.M - ideal.M)
    np.testing.assert_allclose(added[6:], dynamics.armature, atol=1e-15)
    np.testing.assert_array_equal(added[:6], 0.0)
    assert {row["bandwidth_hz"] for row in robots.check(mule).summary["actuators"]} == {80.0}


def test_a_copy_of_a_system_has_its_actuators():
    robot = robots.load("go1")
    system = robot.system(robot.actuators(robot.system().actuated_names))
    twin = pickle.loads(pickle.dumps(system))
    np.testing.assert_array_equal(twin.M, system.M)
    np.testing.assert_array_equal(np.array(twin.actuators), np.array(system.actuators))


def test_a_fixed_robot_without_feet_and_gait_stays_where_it_is(tmp_path):
    text = descriptions.ROBOT_FILE.replace('base = "free-flyer"', 'base = "fixed"')
    head, _, rest = text.partition("[[feet]]")
    path = descriptions.write(tmp_path)
    path.write_text(head + "[limits]" + rest.partition("[limits]")[2].partition("[gait]")[0])
    robot = robots.load(path)
    state = robot.standing_state()
    np.testing.assert_array_equal(np.unique(state.q), [-1.0, 0.0, 0.5])
    assert robots.legs(robot, robot.system()) == ()
    assert robots.check(path).fit


def test_paths_that_lead_nowhere_say_so(tmp_path, mule):
    for path in (tmp_path / "none.urdf", tmp_path / "none.toml", tmp_path / "no" / "folder"):
        with pytest.raises(InputError, match=r"^[^\n]*no such (robot )?file[^\n]*$"):
            robots.load(path)
    readme = tmp_path / "README.md"
    readme.touch()
    with pytest.raises(InputError, match=r"README\.md is no robot file; give a robot\.toml"):
        robots.load(readme)
    mule.unlink()
    with pytest.raises(InputError, match=r"no robot\.toml beside it"):
        robots.load(mule.parent / "mule.urdf")


def test_a_urdf_beside_another_robots_file_is_not_mistaken_for_it(mule):
    other = mule.parent / "donkey.urdf"
    other.write_text(descriptions.urdf())
    with pytest.raises(InputError, match=r"it names mule\.urdf, not donkey\.urdf"):
        robots.load(other)
    assert "not donkey.urdf" in robots.check(other).problems[0]


def test_a_missing_distribution_names_the_extra_to_install(monkeypatch, capsys):
    def absent(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(locate, "files_of", absent)
    command = install_command("robots")
    with pytest.raises(InputError, match=re.escape(f"example-robot-data is not installed; {command}")):
        robots.load("solo12")
    assert cli.main(["list", "robots", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["robots"]
    for name in ("anymal", "go1", "panda", "solo12"):
        assert listed[name].endswith(f"; needs {command}")
    assert listed["links"].endswith("4.8 kg, 12 joints, 4 feet")


def test_a_file_that_a_distribution_does_not_have_is_named():
    with pytest.raises(InputError, match=r"example-robot-data has no file example-robot-data/robots/solo13\.urdf"):
        locate.urdf_file("package:example-robot-data/robots/solo13.urdf", Path("robot.toml"))


def test_loading_tells_the_first_problem_and_how_many_more_there_are(tmp_path):
    path = descriptions.write(tmp_path, old="duty = 0.75", new="dutty = 0.75")
    with pytest.raises(
        InputError, match=r"gait\.dutty: unknown key; did you mean duty\? \(and 1 more: idcontrol check"
    ):
        robots.load(path)


@pytest.mark.parametrize("table", ["torque_nm", "velocity_rad_s", "kp_nm_rad", "kd_nm_s_rad"])
def test_a_system_of_a_table_with_a_wrong_joint_names_it(tmp_path, table):
    path = descriptions.write(tmp_path, old=f"{table} = {{", new=f'{table} = {{ "FL_nee" = 1,')
    with pytest.raises(InputError, match=rf'{table}\."FL_nee": matches no actuated joint; the nearest is FL_knee'):
        robots.load(path).system()
