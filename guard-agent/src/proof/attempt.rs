//! One attack and what it shows.
