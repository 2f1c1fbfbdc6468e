//! `guard-first` brings its own entry point, so the C start files must stay out of it.

fn main() {
    println!("cargo::rustc-link-arg-bin=guard-first=-nostartfiles");
    println!("cargo::rerun-if-changed=build.rs");
}
