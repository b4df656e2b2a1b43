//! The layering test lives in `tests/layering.rs`.
