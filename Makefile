# The first target is what the README tells people to run. Everything works
# on a machine with Go and make alone; see scripts/ for what is fetched when missing.

# A go.work of one's own must not change what is tested.
export GOWORK := off

GO ?= go

# Modules beside the root and integration/, each with a go.mod of its own.
NESTED := $(filter-out integration,$(patsubst %/go.mod,%,$(wildcard */go.mod)))

# The time bounds are judged without the race detector, which slows everything
# down; all else is run with it. Containers run without: it is the same code.
INTEGRATION_FLAGS ?= -race

.PHONY: test check unit nested integration versions masters bench soak simulate mutants history fuzz coverage proof modelcheck alerts demo lint help

test: check unit nested integration ## everything, against real Redis masters

check: ## go vet and gofmt
	$(GO) vet ./...
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "gofmt would change:"; echo "$$unformatted"; exit 1; }

unit: ## the root module's tests
	$(GO) test -race -shuffle=on ./...
	$(GO) test -run Allocates . # pools drop things at random under the race detector

nested: ## the other modules' own tests
	@set -e; for m in $(NESTED); do \
		echo "== $$m"; \
		$(GO) vet -C $$m ./...; \
		$(GO) test -C $$m -shuffle=on ./...; \
	done

masters: # what integration needs: a redis-server, or a Docker engine
	@scripts/need-redis

# One package at a time (-p 1): time bounds are among them.
integration: masters ## tests against real masters; REDLOCK_PROVIDER=containers|processes
	$(GO) vet -C integration ./...
	$(GO) test -C integration $(INTEGRATION_FLAGS) -shuffle=on -p 1 -timeout 10m $$(cd integration && $(GO) list ./... | grep -v /bounds)
	$(GO) test -C integration -p 1 -count=1 -timeout 5m ./bounds

versions: masters ## integration against several Redis and Valkey versions, from Debian
	@scripts/versions

bench: masters ## this library against its peers
	$(GO) run -C bench .

# How long make soak runs at least, and how much it does; SOAK_FLAGS: see integration/soak.
SOAK_MINUTES ?= 10
SOAK_ACQUISITIONS ?= 1000000

soak: masters ## a million acquisitions under faults, and every token judged
	$(GO) run -C integration ./soak -minutes $(SOAK_MINUTES) -acquisitions $(SOAK_ACQUISITIONS) $(SOAK_FLAGS)

# How many schedules, and the first of them.
SEEDS ?= 1000
SEED ?= 1

simulate: ## the library on modelled masters, clients and networks: SEEDS schedules in virtual time
	$(GO) test ./internal/sim/simtest -run 'TestReplay$$' -count=1
	$(GO) test ./internal/sim/simtest -run 'TestSimulation$$' -first $(SEED) -seeds $(SEEDS) -v -timeout 2h

mutants: ## deliberate bugs in the library, each of which the tests must catch: a table, in minutes
	$(GO) run ./internal/mutants

HISTORY_MINUTES ?= 10

history: masters ## client processes on five masters, a fault every second, the whole history judged
	cd integration && $(GO) run ./history -minutes $(HISTORY_MINUTES) $(HISTORY_FLAGS)

FUZZ_TIME ?= 20s

fuzz: ## every parser and decoder, FUZZ_TIME each
	@set -e; for f in $$($(GO) test -list '^Fuzz' . | grep '^Fuzz'); do \
		$(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZ_TIME) .; \
	done

COVERAGE ?= 90

coverage: ## statement coverage of the root package, COVERAGE per cent at least
	@$(GO) test -coverpkg=. -coverprofile=/dev/null -cover . | awk -v least=$(COVERAGE) \
		'{ print } /coverage:/ { for (i = 1; i <= NF; i++) if ($$i ~ /%/) { got = $$i + 0; seen = 1 } } \
		END { if (!seen || got < least) { print "want at least " least " %"; exit 1 } }'

# A night's work. Each part has its size as a parameter.
PROOF_SEEDS ?= 13000

proof: ## all evidence there is, in one go: an hour and a half
	$(MAKE) simulate SEEDS=$(PROOF_SEEDS)
	$(MAKE) mutants modelcheck coverage fuzz history soak

modelcheck: ## the token's protocol, explored in depth: minutes, gigabytes
	$(GO) test ./internal/modelcheck -run Deep -deep -v -timeout 30m

alerts: ## the alert rules in docs/observability, checked and played by promtool
	@scripts/alerts

demo: ## five masters in this process, two of them killed
	$(GO) run ./cmd/redlock demo

lint: ## golangci-lint, all modules
	@scripts/lint

help:
	@grep -hE '^[a-z]+:.*##' Makefile | sed -E 's/^([a-z]+):.*## /\1\t/'
