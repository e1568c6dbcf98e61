/* The clocks of one process, which run CLOCK_RATE times as fast as those of the machine from its start on; the clocks of
   CPU time pass through. Built and preloaded by quiet.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

#define CLOCKS 12
#define SECOND INT64_C(1000000000)

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

#include "time_of_day.h"
