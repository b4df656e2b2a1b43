//! The oracle (being built).
