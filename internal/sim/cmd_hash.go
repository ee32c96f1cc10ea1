package sim

import (
	"maps"
	"slices"
)

func cmdHSet(x *call) any {
	if len(x.args)%2 != 0 {
		return wrongArgs(x.args[0])
	}
	e, err := x.create(x.args[1], kindHash)
	if err != nil {
		return err
	}
	var added int64
	for i := 2; i < len(x.args); i += 2 {
		if _, had := e.fields[x.args[i]]; !had {
			added++
		}
		e.fields[x.args[i]] = x.args[i+1]
	}
	if x.args[0] == "hmset" {
		return OK
	}
	return added
}

func cmdHSetNX(x *call) any {
	e, err := x.create(x.args[1], kindHash)
	if err != nil {
		return err
	}
	if _, had := e.fields[x.args[2]]; had {
		return int64(0)
	}
	e.fields[x.args[2]] = x.args[3]
	return int64(1)
}

// fields returns the hash's fields; nil if there is no such key.
func (x *call) fields() (map[string]string, any) {
	e, err := x.lookup(x.args[1], kindHash)
	if e == nil {
		return nil, err
	}
	return e.fields, nil
}

func cmdHGet(x *call) any {
	f, err := x.fields()
	if err != nil {
		return err
	}
	if v, ok := f[x.args[2]]; ok {
		return v
	}
	return nil
}

func cmdHMGet(x *call) any {
	f, err := x.fields()
	if err != nil {
		return err
	}
	r := []any{}
	for _, k := range x.args[2:] {
		if v, ok := f[k]; ok {
			r = append(r, v)
		} else {
			r = append(r, nil)
		}
	}
	return r
}

func cmdHExists(x *call) any {
	f, err := x.fields()
	if err != nil {
		return err
	}
	if _, ok := f[x.args[2]]; ok {
		return int64(1)
	}
	return int64(0)
}

func cmdHDel(x *call) any {
	e, err := x.lookup(x.args[1], kindHash)
	if err != nil {
		return err
	}
	var n int64
	if e != nil {
		for _, k := range x.args[2:] {
			if _, ok := e.fields[k]; ok {
				delete(e.fields, k)
				n++
			}
		}
		x.tidy(x.args[1], e)
	}
	return n
}

func cmdHLen(x *call) any {
	f, err := x.fields()
	if err != nil {
		return err
	}
	return int64(len(f))
}

// hashList returns HGETALL, HKEYS and HVALS. Redis promises no order; the model gives the order of the fields' bytes.
func hashList(keys, values bool) func(*call) any {
	return func(x *call) any {
		f, err := x.fields()
		if err != nil {
			return err
		}
		r := []any{}
		for _, k := range slices.Sorted(maps.Keys(f)) {
			if keys {
				r = append(r, k)
			}
			if values {
				r = append(r, f[k])
			}
		}
		return r
	}
}

func cmdHIncrBy(x *call) any {
	by, ok := parseInt(x.args[3])
	if !ok {
		return errNotInt
	}
	e, err := x.lookup(x.args[1], kindHash)
	if err != nil {
		return err
	}
	var was int64
	if e != nil {
		if s, had := e.fields[x.args[2]]; had {
			if was, ok = parseInt(s); !ok {
				return Error("ERR hash value is not an integer")
			}
		}
	}
	e, _ = x.create(x.args[1], kindHash)
	e.fields[x.args[2]] = itoa(was + by)
	return was + by
}
