/* Preloaded into a redis-server, sets its wall clock off by what stands in a
 * file: nanoseconds, as a 64-bit integer, which may change at any time. The
 * monotonic clock stays as it is. No dlsym: the allocator asks for the time
 * before that would work. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *shift;

__attribute__((constructor)) static void attach(void) {
	const char *path = getenv("REDLOCK_TEST_CLOCK");
	int fd = path ? open(path, O_RDONLY) : -1;
	if (fd < 0) return;
	void *p = mmap(NULL, sizeof *shift, PROT_READ, MAP_SHARED, fd, 0);
	if (p != MAP_FAILED) shift = p;
	close(fd);
}

int clock_gettime(clockid_t clock, struct timespec *ts) {
	int result = syscall(SYS_clock_gettime, clock, ts);
	if (result == 0 && shift && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
		int64_t ns = ts->tv_sec * INT64_C(1000000000) + ts->tv_nsec + *shift;
		ts->tv_sec = ns / 1000000000;
		ts->tv_nsec = ns % 1000000000;
	}
	return result;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone) {
	(void)zone;
	struct timespec ts;
	int result = clock_gettime(CLOCK_REALTIME, &ts);
	tv->tv_sec = ts.tv_sec;
	tv->tv_usec = ts.tv_nsec / 1000;
	return result;
}

time_t time(time_t *out) {
	struct timespec ts;
	clock_gettime(CLOCK_REALTIME, &ts);
	if (out) *out = ts.tv_sec;
	return ts.tv_sec;
}
