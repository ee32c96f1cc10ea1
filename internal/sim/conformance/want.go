package conformance

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Status is a simple string.
type Status string

// Err is the beginning of an error reply.
type Err string

// TTL is a number of milliseconds at most so large, and at most a second smaller.
type TTL time.Duration

// Any is a reply that does not matter.
type Any struct{}

// OK is what most writes answer.
const OK = Status("OK")

// parseWant reads a reply in the notation of the files.
func parseWant(text string) (any, error) {
	want, rest, err := cutWant(text)
	if err == nil && rest != "" {
		err = fmt.Errorf("%s follows the reply", rest)
	}
	return want, err
}

// cutWant reads the reply that a text begins with, and returns what follows it.
func cutWant(text string) (want any, rest string, err error) {
	if strings.HasPrefix(text, "[") {
		return cutList(text[1:])
	}
	if strings.HasPrefix(text, `"`) {
		quoted, err := strconv.QuotedPrefix(text)
		if err != nil {
			return nil, "", fmt.Errorf("a string is not closed, or not as Go quotes it: %s", text)
		}
		s, err := strconv.Unquote(quoted)
		return s, text[len(quoted):], err
	}
	if message, ok := strings.CutPrefix(text, "error "); ok {
		prefix, rest, ok := strings.Cut(message, "…")
		if !ok {
			err = errors.New("an error ends with …")
		}
		return Err(prefix), rest, err
	}
	end := strings.IndexAny(text+" ", " ]")
	word, rest := text[:end], text[end:]
	if status, ok := strings.CutPrefix(word, "+"); ok && status != "" {
		return Status(status), rest, nil
	}
	if most, ok := strings.CutPrefix(word, "ttl<="); ok {
		d, err := time.ParseDuration(most)
		return TTL(d), rest, err
	}
	switch word {
	case "nil":
		return nil, rest, nil
	case "any":
		return Any{}, rest, nil
	}
	n, err := strconv.Atoi(word)
	if err != nil {
		err = fmt.Errorf(`%q is no reply: 1, "text", nil, +OK, [1 "text"], error WRONGTYPE…, ttl<=10s, any`, word)
	}
	return n, rest, err
}

// cutList reads a list behind its bracket.
func cutList(text string) (want any, rest string, err error) {
	list := []any{}
	for {
		text = strings.TrimLeft(text, " ")
		if rest, ok := strings.CutPrefix(text, "]"); ok {
			return list, rest, nil
		}
		if text == "" {
			return nil, "", errors.New("a list is not closed")
		}
		var item any
		if item, text, err = cutWant(text); err != nil {
			return nil, "", err
		}
		if text != "" && text[0] != ' ' && text[0] != ']' {
			return nil, "", fmt.Errorf("no space before %s", text)
		}
		list = append(list, item)
	}
}

// showWant writes a reply that is wanted as parseWant reads it.
func showWant(want any) string {
	switch w := want.(type) {
	case nil:
		return "nil"
	case Any:
		return "any"
	case string:
		return strconv.Quote(w)
	case Status:
		return "+" + string(w)
	case Err:
		return "error " + string(w) + "…"
	case TTL:
		return "ttl<=" + time.Duration(w).String()
	case []any:
		parts := make([]string, len(w))
		for i, item := range w {
			parts[i] = showWant(item)
		}
		return "[" + strings.Join(parts, " ") + "]"
	}
	return fmt.Sprint(want)
}

// show writes a reply as it would be wanted.
func show(reply any, err error) string { return showWant(wanting(reply, err)) }

// wanting returns what would have to be wanted for a reply to match.
func wanting(reply any, err error) any {
	if err != nil {
		return Err(err.Error())
	}
	switch v := reply.(type) {
	case error:
		return Err(v.Error())
	case []byte:
		return string(v)
	case string:
		return Status(v)
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = wanting(item, nil)
		}
		return list
	}
	return reply
}

func matches(reply any, err error, want any) bool {
	switch w := want.(type) {
	case Any:
		return true
	case Err:
		return err != nil && strings.HasPrefix(err.Error(), string(w))
	}
	if err != nil {
		return false
	}
	switch w := want.(type) {
	case nil:
		return reply == nil
	case int:
		return reply == int64(w)
	case string:
		b, ok := reply.([]byte)
		return ok && string(b) == w
	case Status:
		return reply == string(w)
	case TTL:
		ms, ok := reply.(int64)
		most := time.Duration(w).Milliseconds()
		return ok && ms <= most && ms > most-1000
	case []any:
		got, ok := reply.([]any)
		if !ok || len(got) != len(w) {
			return false
		}
		for i := range w {
			if e, isErr := got[i].(error); isErr {
				if !matches(nil, e, w[i]) {
					return false
				}
			} else if !matches(got[i], nil, w[i]) {
				return false
			}
		}
		return true
	}
	panic(fmt.Sprintf("conformance: want of type %T", want))
}
