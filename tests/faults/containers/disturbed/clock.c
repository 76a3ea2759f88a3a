/* Preloaded: the process's clock of the day is CLOCK_AHEAD seconds ahead; its monotonic clock is the machine's.

   Waits until a time of the day, as librdkafka's are, end by the machine's clock, so the difference is taken off again.
   libfaketime 0.9.10 does not do this: each such wait lasts CLOCK_AHEAD longer. Where libfaketime leaves the monotonic clock
   alone, time.sleep of Python 3.11 fails. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

static long ahead(void) {
    const char *text = getenv("CLOCK_AHEAD");
    return text ? atol(text) : 0;
}

int clock_gettime(clockid_t id, struct timespec *at) {
    int failed = syscall(SYS_clock_gettime, id, at);
    if (!failed && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        at->tv_sec += ahead();
    return failed;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    struct timespec now;
    int failed = clock_gettime(CLOCK_REALTIME, &now);
    if (!failed) {
        at->tv_sec = now.tv_sec;
        at->tv_usec = now.tv_nsec / 1000;
    }
    return failed;
}

time_t time(time_t *at) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now))
        return -1;
    if (at)
        *at = now.tv_sec;
    return now.tv_sec;
}

/* Seconds since the start of a machine are fewer than this, seconds since 1970 are more. */
#define LONGEST_UPTIME 1000000000

static clockid_t clock_of(const struct timespec *until, struct timespec *by_machine) {
    *by_machine = *until;
    if (until->tv_sec < LONGEST_UPTIME)
        return CLOCK_MONOTONIC;
    by_machine->tv_sec -= ahead();
    return CLOCK_REALTIME;
}

int pthread_cond_timedwait(
    pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex, const struct timespec *restrict until) {
    struct timespec by_machine;
    clockid_t clock = clock_of(until, &by_machine);
    return pthread_cond_clockwait(condition, mutex, clock, &by_machine);
}

/* In glibc a cnd_t is a pthread_cond_t, and an mtx_t a pthread_mutex_t; librdkafka waits so. */
int cnd_timedwait(cnd_t *restrict condition, mtx_t *restrict mutex, const struct timespec *restrict until) {
    int error = pthread_cond_timedwait((pthread_cond_t *)condition, (pthread_mutex_t *)mutex, until);
    return error == 0 ? thrd_success : error == ETIMEDOUT ? thrd_timedout : thrd_error;
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict until) {
    struct timespec by_machine;
    clockid_t clock = clock_of(until, &by_machine);
    return sem_clockwait(semaphore, clock, &by_machine);
}
