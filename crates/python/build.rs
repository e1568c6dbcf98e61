//! Sets the `cfg` flags of the crate.
//!
//! Some flags describe the interpreter, such as `Py_GIL_DISABLED`, which PyO3 sets only for its own crate.
//! `linux_calls` allows system calls of Linux. The environment variable TICKWHEEL_PORTABLE turns this flag off, so that
//! the replacements for other systems can be tested on Linux. `unwinds_threads` means that the interpreter ends threads
//! by unwinding them. The linker then replaces functions of the interpreter with the wrappers in `parking.rs`.

use std::env;

const PARKING: &str = "src/cpython/parking.rs";

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
    println!("cargo::rustc-check-cfg=cfg(linux_calls, unwinds_threads)");
    println!("cargo::rerun-if-env-changed=TICKWHEEL_PORTABLE");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={PARKING}");
    let is_linux = env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux");
    if is_linux && env::var_os("TICKWHEEL_PORTABLE").is_none() {
        println!("cargo::rustc-cfg=linux_calls");
    }
    // Other systems end a thread without unwinding it, and newer interpreters do not end it at all.
    let is_written_for = env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "x86_64" || arch == "aarch64");
    if is_linux && is_written_for && pyo3_build_config::get().version().minor < 14 {
        println!("cargo::rustc-cfg=unwinds_threads");
        let text = std::fs::read_to_string(PARKING).expect("the list of functions is beside this script");
        for line in text.lines() {
            if let Some((name, _)) = line.strip_prefix("    fn ").and_then(|rest| rest.split_once('(')) {
                println!("cargo::rustc-link-arg-cdylib=-Wl,--wrap={name}");
            }
        }
    }
}
