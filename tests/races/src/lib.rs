//! Race tests: see `tests/`. `make tsan` runs them under ThreadSanitizer
//! (docs/design/concurrency.md).
