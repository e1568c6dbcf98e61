//! Sets the cfgs that the code asks for: those that describe the interpreter, such as `Py_GIL_DISABLED`, which PyO3 sets for itself
//! only, and `linux_calls`, for what Linux alone has. TICKWHEEL_PORTABLE leaves that out: what replaces it elsewhere is tested on
//! Linux so.

use std::env;

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
    println!("cargo::rustc-check-cfg=cfg(linux_calls)");
    println!("cargo::rerun-if-env-changed=TICKWHEEL_PORTABLE");
    let is_linux = env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux");
    if is_linux && env::var_os("TICKWHEEL_PORTABLE").is_none() {
        println!("cargo::rustc-cfg=linux_calls");
    }
}
