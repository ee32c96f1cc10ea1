#!/bin/sh
# A redis-server whose wall clock is off by what stands in the file clock.PORT.
port=none last=
for arg in "$@"; do
	if [ "$last" = --port ]; then port=$arg; fi
	last=$arg
done
file=$REDLOCK_TEST_CLOCKS/clock.$port
if ! [ -e "$file" ]; then head -c 8 /dev/zero >"$file"; fi
LD_PRELOAD=$REDLOCK_TEST_CLOCKS/clock.so REDLOCK_TEST_CLOCK=$file exec "$REDLOCK_TEST_SERVER" "$@"
