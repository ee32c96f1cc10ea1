module github.com/quorumlock/redlock

go 1.25.0

require (
	github.com/gomodule/redigo v1.9.3
	github.com/google/uuid v1.6.0
	golang.org/x/sync v0.22.0
	golang.org/x/sys v0.47.0
)

// What the command, redlocktest and tests need: no part of a program that imports the library. See docs/adr/0017.
require (
	github.com/alicebob/miniredis/v2 v2.40.0
	github.com/urfave/cli/v3 v3.14.0
	github.com/yuin/gopher-lua v1.1.1
	golang.org/x/term v0.45.0
)
