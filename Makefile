# The first target is what the README tells people to run. Everything works
# on a machine with Go and make alone; see scripts/ for what is fetched when missing.

# A go.work of one's own must not change what is tested.
export GOWORK := off

export GO ?= go

# Collecting garbage a fourth as often makes the tests faster by a tenth, and there is enough memory.
export GOGC ?= 400

# For pipefail, where a pipe is to fail when its first part does.
SHELL := bash

# Runs go test, and once more by itself what failed and may have failed for the machine's sake: see internal/gate.
GATE := $(GO) run ./internal/gate

# What runs in virtual time fails for a defect alone, and is never repeated; examples, the command, the fake masters and
# what is made of sockets and processes run in real time.
REAL := \.Example|\.TestALateWrite|/cmd/|/redlocktest\.|/faultproxy\.|/ports\.

# Modules beside the root and integration/, each with a go.mod of its own.
NESTED := $(filter-out integration,$(patsubst %/go.mod,%,$(wildcard */go.mod)))

# A child built with the race detector would wait for a second at its end.
export GORACE ?= atexit_sleep_ms=10

# The race detector, but for the simulation's Lua: an interpreter is one goroutine's, and would take half of the time.
RACE := -race -gcflags=github.com/yuin/gopher-lua/...=-race=false

# All is run with the race detector, but for containers: it is the same code.
INTEGRATION_FLAGS ?= $(RACE)
INTEGRATION ?= ./...

.PHONY: test verify check unit thorough raced beside wide nested integration containers databases budgets bounds versions masters spin bench peers crowd consensus simulate mutants record history fuzz coverage proof models alerts demo dist lint apidiff help

test: masters ## the tests, each once, against real Redis masters, in minutes
	@scripts/steps -budget check unit nested integration

check: ## go vet and gofmt
	$(GO) vet ./...
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "gofmt would change:"; echo "$$unformatted"; exit 1; }

# Two targets at once: the root's tests keep one core busy for longer than all else does. What they print comes one after
# the other.
AT_ONCE = @said=$$(mktemp); $(MAKE) --no-print-directory $(2) >"$$said" 2>&1 & \
	$(MAKE) --no-print-directory $(1); code=$$?; wait $$! || code=1; cat "$$said"; rm -f "$$said"; exit $$code

unit: ## the root module's tests, but for the models; a part of them with the race detector, too
	$(call AT_ONCE,coverage,beside)

thorough: ## what CI runs besides: all that with the race detector, the simulation at its larger size, the models
	$(call AT_ONCE,raced,wide)

# What is no part of the library: what it does at once is not worth the race detector's time.
TOOLS := docs docs/spec internal/gate internal/mutants

# What coverage leaves; and with the race detector what threads meet in outside of virtual time.
beside:
	packages=$$(comm -13 <($(GO) list $(ROOMS) | sort) <($(GO) list ./... | sort) | grep -v -e /docs/spec -e /simtest) && \
		$(GATE) -repeat '$(REAL)' -- -shuffle=on -parallel=8 $$packages
	$(GATE) -- -skip='^TestSimulation$$' ./internal/sim/simtest -seeds=8
	$(GATE) -- -run='^TestSimulation$$' ./internal/sim/simtest -seeds=60
	$(GATE) -repeat '$(REAL)' -- $(RACE) -shuffle=on -parallel=8 ./internal/redisconn ./internal/localqueue ./redlocktest
	$(GATE) -repeat '$(REAL)' -- $(RACE) -shuffle=on -parallel=8 -run='^Example|Close|Shutdown|Renew|Concurrent' .

raced:
	packages=$$($(GO) list ./... | grep -v $(TOOLS:%=-e /%)) && \
		$(GATE) -repeat '$(REAL)' -- $(RACE) -shuffle=on -parallel=8 -timeout=30m $$packages

# How many schedules, and the first of them.
SEEDS ?= 1000
SEED ?= 1

wide: spin
	$(GATE) -- -count=1 -skip='^TestSimulation$$' ./internal/sim/simtest
	$(GATE) -- -count=1 -run='^TestSimulation$$' -timeout=2h ./internal/sim/simtest -seeds=$(SEEDS)
	$(GATE) -- ./docs/spec

# gocron's tests run in virtual time, but for the examples.
NESTED_REAL := \.Example|/(bench|examples|goredis|otel)

nested: ## the other modules' own tests
	@set -e; for m in $(NESTED); do \
		echo "== $$m"; \
		$(GO) vet -C $$m ./...; \
		$(GATE) -repeat '$(NESTED_REAL)' -- -C=$$m -shuffle=on ./...; \
	done

masters: # what integration needs: a redis-server, or a Docker engine
	@scripts/need masters

databases: # what package fence is tried with: REDLOCK_DATABASES
	@scripts/need databases

spin: # what the models are checked by
	@scripts/need spin

# Three packages at a time: they wait more than they work, and none minds what else the machine does. INTEGRATION: which
# of them. Unless REDLOCK_PROVIDER says otherwise, masters are processes where there is a redis-server: they start and
# stop much faster than containers.
integration: masters databases ## tests against real masters; REDLOCK_PROVIDER=containers|processes
	$(GO) vet -C integration ./...
	@server=$${REDLOCK_REDIS_SERVER:-redis-server}; \
	export REDLOCK_PROVIDER=$${REDLOCK_PROVIDER:-$$(command -v "$$server" >/dev/null && echo processes || echo containers)}; \
	echo "masters: $$REDLOCK_PROVIDER"; \
	$(GATE) -repeat . -- -C=integration $(INTEGRATION_FLAGS) -shuffle=on -p=3 -parallel=8 -timeout=20m $(INTEGRATION)

containers: ## the part of integration that proves the containers provider
	@docker info >/dev/null 2>&1 || { \
		echo "no Docker engine answers: the containers provider is not exercised (Debian: apt-get install docker.io)" >&2; \
		[ -z "$$STEPS_TABLE" ] || echo "no Docker engine answers" >"$$STEPS_TABLE.skipped"; \
		exit 1; \
	}
	REDLOCK_PROVIDER=containers REDLOCK_REDIS_IMAGE=host $(MAKE) integration INTEGRATION_FLAGS= INTEGRATION="./masters ./guard ./lock"

budgets: ## counts that may not grow, judged and printed as a table: what, today's value, limit, the page that claims it
	@printf '%-8s  %-80s %8s %8s  %s\n' section count today limit 'claimed in'
	@set -o pipefail; $(GO) test -count=1 -v -run '^TestBudgets' . ./docs | \
		sed -E '/^(=== |--- PASS|PASS|ok )/d; s/^ +[a-z_]+\.go:[0-9]+: //'

bounds: masters ## bounds on the real clock, printed and judged: on a machine that has nothing else to do
	set -o pipefail; REDLOCK_BOUNDS=1 $(GO) test -C integration -count=1 -p=1 -v -timeout 60m ./guard ./holding ./lock ./tokens | grep -v '^=== '
	REDLOCK_BOUNDS=1 $(GO) test ./internal/sim/simtest -run 'TestReplay$$' -count=1 -v

versions: masters ## integration against several Redis and Valkey versions, from Debian
	@scripts/versions

bench: masters ## this library against its peers
	$(GO) run -C bench .

peers: masters ## what other libraries do under the same faults, beside this one
	$(GO) run -C bench . -faults .

crowd: masters ## a thousand clients on five masters, for docs/scale.md: on a machine that has nothing else to do
	$(GO) run -C bench . -scenario crowd -goroutines 10,100,1000 -publish ../docs

consensus: masters ## beside etcd and ZooKeeper, for docs/benchmarks.md: on a machine that has nothing else to do
	$(GO) vet -C bench/etcd .
	$(GO) run -C bench . -scenario $(subst $(empty) $(empty),$(comma),$(BESIDE)) -publish ../docs
	REDLOCK_LONG=1 $(GO) test -C bench -count=1 -run Etcd .

BESIDE := consensus consensus-contended consensus-silent consensus-killed lost-updates

simulate: ## the library on modelled masters, clients and networks: SEEDS schedules in virtual time
	$(GO) test ./internal/sim/simtest -run 'TestSimulation$$' -first $(SEED) -seeds $(SEEDS) -v -timeout 2h

mutants: ## deliberate bugs in the library, each of which the tests must catch: a table, in half an hour
	$(GO) run ./internal/mutants

HISTORY_MINUTES ?= 10

history: masters ## client processes on five masters, a fault every second, the whole history judged
	cd integration && $(GO) run ./history -minutes $(HISTORY_MINUTES) $(HISTORY_FLAGS)

FUZZ_TIME ?= 20s

fuzz: ## every parser and decoder, FUZZ_TIME each
	@set -e; for p in $(ROOMS); do for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz'); do \
		$(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZ_TIME) $$p; \
	done; done

# The library's packages: see docs/architecture.md.
ROOMS := . $(addprefix ./internal/,agreement diagnosis endpoint guard localqueue lua printable quorum redisconn resp runs \
	schedule slots token waiting)

COVERAGE ?= 95

comma := ,
empty :=

# Most of what runs is a simulated Redis, whose garbage is not worth collecting so often.
coverage: ## the library's tests at full size; COVERAGE per cent of each package's statements at least
	@profile=$$(mktemp); trap 'rm -f "$$profile"' EXIT; \
	$(GATE) -repeat '$(REAL)' -- -shuffle=on -timeout=30m -coverpkg=$(subst $(empty) $(empty),$(comma),$(ROOMS)) \
		-coverprofile="$$profile" $(ROOMS) && scripts/coverage $(COVERAGE) "$$profile"

# The long forms. Each part has its size as a parameter.
PROOF_SEEDS ?= 13000

verify: ## the long forms, before a release: three hours
	$(MAKE) bounds
	$(MAKE) simulate SEEDS=$(PROOF_SEEDS)
	$(GO) test ./internal/sim/simtest -run 'Semaphores|Jobs' -seeds 300 -v -timeout 1h
	$(GO) test ./internal/sim/simtest -run 'ChangeOfNodes' -seeds 700 -v -timeout 1h
	$(GO) test ./internal/sim/simtest -run 'Byzantine' -seeds 4000 -v -timeout 1h
	$(GO) test ./internal/sim/simtest -run 'Crowd' -crowds 3000 -v -timeout 3h
	$(MAKE) mutants record models fuzz history versions
	$(MAKE) history HISTORY_MINUTES=2 HISTORY_FLAGS='-guard 0'
	REDLOCK_LONG=1 $(GO) test -C integration -count=1 -p 1 -v -timeout 60m ./holding ./mixed ./stores ./tokens
	REDLOCK_PROVIDER=containers REDLOCK_REDIS_IMAGE=host $(MAKE) integration INTEGRATION_FLAGS=

record: masters ## each defect of docs/track-record, on the commit before its mend and on that
	scripts/track-record all

models: spin ## the models of docs/spec, also in their wide spaces: minutes, gigabytes
	$(GO) test ./docs/spec -run Models -deep -v -timeout 60m

alerts: ## the alert rules in docs/observability, checked and played by promtool
	@scripts/alerts

demo: ## five masters in this process, two of them killed
	$(GO) run ./cmd/redlock demo

dist: ## what a release consists of, into dist/: binaries, Debian packages, checksums; and a check of it
	@scripts/dist
	@scripts/check-dist
	@ls -l dist | awk 'NR > 1 { print $$5, $$9 }'

lint: ## golangci-lint, all modules
	@scripts/lint

apidiff: ## the exported API is compatible with the last release's, or CHANGELOG.md names what is not
	@scripts/apidiff
	@scripts/check-apidiff

help:
	@grep -hE '^[a-z]+:.*##' Makefile | sed -E 's/^([a-z]+):.*## /\1\t/'
