# What one types in a fresh clone. The work itself is in `cargo xtask`; see CONTRIBUTING.md.

CARGO ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)
PROGRAMS := --package forebay-server --package forebay-bench --bins

.PHONY: help demo serve test bench

help:
	@echo "make demo    start a server, load real files, read them back four ways, measure, stop"
	@echo "make serve   run a server with its defaults; ARGS='--port 7000' adds options"
	@echo "make test    install what the tests need, then run every one of them"
	@echo "make bench   compare with redis-server on this machine; ARGS='memory' measures that instead"

demo:
	@$(CARGO) build --release $(PROGRAMS)
	@$(TARGET)/release/forebay-bench demo

serve:
	@$(CARGO) build --release $(PROGRAMS)
	@$(TARGET)/release/forebay serve $(ARGS)

test:
	@$(CARGO) xtask setup
	@$(CARGO) xtask test

bench:
	@$(CARGO) xtask setup
	@$(CARGO) xtask bench $(ARGS)
