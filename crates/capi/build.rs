//! Gives the shared library its name for the loader: install.sh installs it as that.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let linux = std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux");
    if linux {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libtruecount.so.0");
    }
}
