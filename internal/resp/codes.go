package resp

// What error replies mean. A code that is not in the table means nothing but that the command was refused.

// Kind is what a code may mean; some mean several things.
type Kind uint8

// The kinds. What is about one command alone says nothing of others.
const (
	Transient Kind = 1 << iota // nothing was executed, for a reason that may pass soon: undos are repeated
	Outage                     // no client is served at present: a probe has not learnt anything of the server
	Lasting                    // it stays so until somebody changes something
	Login                      // the user or the password is wrong, or missing
	Forbidden                  // the user may not do that
	Selective                  // one command is refused, and others may be executed
	Unloaded                   // the script is not there: to be sent with its source
	Demoted                    // the server is no master, so what was learnt of it is void
)

// Is reports whether a code means one of the kinds.
func (k Kind) Is(kinds Kind) bool { return k&kinds != 0 }

// Meaning is what a code means.
type Meaning struct {
	Kind
	Advice string // what an administrator can do
}

var meanings = map[string]Meaning{
	"BUSY":       {Transient | Outage, "a script does not end there: SCRIPT KILL, or SHUTDOWN NOSAVE if it has written"},
	"DENIED":     {Outage, ""},
	"ERR":        {Selective, ""},
	"LOADING":    {Transient | Outage, "wait"},
	"MASTERDOWN": {Transient | Outage, ""}, // a replica, which may become the master again that was to be asked
	"MAXCLIENTS": {Outage, "raise maxclients"},
	"MISCONF":    {Transient, "it cannot write to its disk: see its log"},
	"NOAUTH":     {Outage | Lasting | Login, ""},
	"NOPERM":     {Lasting | Forbidden | Selective, "docs/operations.md has the ACL"},
	"NOREPLICAS": {Transient, "too few replicas are attached: lower min-replicas-to-write"},
	"NOSCRIPT":   {Unloaded, ""},
	"OOM":        {Transient, "the node's memory is full: raise maxmemory"},
	"READONLY":   {Demoted, ""},
	"WRONGPASS":  {Lasting | Login, ""},
	"WRONGTYPE":  {Lasting, ""},
}

// About returns what a code means; Code returns codes.
func About(code string) Meaning { return meanings[code] }

// Is reports whether err is an error reply that means one of the kinds.
func Is(err error, kinds Kind) bool { return err != nil && About(Code(err)).Is(kinds) }
