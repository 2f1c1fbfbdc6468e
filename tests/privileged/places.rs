//! x
#[test] fn x() {}
