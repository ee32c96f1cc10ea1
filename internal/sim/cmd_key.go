package sim

import (
	"path"
	"strings"
)

func cmdDel(x *call) any {
	var n int64
	for _, k := range x.args[1:] {
		if x.data.find(x.client.db, k, x.now) != nil {
			delete(x.data[x.client.db], k)
			n++
		}
	}
	return n
}

func cmdExists(x *call) any {
	var n int64
	for _, k := range x.args[1:] {
		if x.data.find(x.client.db, k, x.now) != nil {
			n++
		}
	}
	return n
}

func cmdType(x *call) any {
	if e := x.data.find(x.client.db, x.args[1], x.now); e != nil {
		return Status(e.kind)
	}
	return Status("none")
}

// ttl returns a command that reports what is left, or the instant, in units of so many ms; seconds are rounded as Redis
// does.
func ttl(unit int64, absolute bool) func(*call) any {
	return func(x *call) any {
		e := x.data.find(x.client.db, x.args[1], x.now)
		switch {
		case e == nil:
			return int64(-2)
		case e.expires == 0:
			return int64(-1)
		}
		v := e.expires
		if !absolute {
			v = max(v-x.now, 0)
		}
		if unit == 1 {
			return v
		}
		return (v + unit/2) / unit
	}
}

// expire returns EXPIRE, PEXPIRE and their AT forms.
func expire(unit int64, absolute bool) func(*call) any {
	return func(x *call) any {
		v, ok := parseInt(x.args[2])
		if !ok {
			return errNotInt
		}
		at := v * unit
		if !absolute {
			at += x.now
		}
		var nx, xx, gt, lt bool
		for _, a := range x.args[3:] {
			switch strings.ToLower(a) {
			case "nx":
				nx = true
			case "xx":
				xx = true
			case "gt":
				gt = true
			case "lt":
				lt = true
			default:
				return Error("ERR Unsupported option " + a)
			}
		}
		switch {
		case nx && (xx || gt || lt):
			return Error("ERR NX and XX, GT or LT options at the same time are not compatible")
		case gt && lt:
			return Error("ERR GT and LT options at the same time are not compatible")
		}
		e := x.data.find(x.client.db, x.args[1], x.now)
		if e == nil {
			return int64(0)
		}
		had := e.expires != 0 // a key without expiry counts as living for ever: GT never, LT always
		switch {
		case nx && had, xx && !had, gt && (!had || at <= e.expires), lt && had && at >= e.expires:
			return int64(0)
		}
		if at <= x.now {
			delete(x.data[x.client.db], x.args[1])
		} else {
			e.expires = at
		}
		return int64(1)
	}
}

func cmdPersist(x *call) any {
	e := x.data.find(x.client.db, x.args[1], x.now)
	if e == nil || e.expires == 0 {
		return int64(0)
	}
	e.expires = 0
	return int64(1)
}

func cmdKeys(x *call) any {
	r := []any{}
	for _, k := range x.data.keys(x.client.db, x.now) {
		if glob(x.args[1], k) {
			r = append(r, k)
		}
	}
	return r
}

// cmdScan answers everything in one page, with the cursor 0: what Redis does with a small data set.
func cmdScan(x *call) any {
	pattern, typ := "*", ""
	for i := 2; i < len(x.args); i += 2 {
		if i+1 >= len(x.args) {
			return errSyntax
		}
		switch strings.ToLower(x.args[i]) {
		case "match":
			pattern = x.args[i+1]
		case "type":
			typ = strings.ToLower(x.args[i+1])
		case "count":
		default:
			return errSyntax
		}
	}
	r := []any{}
	for _, k := range x.data.keys(x.client.db, x.now) {
		if glob(pattern, k) && (typ == "" || typ == string(x.data[x.client.db][k].kind)) {
			r = append(r, k)
		}
	}
	return []any{"0", r}
}

// glob is Redis's pattern matching as far as path.Match has it; unlike there, * also matches a slash.
func glob(pattern, s string) bool {
	hide := strings.NewReplacer("/", "\x00")
	ok, _ := path.Match(hide.Replace(pattern), hide.Replace(s))
	return ok
}

func cmdDBSize(x *call) any { return int64(len(x.data.keys(x.client.db, x.now))) }

func cmdFlushAll(x *call) any {
	x.data = &databases{}
	return OK
}

func cmdFlushDB(x *call) any {
	x.data[x.client.db] = nil
	return OK
}

func cmdRename(x *call) any {
	e := x.data.find(x.client.db, x.args[1], x.now)
	if e == nil {
		return Error("ERR no such key")
	}
	delete(x.data[x.client.db], x.args[1])
	x.data.put(x.client.db, x.args[2], e)
	return OK
}
