//! (this floor is being built)
