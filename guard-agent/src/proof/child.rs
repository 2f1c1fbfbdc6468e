//! Who attacks: a forked process of ours, and its report.
