/* The time of day of one process, set by another: what clock_gettime says plus the nanoseconds in a shared file.
   Only the time of day: monotonic clocks pass through. How often it is read is counted in another file, if one is given.
   Built and preloaded by clock_trips.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int (*real)(clockid_t, struct timespec *);
static volatile int64_t *offset, *reads;
static int64_t none;

static int64_t *shared_by(const char *name, int flags, int access)
{
    const char *path = getenv(name);
    int file = path ? open(path, flags) : -1;
    void *shared = file < 0 ? MAP_FAILED : mmap(NULL, sizeof none, access, MAP_SHARED, file, 0);
    if (file >= 0)
        close(file);
    return shared == MAP_FAILED ? NULL : shared;
}

__attribute__((constructor)) static void begin(void)
{
    real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    reads = shared_by("INTERPOSED_READS", O_RDWR, PROT_READ | PROT_WRITE);
    offset = shared_by("INTERPOSED_OFFSET", O_RDONLY, PROT_READ);
    if (!offset)
        offset = &none;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    if (!real)
        begin();
    int result = real(clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t ns = now->tv_sec * INT64_C(1000000000) + now->tv_nsec + *offset;
        now->tv_sec = ns / INT64_C(1000000000);
        now->tv_nsec = ns % INT64_C(1000000000);
        if (reads)
            __atomic_add_fetch(reads, 1, __ATOMIC_RELAXED);
    }
    return result;
}

#include "time_of_day.h"
