//! Sets the cfgs that describe the interpreter, such as `Py_GIL_DISABLED`: PyO3 sets them for itself only.

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
}
