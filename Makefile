# Howdah's commands. `make serve` and `make test` are the two that a visitor needs.

CARGO ?= cargo
export CARGO
PREFIX ?= /usr/local
DESTDIR ?=
LISTEN ?= 127.0.0.1:8080
# Where the demo answers https: the port of LISTEN and 363, thus 8443. Empty for none.
LISTEN_HTTPS ?= $(shell echo '$(LISTEN)' | awk -F: '/:[0-9]+$$/ && $$NF > 0 && $$NF < 65000 \
	{ port = $$NF + 363; sub(/[0-9]+$$/, port); print }')
BENCH_OPTIONS ?=

TARGET := $(or $(CARGO_TARGET_DIR),target)
# The tests of root start sites as other users, who have to be able to execute what was built.
OPEN_TARGET := /var/cache/howdah-test
BIN := $(DESTDIR)$(PREFIX)/bin
MAN := $(DESTDIR)$(PREFIX)/share/man/man1
MAN5 := $(DESTDIR)$(PREFIX)/share/man/man5

.PHONY: help serve build release lab test tools lint fuzz-check doc unit loom address h2spec deny \
	sanitize miri minimum mutants mutants-fast mutants-check attacks chaos certificates \
	test-applications test-php deb test-packages test-container install uninstall bench clean

help:
	@echo 'make serve     build and serve the demo at http://$(LISTEN) and https://$(LISTEN_HTTPS)'
	@echo 'make test      everything that is checked before a change is taken'
	@echo 'make lint      formatting, clippy, rules between crates, packages, documentation, fuzzing'
	@echo 'make unit      unit and end-to-end tests'
	@echo 'make loom      the shared-memory protocol under the loom model checker'
	@echo 'make address   tests of shared memory and system calls under the address sanitizer'
	@echo 'make h2spec    HTTP/2 against the cases of h2spec, a conformance test of RFC 9113; needs Go'
	@echo 'make doc       the documentation of every item, warnings as errors'
	@echo 'make sanitize  the same, and under the thread sanitizer (nightly with rust-src)'
	@echo 'make miri      the tests of the shared-memory protocol under Miri (nightly with miri)'
	@echo 'make minimum   builds all of it with the oldest Rust of Cargo.toml, which rustup installs'
	@echo 'make mutants   whether tests notice changes of the code; hours; MUTANTS="-f FILE" for one'
	@echo 'make mutants-fast  the same for CRATE=php, built once; writes a list of those not noticed'
	@echo 'make attacks   every attack of tests/attacks, on TLS, HTTP/2 and HTTP/3; root; ATTACK=fork'
	@echo 'make chaos     visitors while processes die, hang and starve, ten minutes; CHAOS_SECONDS=60'
	@echo 'make certificates  200 names get certificates from an authority for tests; needs Go'
	@echo 'make test-applications  web applications beside Apache; as root; APPLICATION=mediawiki'
	@echo 'make test-php  the PHP of another Debian (SUITE=trixie: 8.4), also beside this one; as root'
	@echo 'make deny      licences, sources and versions of packages, by cargo-deny'
	@echo 'make release   both binaries, optimised, in $(TARGET)/release'
	@echo 'make install   binaries and man pages below $$DESTDIR$$PREFIX (now $(DESTDIR)$(PREFIX)),'
	@echo '               and the user howdah'
	@echo 'make deb       Debian packages howdah and howdah-php8.2, in dist'
	@echo 'make test-packages  installs, upgrades under load and purges them in a clean root; as root'
	@echo 'make test-container  does the steps of Dockerfile in a clean root; as root'
	@echo 'make lab       the same with the laboratory, howdah-lab'
	@echo 'make bench     Howdah beside nginx, Apache, lighttpd and others; BENCH_OPTIONS="--quick"'
	@echo 'make clean     remove what was built'

serve:
	@scripts/install-packages.sh build serve
	@scripts/create-user.sh || true
	@$(MAKE) --no-print-directory release
	@scripts/serve-demo $(TARGET)/release $(LISTEN) $(LISTEN_HTTPS)

release:
	@scripts/require-cargo
	$(CARGO) build --release --package howdah-server --package howdah-php-worker

# Apart from the server, whose build would wait for it.
lab: release
	$(CARGO) build --release --package howdah-lab

build:
	@scripts/require-cargo
	$(CARGO) build --workspace --all-targets

test:
	@scripts/install-packages.sh build serve test
	@scripts/create-user.sh || true
	@mkdir -p "$(TARGET)"; \
	if [ "$$(id -u)" = 0 ] && ! scripts/is-open "$(TARGET)"; then \
		export CARGO_TARGET_DIR=$(OPEN_TARGET); umask 022; \
		echo "make test: other users may not enter $(CURDIR): building in $$CARGO_TARGET_DIR"; \
	fi; \
	$(MAKE) --no-print-directory tools lint unit loom

# Foreign programs that tests use. Without one of them its tests say that they are skipped.
tools:
	@for program in pebble h2spec aioquic; do \
		scripts/install-$$program "$(TARGET)/tools" & \
	done; wait

lint:
	@scripts/require-cargo
	$(CARGO) fmt --all --check
	scripts/check-dependencies
	scripts/check-packages
	find demo -name '*.php' -print0 | xargs -0 -n 1 php -l >/dev/null
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	@$(MAKE) --no-print-directory doc fuzz-check

# The documentation of every item, private ones as well, without a warning.
doc:
	@scripts/require-cargo
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --document-private-items --keep-going

# That the fuzz targets build. Nothing is linked, so libFuzzer itself is not needed: the path only
# keeps its C++ from being compiled. Their properties run with every `cargo test`.
fuzz-check:
	@scripts/require-cargo
	CUSTOM_LIBFUZZER_PATH=$(CURDIR)/libfuzzer.a RUSTFLAGS="--cfg fuzzing -D warnings" \
		$(CARGO) check --locked --bins --manifest-path fuzz/Cargo.toml --target-dir $(TARGET)/fuzz

# `build` comes first because the end-to-end tests start both binaries: built together with the
# tests, with the same features, they are built once.
unit: build
	scripts/run-tests

# Its own target folder: another RUSTFLAGS would throw the whole build away twice.
loom:
	@scripts/require-cargo
	RUSTFLAGS="--cfg loom" $(CARGO) test --release --package howdah-ipc --test loom \
		--target-dir $(TARGET)/loom

# The checks below need tools that are not part of `make test`: the first use compiles them for
# minutes.
TOOLS := $(TARGET)/tools
CARGO_DENY := 0.20.2
CARGO_MUTANTS := 27.1.0
CARGO_DEB := 3.8.0
HOST := $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p')

$(TOOLS)/bin/cargo-deny:
	$(CARGO) install cargo-deny --locked --version $(CARGO_DENY) --root $(TOOLS)

$(TOOLS)/bin/cargo-mutants:
	$(CARGO) install cargo-mutants --locked --version $(CARGO_MUTANTS) --root $(TOOLS)

$(TOOLS)/bin/cargo-deb:
	$(CARGO) install cargo-deb --locked --version $(CARGO_DEB) --root $(TOOLS)

# The test is part of `make unit`, too.
h2spec: build
	scripts/install-h2spec "$(TOOLS)"
	$(CARGO) test --package howdah-server --test e2e http2::programs::h2spec -- --nocapture

deny: $(TOOLS)/bin/cargo-deny
	$(TOOLS)/bin/cargo-deny check licenses bans sources
	for folder in fuzz mutants; do \
		$(TOOLS)/bin/cargo-deny --config deny.toml --manifest-path $$folder/Cargo.toml \
			check licenses bans sources || exit 1; \
	done

# Memory errors in `ipc` and `sys`, which have the unsafe code. The address sanitizer works with the
# stable toolchain. It has an allocator of its own, which gives nothing back when `malloc_trim` asks
# for it.
address:
	@scripts/require-cargo
	RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address $(CARGO) test --locked \
		--package howdah-ipc --package howdah-sys --lib --tests --target $(HOST) \
		--target-dir $(TARGET)/address -- --skip freed_memory_goes_back

# Data races as well. The thread sanitizer needs a standard library that is built with it, since one
# that is not looks like races: nightly with rust-src. It sees the threads of one process, not two
# processes on one memory file; `make loom` checks that protocol.
sanitize: address
	@if [ -d "$$(rustc +nightly --print sysroot 2>/dev/null)/lib/rustlib/src/rust/library" ]; then \
		RUSTFLAGS=-Zsanitizer=thread $(CARGO) +nightly test -Zbuild-std --locked --package howdah-ipc \
			--package howdah-sys --lib --tests --target $(HOST) --target-dir $(TARGET)/thread \
			-- --skip freed_memory_goes_back; \
	else \
		echo 'sanitize: without the thread sanitizer:' \
			'rustup component add --toolchain nightly rust-src'; \
	fi

# Undefined behaviour in the shared-memory protocol. Miri knows no shared mappings of files; the
# tests of properties would take hours.
miri:
	MIRIFLAGS=-Zmiri-disable-isolation $(CARGO) +nightly miri test --locked \
		--package howdah-ipc --lib --target-dir $(TARGET)/miri -- --skip properties

# That the oldest Rust which Cargo.toml names can build all of it.
MINIMUM_RUST := $(shell sed -n 's/^rust-version = "\([0-9.]*\)".*/\1/p' Cargo.toml)
minimum:
	rustup toolchain install --no-self-update --profile minimal $(MINIMUM_RUST)
	$(CARGO) +$(MINIMUM_RUST) check --locked --workspace --target-dir $(TARGET)/minimum

# All of it takes many hours; MUTANTS="--shard 1/10" or "-f FILE" takes a part.
MUTANTS ?=
MUTATED := http site htaccess ipc php
mutants: $(TOOLS)/bin/cargo-mutants
	mkdir -p $(TARGET)/mutants
	PATH="$(abspath $(TOOLS))/bin:$$PATH" $(CARGO) mutants $(MUTATED:%=--package howdah-%) \
		--output $(TARGET)/mutants $(MUTANTS) || \
		[ -s $(TARGET)/mutants/mutants.out/outcomes.json ]
	scripts/summarize-mutants $(TARGET)/mutants/mutants.out >$(TARGET)/mutants/summary.md

# The mutants of one crate, built once: the environment chooses one. Writes those that no test
# notices to docs/developers/mutants/$(CRATE).txt. MUTANTS="--listed" tries these again, with new
# tests; MUTANTS="src/queue.rs" takes the mutants with that text. See docs/developers/mutants.md.
CRATE ?=
MUTANTS_TOOL := --locked --manifest-path mutants/Cargo.toml --target-dir $(TARGET)/mutants/tool
mutants-fast:
	@scripts/require-cargo
	$(CARGO) run --quiet $(MUTANTS_TOOL) -- "$(CRATE)" $(MUTANTS)

# The program of `make mutants-fast` itself. Not part of `make test`, as nothing else needs it.
mutants-check:
	@scripts/require-cargo
	$(CARGO) fmt --check --manifest-path mutants/Cargo.toml
	$(CARGO) clippy $(MUTANTS_TOOL) --all-targets -- -D warnings
	$(CARGO) test $(MUTANTS_TOOL)

# Each attack of the catalogue for $ATTACK_SECONDS (8), after as long a measurement without it.
# Writes the table in docs/security.md, then those on TLS, HTTP/2 and HTTP/3 with theirs. Needs
# root, a C compiler, and an otherwise idle machine. ATTACK=NAME takes the attacks whose names
# contain it, and writes no table. Without ATTACK, 10,000 handshakes that never end come last.
attacks: release
	@[ "$$(id -u)" = 0 ] || { \
		echo 'make attacks: only root can start sites of different users: sudo make attacks'; exit 1; }
	ATTACKS_PAGE=write $(CARGO) test --release --package howdah-server --test attacks -- page
	@failed=0; run() { $(CARGO) test --release --package howdah-server "$$@" || failed=1; }; \
	run --test attacks -- --ignored --nocapture every_attack; \
	run --test e2e -- --ignored --nocapture every_attack_on_a_protocol; \
	[ -n "$$ATTACK" ] || run --test e2e -- --ignored --nocapture ten_thousand_half_open; \
	exit $$failed

# Ten minutes of chaos, two for each other mode of the pool, two of reloads, then one of reloads
# over TLS. CHAOS_SECONDS is the time of the first; CHAOS_MODE=auto, dynamic or ondemand gives all
# of it to that mode. CHAOS_SEED is the order of events, which the run prints. As root it also fills
# a small disk of its own and stops single threads.
chaos: release
	$(CARGO) test --release --package howdah-server --test chaos -- \
		--ignored --nocapture --test-threads=1
	$(CARGO) test --release --package howdah-server --test e2e -- --ignored --nocapture \
		a_reload_every_second_for_a_minute

# Two hundred names get certificates from Pebble, an authority that refuses half of all requests at
# first.
certificates: build
	scripts/install-pebble "$(TARGET)/tools"
	$(CARGO) test --package howdah-server --test e2e -- --ignored --nocapture two_hundred_names

# Web applications of Debian, each installed, used and crawled on Howdah and on Apache. Writes
# docs/applications.md. Installs the applications; needs root. APPLICATION=NAME takes one of them,
# and writes no page.
test-applications:
	@[ "$$(id -u)" = 0 ] || { echo 'make test-applications:' \
		'only root can give each server its own view of the packages'; exit 1; }
	@scripts/install-packages.sh build serve test applications
	$(CARGO) build --package howdah-server --package howdah-php-worker --bins
	$(CARGO) test --package howdah-server --test applications -- --ignored --nocapture beside_apache

# The PHP of another, newer Debian, in a root that mmdebstrap makes once and keeps in $(TARGET)/php.
# Needs root.
SUITE ?= trixie
test-php:
	@[ "$$(id -u)" = 0 ] || { \
		echo 'make test-php: only root can make a root for another Debian: sudo make test-php'; exit 1; }
	@scripts/install-packages.sh build packages
	$(CARGO) build --package howdah-server --package howdah-php-worker --bins
	scripts/test-php "$(TARGET)/php" $(SUITE)

# Needs the headers and the library of PHP 8.2. DEB_VERSION is another version than that of
# Cargo.toml.
DEB_VERSION ?=
COMPLETION := $(TARGET)/release/completion
deb: $(TOOLS)/bin/cargo-deb release
	mkdir -p "$(COMPLETION)" dist
	$(TARGET)/release/howdah completion bash >"$(COMPLETION)/howdah.bash"
	$(TARGET)/release/howdah completion zsh >"$(COMPLETION)/_howdah"
	$(TARGET)/release/howdah completion fish >"$(COMPLETION)/howdah.fish"
	for package in howdah-server howdah-php-worker; do \
		$(TOOLS)/bin/cargo-deb --no-build --strip --package $$package --output dist/ \
			$(if $(DEB_VERSION),--deb-version $(DEB_VERSION)) || exit 1; \
	done
	$(if $(DEB_VERSION),scripts/set-needed-version $(DEB_VERSION) \
		dist/howdah-php8.2_$(DEB_VERSION)_*.deb)

# The packages of `make deb`, and the same with a higher version, in a root that mmdebstrap makes
# once and keeps in $(TARGET)/packages. Needs root, mmdebstrap, and Debian's mirror for the root.
test-packages: deb
	@[ "$$(id -u)" = 0 ] || { \
		echo 'make test-packages: only root can make a root for packages: sudo make test-packages'; \
		exit 1; }
	@scripts/install-packages.sh build packages
	@$(MAKE) --no-print-directory deb DEB_VERSION=9.0.0-1
	scripts/test-packages "$(TARGET)/packages" dist

# The last stage of Dockerfile, by hand: nothing here needs a container engine.
test-container: release
	@scripts/install-packages.sh packages
	scripts/test-container "$(TARGET)/packages" "$(TARGET)/release"

# `make release && sudo make install` works where root has no cargo: then what was built is
# installed as it is.
install:
	@if command -v $(CARGO) >/dev/null || [ ! -x $(TARGET)/release/howdah ]; then \
		$(MAKE) --no-print-directory release; fi
	install -d "$(BIN)" "$(MAN)" "$(MAN5)"
	install -m 755 $(TARGET)/release/howdah $(TARGET)/release/howdah-php "$(BIN)"
	install -m 644 docs/howdah.1 "$(MAN)"
	install -m 644 docs/howdah.toml.5 "$(MAN5)"
# A package that is built in DESTDIR creates the user when it is installed, with the same script.
	@[ -n "$(DESTDIR)" ] || scripts/create-user.sh || \
		echo 'install: without the user howdah; see above' >&2

uninstall:
	rm -f "$(BIN)/howdah" "$(BIN)/howdah-php" "$(MAN)/howdah.1" "$(MAN5)/howdah.toml.5"

bench:
	@scripts/install-packages.sh build serve bench
	@$(MAKE) --no-print-directory lab
	$(TARGET)/release/howdah-lab run today $(BENCH_OPTIONS)

clean:
	$(CARGO) clean
	rm -rf dist
