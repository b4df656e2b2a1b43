# make test: everything CI runs.   make demo: the stack at work.   make bench: claims about speed.
# make torture: a hundred thousand crashes, some twenty minutes (POINTS=, SEED=); then the programs
#   of `make programs` for hours, and `make damage`.
# make programs: other people's programs in a mount (PROGRAMS="fsx=600 git", LONG=1); needs root.
# make damage: every field of every structure damaged; xfskit repair beside xfs_repair. Some forty
#   minutes (DAMAGE="--volume plain --only dir --minutes 5"); needs root.
# make protocols: the engine's threads, their steps taken in thousands of orders.
# make scrub: Linux' online check over a volume of each kind that xfskit writes, in an emulated machine.
# make boot: a machine that mounts by fstab and by units of systemd at boot, emulated; needs root.
# make fuzz: damaged input in all forms, found by coverage (HOURS=); docs/fuzzing.md.
# make tsan: threads under ThreadSanitizer.
# make install: the program, manual pages, helpers of mount(8), a unit of systemd (PREFIX=, DESTDIR=).
CARGO ?= cargo
PREFIX ?= /usr/local
# Where mount(8) and umount(8) look for their helpers.
SBINDIR ?= /sbin
BINDIR = $(PREFIX)/bin
MANDIR = $(PREFIX)/share/man
UNITDIR = $(PREFIX)/lib/systemd/user
PROGRAM = $(or $(CARGO_TARGET_DIR),target)/release/xfskit
.PHONY: install uninstall
.PHONY: all test analyses torture programs damage scrub boot protocols tsan demo bench fmt lint spell deny doc unit tools clean

all:
	$(CARGO) build --release

# Does not build: as root, cargo would leave files of root behind.
install:
	@test -x $(PROGRAM) || { echo "make install: there is no $(PROGRAM); run make first"; exit 1; }
	install -D -m 755 $(PROGRAM) $(DESTDIR)$(BINDIR)/xfskit
	install -d $(DESTDIR)$(MANDIR)/man1 $(DESTDIR)$(MANDIR)/man8 $(DESTDIR)$(SBINDIR)
	install -m 644 docs/man/*.1 $(DESTDIR)$(MANDIR)/man1
	install -m 644 dist/man/*.8 $(DESTDIR)$(MANDIR)/man8
	install -D -m 644 dist/systemd/xfskit-mount@.service $(DESTDIR)$(UNITDIR)/xfskit-mount@.service
	ln -sfn $(BINDIR)/xfskit $(DESTDIR)$(SBINDIR)/mount.fuse.xfskit
	ln -sfn $(BINDIR)/xfskit $(DESTDIR)$(SBINDIR)/umount.fuse.xfskit

uninstall:
	rm -f $(DESTDIR)$(BINDIR)/xfskit $(DESTDIR)$(UNITDIR)/xfskit-mount@.service
	rm -f $(addprefix $(DESTDIR)$(MANDIR)/man1/,$(notdir $(wildcard docs/man/*.1)))
	rm -f $(addprefix $(DESTDIR)$(MANDIR)/man8/,$(notdir $(wildcard dist/man/*.8)))
	rm -f $(DESTDIR)$(SBINDIR)/mount.fuse.xfskit $(DESTDIR)$(SBINDIR)/umount.fuse.xfskit

# Tests wait for disks, guests and each other. The analyses of the code take what they leave of the
# processors: in a target folder of their own, since cargo locks one while it compiles.
test: tools fmt spell deny
	@log=$$(mktemp); \
	$(MAKE) --no-print-directory analyses >$$log 2>&1 & analyses=$$!; \
	trap "kill $$analyses" INT TERM; \
	$(MAKE) --no-print-directory unit; tests=$$?; \
	wait $$analyses; analyses=$$?; cat $$log; rm $$log; \
	if [ $$tests -ne 0 ]; then echo "make test: a test failed"; fi; \
	if [ $$analyses -ne 0 ]; then echo "make test: lint or doc failed"; fi; \
	exit $$((tests | analyses))

analyses: export CARGO_TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)/analyses
analyses:
	nice -n 19 $(MAKE) --no-print-directory lint doc

tools:
	@sh tests/setup-tools.sh

fmt:
	$(CARGO) fmt --all --check

lint:
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) check -p xfskit --no-default-features

# Both are skipped, by name, where the tool is not installed.
spell:
	@if command -v typos >/dev/null; then typos; \
	else echo "skipped: spelling (cargo install typos-cli)"; fi

deny:
	@if command -v cargo-deny >/dev/null; then $(CARGO) deny --offline check bans licenses sources; \
	else echo "skipped: licenses and sources of dependencies (cargo install cargo-deny)"; fi

doc:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps

# More tests at once than processors: many wait.
unit: export RUST_TEST_THREADS ?= $(shell expr 2 \* $$(nproc))
unit:
	$(CARGO) test --workspace --no-fail-fast

torture: tools
	$(CARGO) run --release -p xfskit-test-crash -- $(or $(POINTS),100000) $(or $(SEED),0)
	$(MAKE) --no-print-directory programs LONG=1
	$(MAKE) --no-print-directory damage

programs: tools all
	@sh tests/programs/setup.sh
	$(CARGO) run --release -p xfskit-test-programs -- $(if $(LONG),--long) $(PROGRAMS)

damage: tools
	$(CARGO) run --release -p xfskit-test-damage -- $(DAMAGE)

scrub: all
	bash tests/tools/scrub.sh

boot: all
	bash tests/tools/boot.sh

protocols:
	RUSTFLAGS="--cfg shuttle" CARGO_TARGET_DIR=target/protocols \
	$(CARGO) test -p xfskit-trans --lib protocols

# Needs, once: rustup toolchain install nightly; cargo install cargo-fuzz
fuzz:
	cd tests/fuzz && $(CARGO) +nightly fuzz build -s none --fuzz-dir .
	@sh tests/fuzz/run.sh $$(awk 'BEGIN { print int(3600 * $(or $(HOURS),1)) }') $(TARGETS)

# The corpus of the last runs, minimised, into the repository.
fuzz-keep:
	@sh tests/fuzz/keep.sh $(TARGETS)

# Needs, once: rustup toolchain install nightly --component rust-src
# for the standard library is built anew as well.
tsan:
	RUSTFLAGS="-Zsanitizer=thread" CARGO_TARGET_DIR=target/tsan TSAN_OPTIONS="halt_on_error=1" \
	$(CARGO) +nightly test -Zbuild-std --target x86_64-unknown-linux-gnu --tests -p xfskit-test-races

demo: all
	@bash demo/run.sh

bench:
	@bash bench/run.sh

clean:
	$(CARGO) clean
