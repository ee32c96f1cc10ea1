package sim

import (
	"math"
	"strings"
)

// expiryArg reads the number after EX, PX, PXAT, EXAT and returns the node time in ms at which the key shall expire.
func (x *call) expiryArg(unit, value string) (int64, any) {
	v, ok := parseInt(value)
	if !ok {
		return 0, errNotInt
	}
	invalid := Error("ERR invalid expire time in '" + x.args[0] + "' command")
	if v <= 0 {
		return 0, invalid
	}
	if unit[0] == 'e' {
		if v > math.MaxInt64/1000 {
			return 0, invalid
		}
		v *= 1000
	}
	if !strings.HasSuffix(unit, "at") {
		if v > math.MaxInt64-x.now {
			return 0, invalid
		}
		v += x.now
	}
	return v, nil
}

func cmdSet(x *call) any {
	key, value := x.args[1], x.args[2]
	var nx, xx, get, keep bool
	var expires int64
	for i := 3; i < len(x.args); i++ {
		switch opt := strings.ToLower(x.args[i]); {
		case opt == "nx" && !xx:
			nx = true
		case opt == "xx" && !nx:
			xx = true
		case opt == "get":
			get = true
		case opt == "keepttl" && expires == 0:
			keep = true
		case (opt == "ex" || opt == "px" || opt == "exat" || opt == "pxat") && !keep && expires == 0 && i+1 < len(x.args):
			i++
			at, err := x.expiryArg(opt, x.args[i])
			if err != nil {
				return err
			}
			expires = at
		default:
			return errSyntax
		}
	}
	old := x.data.find(x.client.db, key, x.now)
	var was any
	if get && old != nil {
		if old.kind != kindString {
			return errWrongType
		}
		was = old.str
	}
	if nx && old != nil || xx && old == nil {
		return was // nil without GET, the old value with it
	}
	if keep && old != nil {
		expires = old.expires
	}
	x.data.put(x.client.db, key, &entry{kind: kindString, str: value, expires: expires})
	if get {
		return was
	}
	return OK
}

func cmdSetNX(x *call) any {
	if x.data.find(x.client.db, x.args[1], x.now) != nil {
		return int64(0)
	}
	x.data.put(x.client.db, x.args[1], &entry{kind: kindString, str: x.args[2]})
	return int64(1)
}

func cmdGet(x *call) any {
	e, err := x.lookup(x.args[1], kindString)
	switch {
	case err != nil:
		return err
	case e == nil:
		return nil
	}
	return e.str
}

func cmdMGet(x *call) any {
	r := []any{}
	for _, k := range x.args[1:] {
		if e := x.data.find(x.client.db, k, x.now); e != nil && e.kind == kindString {
			r = append(r, e.str)
		} else {
			r = append(r, nil)
		}
	}
	return r
}

func cmdGetDel(x *call) any {
	v := cmdGet(x)
	if _, found := v.(string); found {
		delete(x.data[x.client.db], x.args[1])
	}
	return v
}

func cmdStrlen(x *call) any {
	e, err := x.lookup(x.args[1], kindString)
	switch {
	case err != nil:
		return err
	case e == nil:
		return int64(0)
	}
	return int64(len(e.str))
}

func cmdAppend(x *call) any {
	e, err := x.create(x.args[1], kindString)
	if err != nil {
		return err
	}
	e.str += x.args[2]
	return int64(len(e.str))
}

// add returns a command that adds sign × its argument, or sign where it takes none.
func add(sign int64) func(*call) any {
	return func(x *call) any {
		by := sign
		if len(x.args) == 3 {
			v, ok := parseInt(x.args[2])
			if !ok {
				return errNotInt
			}
			by = sign * v
		}
		e, err := x.lookup(x.args[1], kindString)
		if err != nil {
			return err
		}
		var was int64
		if e != nil {
			v, ok := parseInt(e.str)
			if !ok {
				return errNotInt
			}
			was = v
		}
		if by > 0 && was > math.MaxInt64-by || by < 0 && was < math.MinInt64-by {
			return Error("ERR increment or decrement would overflow")
		}
		e, _ = x.create(x.args[1], kindString)
		e.str = itoa(was + by)
		return was + by
	}
}
