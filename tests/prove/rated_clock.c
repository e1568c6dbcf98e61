/* The clocks of one process, which run CLOCK_RATE times as fast as those of the machine from its start on; the clocks of
   CPU time pass through. Waits until an instant end when these clocks show it. Built and preloaded by quiet.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <sys/time.h>
#include <time.h>

#define CLOCKS 12
#define SECOND INT64_C(1000000000)
#define FILES 1024

static int (*real)(clockid_t, struct timespec *);
static double rate = 1.0;
static int64_t begun[CLOCKS];

static int is_rated(clockid_t clock)
{
    return clock >= 0 && clock < CLOCKS && clock != CLOCK_PROCESS_CPUTIME_ID && clock != CLOCK_THREAD_CPUTIME_ID;
}

__attribute__((constructor)) static void begin(void)
{
    real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    const char *text = getenv("CLOCK_RATE");
    rate = text ? atof(text) : 1.0;
    for (clockid_t clock = 0; clock < CLOCKS; clock++) {
        struct timespec now;
        if (is_rated(clock) && real(clock, &now) == 0)
            begun[clock] = now.tv_sec * SECOND + now.tv_nsec;
    }
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    if (!real)
        begin();
    int result = real(clock, now);
    if (result == 0 && is_rated(clock) && begun[clock]) {
        int64_t ns = now->tv_sec * SECOND + now->tv_nsec;
        ns = begun[clock] + (int64_t)((double)(ns - begun[clock]) * rate);
        now->tv_sec = ns / SECOND;
        now->tv_nsec = ns % SECOND;
    }
    return result;
}

/* The instant of the machine's clock at which this process's shows *shown*. */
static struct timespec instant_of(clockid_t clock, const struct timespec *shown)
{
    int64_t ns = shown->tv_sec * SECOND + shown->tv_nsec;
    if (is_rated(clock) && begun[clock] && ns > begun[clock])
        ns = begun[clock] + (int64_t)((double)(ns - begun[clock]) / rate);
    return (struct timespec){.tv_sec = ns / SECOND, .tv_nsec = ns % SECOND};
}

/* By this Python waits for its locks with a timeout. */
int sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *until)
{
    static int (*wait)(sem_t *, clockid_t, const struct timespec *);
    if (!wait)
        wait = (int (*)(sem_t *, clockid_t, const struct timespec *))dlsym(RTLD_NEXT, "sem_clockwait");
    struct timespec instant = instant_of(clock, until);
    return wait(semaphore, clock, &instant);
}

static clockid_t clock_of[FILES];

int timerfd_create(clockid_t clock, int flags)
{
    static int (*create)(clockid_t, int);
    if (!create)
        create = (int (*)(clockid_t, int))dlsym(RTLD_NEXT, "timerfd_create");
    int fd = create(clock, flags);
    if (fd >= 0 && fd < FILES)
        clock_of[fd] = clock;
    return fd;
}

int timerfd_settime(int fd, int flags, const struct itimerspec *setting, struct itimerspec *before)
{
    static int (*set)(int, int, const struct itimerspec *, struct itimerspec *);
    if (!set)
        set = (int (*)(int, int, const struct itimerspec *, struct itimerspec *))dlsym(RTLD_NEXT, "timerfd_settime");
    struct itimerspec rated = *setting;
    if ((flags & TFD_TIMER_ABSTIME) && fd < FILES)
        rated.it_value = instant_of(clock_of[fd], &setting->it_value);
    return set(fd, flags, &rated, before);
}

#include "time_of_day.h"
