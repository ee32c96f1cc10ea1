package main

import (
	"archive/zip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/redlock/integration/child"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/internal/cases"
)

// pinned is the commit that the old clients are built from.
const pinned = "765196a21fe4cb6f39da385f0519d703fe4ebde7"

// oldAPI makes api.go that of the old client: what the library calls it, and what it called it then.
var oldAPI = strings.NewReplacer(
	`	if c.Guard == 0 {
		opts = append(opts, redlock.WithNodeConfig(redlock.NodeConfig{NoRestartGuard: true}))
	} else {
		opts = append(opts, redlock.WithMaxTTL(c.Guard))
	}
`, `	if opts = append(opts, redlock.WithRestartGuard(c.Guard)); c.Guard > 0 {
		opts = append(opts, redlock.WithFenceRetention(2*c.Guard))
	}
`,
	"WithNewNodes(", "WithMigration(", "l.RLock(ctx, c.Name)", "l.RWMutex(c.Name).RLock(ctx)",
	"k.Deadline()", "k.Until()", "k.Unlock()", "k.Unlock(context.Background())",
	"func(_ context.Context, k *redlock.Lock) error {",
	"func(ctx context.Context) error {\n\t\tk, _ := redlock.FromContext(ctx)",
	"l.Status(ctx)", "l.Nodes(ctx)", "string(f.Code)", "f.Code", "errors.As(err, new(*redlock.ListConflictError))",
	"errors.Is(err, redlock.ErrListConflict)", "ErrAlreadyRun", "ErrDone", "ErrRunsExhausted", "ErrExhausted",
)

// clientVariable makes this program a client.
const clientVariable = "REDLOCK_TEST_MIXED_CLIENT"

// TestMain is also main of the new clients' processes.
func TestMain(m *testing.M) {
	if os.Getenv(clientVariable) != "" {
		main()
		return
	}
	fleet.Main(m)
}

const (
	older = "old"
	newer = "new"
)

var versions = []string{older, newer}

var building sync.Mutex

// oldClient returns the path of the old client, which is built where this user's cache does not have it yet.
func oldClient(t *testing.T) string {
	t.Helper()
	building.Lock()
	defer building.Unlock()
	text := cases.Must(os.ReadFile("main.go"))(t)
	source := cases.Must(os.ReadFile("api.go"))(t)
	api := oldAPI.Replace(string(source))
	cache := cases.Must(os.UserCacheDir())(t)
	of := fmt.Sprint(pinned, runtime.Version(), runtime.GOOS, runtime.GOARCH, string(text), api)
	path := filepath.Join(cache, "redlock", fmt.Sprintf("mixed-%x", sha256.Sum256([]byte(of)))[:24])
	if _, err := os.Stat(path); err == nil {
		return path
	}
	cases.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
	dir := cases.Must(os.MkdirTemp(filepath.Dir(path), "mixed-build-"))(t) //nolint:usetesting // to rename it from
	defer os.RemoveAll(dir)
	run := func(in, help, program string, args ...string) {
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Dir, cmd.Env = in, append(os.Environ(), "GOWORK=off", "GOFLAGS=")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("the old client cannot be built%s: %v: %v\n%s", help, cmd, err, out)
		}
	}
	run("../..", ": it is commit "+pinned[:7]+", which must be in this clone: run git fetch --unshallow where that is "+
		"shallow, and let CI fetch all commits", "git", "archive", "--format=zip", "-o", dir+"/old.zip", pinned)
	archive := cases.Must(zip.OpenReader(dir + "/old.zip"))(t)
	defer archive.Close()
	cases.NoError(t, os.CopyFS(dir+"/module", archive))
	cases.NoError(t, os.Mkdir(dir+"/module/mixed", 0o750))
	cases.NoError(t, os.WriteFile(dir+"/module/mixed/main.go", text, 0o600))
	cases.NoError(t, os.WriteFile(dir+"/module/mixed/api.go", []byte(api), 0o600))
	run(dir+"/module", "", "go", "build", "-trimpath", "-o", dir+"/client", "./mixed")
	cases.NoError(t, os.Rename(dir+"/client", path)) // at once: another test may build it, too
	return path
}

// process is a client as the test sees it.
type process struct {
	*child.Process
	version string
	over    <-chan struct{} // closed at the end of the test
	mu      sync.Mutex      // guards what follows
	told    int
	answers map[int]chan answer // to commands that are under way
}

// start starts a client, which ends with the test.
func start(t *testing.T, version string) *process {
	t.Helper()
	p := &process{version: version, over: t.Context().Done(), answers: map[int]chan answer{}}
	path := "" // this very program
	if version == older {
		path = oldClient(t)
	}
	var err error
	p.Process, err = child.Start(t.Context(), path, []string{clientVariable + "=1"}, nil, func(line []byte) {
		var a answer
		if err := json.Unmarshal(line, &a); err != nil {
			t.Errorf("%s client: %q: %v", version, line, err)
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.answers[a.ID] <- a
		delete(p.answers, a.ID)
	})
	cases.NoError(t, err)
	return p
}

// startAll starts clients, one of the one version and one of the other in turn, and waits until there is nothing to say
// about any of the nodes.
func startAll(t *testing.T, each int, c command) (all []*process) {
	t.Helper()
	c.Do = open
	for i := range 2 * each {
		all = append(all, start(t, versions[i%2]))
		all[i].must(t, c)
	}
	wantHealthy(t, all, len(c.Nodes))
	return all
}

// tell tells a client what to do. The answer is for whoever wants it.
func (p *process) tell(c command) <-chan answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told++
	c.ID = p.told
	hears := make(chan answer, 1)
	p.answers[c.ID] = hears
	line, err := json.Marshal(c)
	if err == nil {
		err = p.Tell(line)
	}
	if err != nil {
		hears <- answer{Kind: other, Error: err.Error()}
	}
	return hears
}

func (p *process) hear(hears <-chan answer) answer {
	select {
	case a := <-hears:
		return a
	case <-p.over: // of which the client has died
		return answer{Kind: other, Error: "the test is over"}
	case <-time.After(time.Minute):
		return answer{Kind: other, Error: "no answer within a minute"}
	}
}

// ask tells a client what to do, and waits for the answer.
func (p *process) ask(c command) answer { return p.hear(p.tell(c)) }

// must is ask for what has to succeed.
func (p *process) must(t *testing.T, c command) answer {
	t.Helper()
	a := p.ask(c)
	if a.Kind != "" {
		t.Fatalf("%s client: %s %q: %s: %s", p.version, c.Do, c.Name, a.Kind, a.Error)
	}
	return a
}

func (p *process) fails(t *testing.T, c command, kind string) {
	t.Helper()
	if a := p.ask(c); a.Kind == "" {
		fleet.Unsafe(t, "%s client: %s %q: succeeded, want %s", p.version, c.Do, c.Name, kind)
	} else if a.Kind != kind {
		t.Errorf("%s client: %s %q: %s (%s), want %s", p.version, c.Do, c.Name, a.Kind, a.Error, kind)
	}
}

// endAll lets clients end in good order.
func endAll(t *testing.T, all ...*process) {
	t.Helper()
	for _, p := range all {
		cases.NoError(t, p.End())
	}
}

// wantHealthy waits until each client counts the votes of all nodes, and has nothing to say about them.
func wantHealthy(t *testing.T, all []*process, nodes int) {
	t.Helper()
	for _, p := range all {
		fleet.Eventually(t, "to the "+p.version+" client, all nodes are in order", func() bool {
			a := p.ask(command{Do: look})
			return a.Count == nodes && len(a.Findings) == 0
		})
	}
}
