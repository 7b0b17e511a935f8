//! Names the interface's version in the shared library, so that the loader does not start a program with one that it does not fit.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libflashlab_volume.so.0");
    println!("cargo:rerun-if-changed=build.rs");
}
