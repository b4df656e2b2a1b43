# make test: everything CI runs.   make demo: the stack at work.   make bench: claims about speed.
CARGO ?= cargo
.PHONY: all test demo bench fmt lint doc unit tools clean

all:
	$(CARGO) build --release

test: tools fmt lint doc unit

tools:
	@sh tests/setup-tools.sh

fmt:
	$(CARGO) fmt --all --check

lint:
	$(CARGO) clippy --workspace --all-targets -- -D warnings

doc:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps

unit:
	$(CARGO) test --workspace --no-fail-fast

demo: all
	@bash demo/run.sh

bench:
	@bash bench/run.sh

clean:
	$(CARGO) clean
