package sim

import "slices"

// commands is Redis's command table as far as the library and its tests go. Which options a command has is the same
// matter: those that nobody sends are syntax errors here.
var commands map[string]command

const (
	write = flagWrite
	grow  = flagWrite | flagDenyOOM
)

func init() { // not a composite literal: EVAL runs commands, which would be an initialisation cycle
	commands = map[string]command{
		// connection
		"ping":  {cmdPing, -1, flagSub},
		"auth":  {cmdAuth, -2, flagLoading | flagNoAuth | flagNoScript},
		"hello": {cmdHello, 2, flagLoading | flagNoScript},
		// server
		"time":     {cmdTime, 1, flagLoading},
		"info":     {cmdInfo, 2, flagLoading},
		"config":   {cmdConfig, -3, flagLoading | flagNoScript},
		"flushall": {cmdFlushAll, 1, write},
		// keys
		"del":       {cmdDel, -2, write},
		"exists":    {cmdExists, -2, 0},
		"type":      {cmdType, 2, 0},
		"pttl":      {cmdPTTL, 2, 0},
		"pexpire":   {expire(false), 3, write},
		"pexpireat": {expire(true), 3, write},
		"keys":      {cmdKeys, 2, 0},
		"scan":      {cmdScan, -2, 0},
		// strings
		"set":    {cmdSet, -3, grow},
		"get":    {on(kindString, nil, func(_ *call, e *entry) any { return e.str }), 2, 0},
		"mget":   {cmdMGet, -2, 0},
		"strlen": {on(kindString, int64(0), func(_ *call, e *entry) any { return int64(len(e.str)) }), 2, 0},
		// sorted sets
		"zadd":             {into(kindZSet, zadd), -4, grow},
		"zscore":           {on(kindZSet, nil, zscore), 3, 0},
		"zrem":             {on(kindZSet, int64(0), zrem), -3, write},
		"zcard":            {on(kindZSet, int64(0), func(_ *call, e *entry) any { return int64(len(e.scores)) }), 2, 0},
		"zcount":           {on(kindZSet, int64(0), zcount), 4, 0},
		"zrank":            {on(kindZSet, nil, zrank), 3, 0},
		"zrange":           {on(kindZSet, []any{}, zrange(zquery{count: -1})), -4, 0},
		"zrevrange":        {on(kindZSet, []any{}, zrange(zquery{count: -1, reverse: true})), -4, 0},
		"zrangebyscore":    {on(kindZSet, []any{}, zrange(zquery{count: -1, byScore: true})), 4, 0},
		"zremrangebyscore": {on(kindZSet, int64(0), zremrangebyscore), 4, write},
		// other types, whose keys are in the way of ours, and the set of names that are waited for
		"sadd":     {into(kindSet, sadd), -3, grow},
		"srem":     {on(kindSet, int64(0), srem), -3, write},
		"smembers": {on(kindSet, []any{}, members), 2, 0},
		"hset":     {into(kindHash, hset), -4, grow},
		"hgetall":  {on(kindHash, []any{}, members), 2, 0},
		"lpush":    {into(kindList, lpush), -3, grow},
		"lrange":   {on(kindList, []any{}, members), 4, 0},
		// publish and subscribe
		"subscribe": {cmdSubscribe, -2, flagLoading | flagNoScript | flagSub},
		"publish":   {cmdPublish, 3, flagLoading},
		"pubsub":    {cmdPubSub, -2, flagLoading},
		// scripts
		"eval":    {cmdEval, -3, flagNoScript},
		"evalsha": {cmdEvalSHA, -3, flagNoScript},
		"script":  {cmdScript, -2, flagNoScript},
	}
}

// on returns a command about the key args[1], which must be of the given kind. Without the key it answers none.
func on(want kind, none any, run func(*call, *entry) any) func(*call) any {
	return func(x *call) any {
		e := x.find(x.args[1])
		switch {
		case e == nil:
			return none
		case e.kind != want:
			return errWrongType
		}
		defer x.tidy(x.args[1], e)
		return run(x, e)
	}
}

// into is on for commands that create the key.
func into(want kind, run func(*call, *entry) any) func(*call) any {
	existing := on(want, nil, run)
	return func(x *call) any {
		if x.find(x.args[1]) == nil {
			x.data[x.args[1]] = &entry{kind: want, scores: map[string]float64{}, fields: map[string]string{}}
		}
		return existing(x)
	}
}

// find returns the living entry of a key, or nil.
func (x *call) find(key string) *entry { return x.data.find(key, x.now) }

// tidy deletes a collection that became empty.
func (x *call) tidy(key string, e *entry) {
	if e.kind != kindString && len(e.scores)+len(e.fields)+len(e.list) == 0 {
		delete(x.data, key)
	}
}

// bulks is a reply of several strings.
func bulks(values []string) any {
	r := []any{}
	for _, v := range values {
		r = append(r, v)
	}
	return r
}

func sadd(x *call, e *entry) any {
	before := len(e.fields)
	for _, m := range x.args[2:] {
		e.fields[m] = ""
	}
	return int64(len(e.fields) - before)
}

func srem(x *call, e *entry) any {
	before := len(e.fields)
	for _, m := range x.args[2:] {
		delete(e.fields, m)
	}
	return int64(before - len(e.fields))
}

func hset(x *call, e *entry) any {
	if len(x.args)%2 != 0 {
		return wrongArgs(x.args[0])
	}
	before := len(e.fields)
	for i := 2; i < len(x.args); i += 2 {
		e.fields[x.args[i]] = x.args[i+1]
	}
	return int64(len(e.fields) - before)
}

func lpush(x *call, e *entry) any {
	for _, v := range x.args[2:] {
		e.list = slices.Insert(e.list, 0, v)
	}
	return int64(len(e.list))
}

// members returns all of a set, a hash or a list. Redis promises no order where the model gives that of the bytes.
func members(_ *call, e *entry) any {
	all := slices.Clone(e.list)
	for _, f := range sortedKeys(e.fields) {
		all = append(all, f)
		if e.kind == kindHash {
			all = append(all, e.fields[f])
		}
	}
	return bulks(all)
}
