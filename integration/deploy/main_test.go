// Package deploy_test tries on real masters what docs/operations.md says:
// the configuration of the manifests, nodes that refuse what managed services refuse, and failovers.
package deploy_test

import (
	"testing"
	"time"

	"github.com/quorumlock/redlock/integration/fleet"
)

// period is the restart guard of tests that wait until it is over.
const period = 4 * time.Second

func TestMain(m *testing.M) { fleet.Main(m) }
