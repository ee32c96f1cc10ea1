package conformance

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// state writes everything in the node's database as cases do: see "What is left" in cases/README.md.
func state(conn Conn) (string, error) {
	reply, err := conn.Do("KEYS", "*")
	if err != nil {
		return "", err
	}
	keys := texts(reply)
	slices.Sort(keys)
	var parts []string
	for _, k := range keys {
		value, err := valueOf(conn, k)
		if err != nil {
			return "", fmt.Errorf("%s: %w", k, err)
		}
		left, err := conn.Do("PTTL", k)
		if err != nil {
			return "", err
		}
		if ms, _ := left.(int64); ms >= 0 {
			value += " " + seconds(ms)
		}
		parts = append(parts, k+"="+value)
	}
	return strings.Join(parts, "; "), nil
}

func valueOf(conn Conn, key string) (string, error) {
	typ, err := conn.Do("TYPE", key)
	if err != nil {
		return "", err
	}
	read := func(command string, args ...any) ([]string, error) {
		reply, err := conn.Do(command, append([]any{key}, args...)...)
		return texts(reply), err
	}
	switch typ {
	case "string":
		v, err := conn.Do("GET", key)
		if err != nil {
			return "", err
		}
		return relativeWords(conn, strings.Join(texts([]any{v}), ""))
	case "zset":
		v, err := read("ZRANGE", 0, -1, "WITHSCORES")
		if err == nil {
			err = relative(conn, v)
		}
		return "[" + pairs(v) + "]", err
	case "hash":
		v, err := read("HGETALL")
		sorted := strings.Fields(pairs(v))
		slices.Sort(sorted)
		return "{" + strings.Join(sorted, " ") + "}", err
	case "list":
		v, err := read("LRANGE", 0, -1)
		return "(" + strings.Join(v, " ") + ")", err
	case "set":
		v, err := read("SMEMBERS")
		slices.Sort(v)
		return "<" + strings.Join(v, " ") + ">", err
	}
	return "", fmt.Errorf("%v is no type that state can write", typ)
}

// relative rewrites the scores that are times, or times with a minus sign.
func relative(conn Conn, v []string) error {
	for i := 1; i < len(v); i += 2 {
		text, minus := strings.CutPrefix(v[i], "-")
		score, err := strconv.ParseFloat(text, 64)
		if err != nil || score < 1e12 || score >= 1e13 {
			continue
		}
		now, err := timeOf(conn)
		if err != nil {
			return err
		}
		v[i] = seconds(int64(score) - now)
		if minus {
			v[i] = "-" + v[i]
		}
	}
	return nil
}

// relativeWords rewrites the words of a text that are times in us, a day from now at most.
func relativeWords(conn Conn, text string) (string, error) {
	words := strings.Split(text, " ")
	for i, word := range words {
		micros, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			continue
		}
		now, err := timeOf(conn)
		if err != nil {
			return "", err
		}
		if left := micros/1000 - now; left > -86_400_000 && left < 86_400_000 {
			words[i] = seconds(left)
		}
	}
	return strings.Join(words, " "), nil
}

func texts(reply any) []string {
	list, _ := reply.([]any)
	out := make([]string, len(list))
	for i, v := range list {
		if b, ok := v.([]byte); ok {
			out[i] = string(b)
		} else {
			out[i] = fmt.Sprint(v)
		}
	}
	return out
}

func pairs(v []string) string {
	var out []string
	for i := 0; i+1 < len(v); i += 2 {
		out = append(out, v[i]+":"+v[i+1])
	}
	return strings.Join(out, " ")
}
