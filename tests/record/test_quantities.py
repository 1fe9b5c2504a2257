"""Labels and units in tables."""

from idcontrol.record import quantities


def test_every_key_has_a_label_with_its_unit():
    assert quantities.label("com_path_err_m") == "distance of the centre of mass from its path, mean [mm]"
    assert quantities.text("com_path_err_m", 2.117e-5) == "0.0212"
    assert quantities.label("slide_at_mu_m") == "slide at mu [m]"
    assert quantities.label("kd_nm_s_rad") == "kd [N m s/rad]"  # the longest ending, not seconds or radians
    assert quantities.label("controller") == "controller"
    assert quantities.label("error_h_0.1_m") == "error h 0.1 [m]"
    assert quantities.label("solver.by.sticks") == "solver, by, sticks"
    assert quantities.label("com_err_max_m") == "centre of mass error, largest [m]"
    assert quantities.words("peak", "N") == ("peak", "N")
    assert quantities.text("anything", None) == "–"
