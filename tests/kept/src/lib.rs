//! Volumes that Linux filled years ago, as it were: the images in `tests/images`, read through the
//! library without root and without a kernel. The tests live in `tests/`.
