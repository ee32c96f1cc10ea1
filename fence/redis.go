package fence

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// guarded is what comes before a script. The mark never expires. It is compared as a number: as text, "9" is larger
// than "10".
const guarded = `local mark = redis.call('GET', KEYS[#KEYS]) or '0'
if tonumber(mark) > tonumber(ARGV[#ARGV]) then return redis.error_reply('` + late + ` ' .. mark) end
redis.call('SET', table.remove(KEYS), table.remove(ARGV))
`

// RedisScript returns a script that does what the given one does, unless the holder is late: then it replies with an
// error that begins with OVERTAKEN and the larger token. The keys are the given ones and that of the mark, the
// arguments the given ones and the token; the script finds its own. It is for clients other than redigo: see [RedisDo].
//
// The mark is at redlock:mark: and the name, without expiry. In a cluster the name needs the same hash tag as the keys.
func RedisScript(h Holder, script string, keys []string, args ...any) (string, []string, []any, error) {
	keys = append(slices.Clip(keys), "redlock:mark:"+h.Name())
	return guarded + script, keys, append(slices.Clip(args), h.Token()), check(h)
}

// RedisDo runs a script on the master that keeps the data, unless the holder is late: then the error satisfies
// errors.Is for [ErrOvertaken]. The mark rises with each script, also with one that only reads. It is as lasting as the
// data: where the master may lose writes, as it may whenever a replica takes its place, it may lose marks.
func RedisDo(ctx context.Context, pool *redis.Pool, h Holder, script string, keys []string, args ...any) (any, error) {
	source, keys, args, err := RedisScript(h, script, keys, args...)
	if err != nil {
		return nil, err
	}
	conn, err := pool.GetContext(ctx)
	if err != nil {
		return nil, failed(h, err)
	}
	defer conn.Close()
	all := make([]any, 0, len(keys)+len(args))
	for _, key := range keys {
		all = append(all, key)
	}
	reply, err := redis.NewScript(len(keys), source).DoContext(ctx, conn, append(all, args...)...)
	if said := redis.Error(""); errors.As(err, &said) {
		if mark, ok := strings.CutPrefix(string(said), late+" "); ok {
			mark, _, _ = strings.Cut(mark, " ") // Redis may say where
			larger, _ := strconv.ParseInt(mark, 10, 64)
			return nil, &overtaken{h.Name(), h.Token(), larger}
		}
	}
	if err != nil {
		return nil, failed(h, err)
	}
	return reply, nil
}

// RedisGet reads a key, or "" if there is none.
func RedisGet(ctx context.Context, pool *redis.Pool, h Holder, key string) (string, error) {
	value, err := redis.String(RedisDo(ctx, pool, h, "return redis.call('GET', KEYS[1])", []string{key}))
	if errors.Is(err, redis.ErrNil) {
		return "", nil
	}
	return value, err
}

// RedisSet writes a key.
func RedisSet(ctx context.Context, pool *redis.Pool, h Holder, key, value string) error {
	_, err := RedisDo(ctx, pool, h, "return redis.call('SET', KEYS[1], ARGV[1])", []string{key}, value)
	return err
}
