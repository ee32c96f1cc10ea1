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
INTEGRATION_PACKAGES ?= $$(cd integration && $(GO) list ./... | grep -v /bounds)

.PHONY: test check unit nested integration masters bench soak modelcheck demo lint help

test: check unit nested integration ## everything, against real Redis masters

check: ## go vet and gofmt
	$(GO) vet ./...
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "gofmt would change:"; echo "$$unformatted"; exit 1; }

unit: ## the root module's tests
	$(GO) test -race -shuffle=on ./...

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
	$(GO) test -C integration $(INTEGRATION_FLAGS) -shuffle=on -p 1 -timeout 10m $(INTEGRATION_PACKAGES)
	$(GO) test -C integration -p 1 -count=1 -timeout 5m ./bounds

bench: masters ## this library against its peers
	$(GO) run -C bench .

# How long make soak runs at least, and how much it does; SOAK_FLAGS: see integration/soak.
SOAK_MINUTES ?= 10
SOAK_ACQUISITIONS ?= 1000000

soak: masters ## a million acquisitions under faults, and every token judged
	$(GO) run -C integration ./soak -minutes $(SOAK_MINUTES) -acquisitions $(SOAK_ACQUISITIONS) $(SOAK_FLAGS)

modelcheck: ## the token's protocol, explored in depth: minutes, gigabytes
	$(GO) test ./internal/modelcheck -run Deep -deep -v -timeout 30m

demo: ## five masters in this process, two of them killed
	$(GO) run ./cmd/redlock demo

lint: ## golangci-lint, all modules
	@scripts/lint

help:
	@grep -hE '^[a-z]+:.*##' Makefile | sed -E 's/^([a-z]+):.*## /\1\t/'
