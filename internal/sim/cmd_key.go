package sim

import (
	"math"
	"path"
	"slices"
	"strings"
)

// Commands about keys of any type, and strings.

func cmdDel(x *call) any {
	var n int64
	for _, k := range x.args[1:] {
		if x.find(k) != nil {
			delete(x.data, k)
			n++
		}
	}
	return n
}

func cmdExists(x *call) any {
	var n int64
	for _, k := range x.args[1:] {
		if x.find(k) != nil {
			n++
		}
	}
	return n
}

func cmdType(x *call) any {
	if e := x.find(x.args[1]); e != nil {
		return Status(e.kind)
	}
	return Status("none")
}

func cmdPTTL(x *call) any {
	e := x.find(x.args[1])
	switch {
	case e == nil:
		return int64(-2)
	case e.expires == 0:
		return int64(-1)
	}
	return max(e.expires-x.now, 0)
}

// expire returns PEXPIRE or PEXPIREAT.
func expire(absolute bool) func(*call) any {
	return func(x *call) any {
		at, ok := parseInt(x.args[2])
		if !ok {
			return errNotInt
		}
		if !absolute {
			at += x.now
		}
		e := x.find(x.args[1])
		switch {
		case e == nil:
			return int64(0)
		case at <= x.now:
			delete(x.data, x.args[1])
		default:
			e.expires = at
		}
		return int64(1)
	}
}

func cmdKeys(x *call) any { return x.matching(x.args[1], "") }

// matching returns the keys that match a pattern and, if that is not empty, are of a type.
func (x *call) matching(pattern string, typ kind) any {
	return bulks(slices.DeleteFunc(x.data.keys(x.now), func(key string) bool {
		return !matches(pattern, key) || typ != "" && typ != x.data[key].kind
	}))
}

// matches reports whether a name matches Redis's pattern, as far as path.Match has that; unlike there, * also matches a
// slash.
func matches(pattern, name string) bool {
	hide := strings.NewReplacer("/", "\x00")
	is, _ := path.Match(hide.Replace(pattern), hide.Replace(name))
	return is
}

// cmdScan answers everything in one page, with the cursor 0: what Redis does with a small data set.
func cmdScan(x *call) any {
	pattern, typ := "*", ""
	for i := 2; i+1 < len(x.args); i += 2 {
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
	return []any{"0", x.matching(pattern, kind(typ))}
}

func cmdFlushAll(x *call) any {
	x.data = dataset{}
	return OK
}

func cmdSet(x *call) any {
	var nx, keep bool
	var expires int64
	for i := 3; i < len(x.args); i++ {
		switch opt := strings.ToLower(x.args[i]); {
		case opt == "nx":
			nx = true
		case opt == "keepttl" && expires == 0:
			keep = true
		case opt == "px" && !keep && expires == 0 && i+1 < len(x.args):
			i++
			ms, ok := parseInt(x.args[i])
			switch {
			case !ok:
				return errNotInt
			case ms <= 0, ms > math.MaxInt64-x.now:
				return Error("ERR invalid expire time in 'set' command")
			}
			expires = x.now + ms
		default:
			return errSyntax
		}
	}
	old := x.find(x.args[1])
	if nx && old != nil {
		return nil
	}
	if keep && old != nil {
		expires = old.expires
	}
	x.data[x.args[1]] = &entry{kind: kindString, str: x.args[2], expires: expires}
	return OK
}

func cmdMGet(x *call) any {
	r := []any{}
	for _, k := range x.args[1:] {
		if e := x.find(k); e != nil && e.kind == kindString {
			r = append(r, e.str)
		} else {
			r = append(r, nil)
		}
	}
	return r
}
