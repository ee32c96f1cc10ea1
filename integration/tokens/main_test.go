package tokens

import (
	"testing"

	"github.com/quorumlock/redlock/integration/fleet"
)

func TestMain(m *testing.M) { fleet.Main(m) }
