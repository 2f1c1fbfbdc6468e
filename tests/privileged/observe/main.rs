//! What a contained server tried is on record, each attempt once and with the right words.

mod counts;
mod kinds;
mod shell;
mod silence;
