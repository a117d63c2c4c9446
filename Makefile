# Howdah's commands. `make serve` and `make test` are the two that a visitor needs.

CARGO ?= cargo
export CARGO
PREFIX ?= /usr/local
DESTDIR ?=
LISTEN ?= 127.0.0.1:8080
BENCH_OPTIONS ?=

TARGET := $(or $(CARGO_TARGET_DIR),target)
BIN := $(DESTDIR)$(PREFIX)/bin
MAN := $(DESTDIR)$(PREFIX)/share/man/man1

.PHONY: help serve build release lab test lint unit loom install uninstall bench clean

help:
	@echo 'make serve     build and serve the demo at http://$(LISTEN)'
	@echo 'make test      everything that is checked before a change is taken'
	@echo 'make lint      formatting, clippy, the rules between the crates, the demo'
	@echo 'make unit      unit and end-to-end tests'
	@echo 'make loom      the shared-memory protocol under the loom model checker'
	@echo 'make release   both binaries, optimised, in $(TARGET)/release'
	@echo 'make install   binaries and man page below $$DESTDIR$$PREFIX (now $(DESTDIR)$(PREFIX))'
	@echo 'make lab       the same with the laboratory, howdah-lab'
	@echo 'make bench     Howdah beside nginx, Apache, lighttpd and others; BENCH_OPTIONS="--quick"'
	@echo 'make clean     remove what was built'

serve:
	@scripts/install-packages.sh build serve
	@$(MAKE) --no-print-directory release
	$(TARGET)/release/howdah serve demo/public --listen $(LISTEN)

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
	@$(MAKE) --no-print-directory lint unit loom

lint:
	@scripts/require-cargo
	$(CARGO) fmt --all --check
	scripts/check-dependencies
	find demo -name '*.php' -print0 | xargs -0 -n 1 php -l >/dev/null
	$(CARGO) clippy --workspace --all-targets -- -D warnings

# `build` comes first because the end-to-end tests start both binaries: built together with the tests, with the same
# features, they are built once.
unit: build
	$(CARGO) test --workspace

# Its own target folder: another RUSTFLAGS would throw the whole build away twice.
loom:
	@scripts/require-cargo
	RUSTFLAGS="--cfg loom" $(CARGO) test --release --package howdah-ipc --test loom --target-dir $(TARGET)/loom

# `make release && sudo make install` works where root has no cargo: then what was built is installed as it is.
install:
	@if command -v $(CARGO) >/dev/null || [ ! -x $(TARGET)/release/howdah ]; then $(MAKE) --no-print-directory release; fi
	install -d "$(BIN)" "$(MAN)"
	install -m 755 $(TARGET)/release/howdah $(TARGET)/release/howdah-php "$(BIN)"
	install -m 644 docs/howdah.1 "$(MAN)"

uninstall:
	rm -f "$(BIN)/howdah" "$(BIN)/howdah-php" "$(MAN)/howdah.1"

bench:
	@scripts/install-packages.sh build serve bench
	@$(MAKE) --no-print-directory lab
	$(TARGET)/release/howdah-lab run today $(BENCH_OPTIONS)

clean:
	$(CARGO) clean
	rm -rf dist
