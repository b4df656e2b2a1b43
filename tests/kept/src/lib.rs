//! Kept images: the volumes in `tests/images` that Linux filled, read through the library without
//! root and without a kernel. The tests live in `tests/`.
