"""A user's robot in a folder of its own: a trunk on four legs of three joints, URDF and robot file."""

import math
from pathlib import Path

INERTIAL = """<inertial><mass value="{mass}"/>
      <inertia ixx="{i}" ixy="0" ixz="0" iyy="{i}" iyz="0" izz="{i}"/></inertial>"""


def urdf() -> str:
    """The URDF: a box on four legs of 0.1 m and 0.1 m, feet in links named ``FL_foot`` and so on."""
    lines = ['<robot name="mule">', f'  <link name="trunk">{INERTIAL.format(mass=4, i=0.05)}</link>']
    for leg, x, y in (("FL", 0.2, 0.1), ("FR", 0.2, -0.1), ("HL", -0.2, 0.1), ("HR", -0.2, -0.1)):
        parent = "trunk"
        for joint, axis, origin in (
            ("hip", "1 0 0", f"{x} {y} 0"),
            ("thigh", "0 1 0", "0 0 0"),
            ("knee", "0 1 0", "0 0 -0.1"),
        ):
            child = f"{leg}_{joint}_link"
            lines += [
                f'  <joint name="{leg}_{joint}" type="revolute">',
                f'    <parent link="{parent}"/><child link="{child}"/><origin xyz="{origin}"/><axis xyz="{axis}"/>',
                '    <limit lower="-2" upper="2" effort="9" velocity="20"/>',
                "  </joint>",
                f'  <link name="{child}">{INERTIAL.format(mass=0.1, i=1e-4)}</link>',
            ]
            parent = child
        lines += [
            f'  <joint name="{leg}_sole" type="fixed"><parent link="{parent}"/><child link="{leg}_foot"/>',
            '    <origin xyz="0 0 -0.1"/></joint>',
            f'  <link name="{leg}_foot"/>',
        ]
    return "\n".join([*lines, "</robot>", ""])


ROBOT_FILE = """
schema = 1
name = "mule"
urdf = "mule.urdf"
base = "free-flyer"

[home.joints_rad]
"*_thigh" = 0.5
"*_knee" = -1.0

[[feet]]
name = "LF"
frame = "FL_foot"
radius_m = 0.02
[[feet]]
name = "RF"
frame = "FR_foot"
radius_m = 0.02
[[feet]]
name = "LH"
frame = "HL_foot"
radius_m = 0.02
[[feet]]
name = "RH"
frame = "HR_foot"
radius_m = 0.02

[limits]
torque_nm = { "*" = 9, "FL_knee" = 8 }
velocity_rad_s = { "*" = 20 }

[gains.torque]
kp_nm_rad = { "*" = 50 }
kd_nm_s_rad = { "*" = 0.5 }

[gait]
period_s = 0.3
duty = 0.75
touchdown = { LF = 0.25, RF = 0.75, LH = 0.75, RH = 0.25 }
step_height_m = 0.02
touchdown_speed_m_s = 0.1
speed_m_s = 0.2
turn_rad_s = 1.0
"""


def write(folder: Path, *, old: str = "", new: str = "", urdf_old: str = "", urdf_new: str = "") -> Path:
    """The robot in `folder`, the first `old` of its robot file and the first `urdf_old` of its URDF replaced."""
    assert old in ROBOT_FILE
    assert urdf_old in urdf()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "mule.urdf").write_text(urdf().replace(urdf_old, urdf_new, 1) if urdf_old else urdf())
    path = folder / "robot.toml"
    path.write_text(ROBOT_FILE.replace(old, new, 1) if old else ROBOT_FILE)
    return path


def footprint(folder: Path) -> Path:
    """The robot with a root link on the ground below its trunk, as ROS has it (REP 120)."""
    root = '<joint name="up" type="fixed"><parent link="base_footprint"/><child link="trunk"/><origin xyz="0 0 {z}"/>'
    # feet of 20 mm under two links of 0.1 m, both 0.5 rad from the vertical; the root is 1 mm below the ground
    z = 0.021 + 0.2 * math.cos(0.5)
    return write(
        folder, urdf_old="</robot>", urdf_new=f'<link name="base_footprint"/>{root.format(z=z)}</joint></robot>'
    )
