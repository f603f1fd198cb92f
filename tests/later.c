// A clock that is FLEET_DAYS_LATER ahead, for `make later`: preloaded, it shifts the real-time clock of a process
// and its children. Waits until an absolute time are shifted back. Monotonic clocks and files keep their times.
//
// Debian's and Ubuntu's faketime 0.9.10 cannot run Python from 3.11 on (tried on 2026-11-28): waits for a lock
// never end, because it does not know sem_clockwait, and without its monotonic clock time.sleep() fails.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static time_t ahead(void) {
  static time_t seconds = -1;
  if (seconds < 0) {
    const char *days = getenv("FLEET_DAYS_LATER");
    seconds = days ? atol(days) * 86400 : 0;
  }
  return seconds;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  int result = syscall(SYS_clock_gettime, clock, now);
  if (!result && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI))
    now->tv_sec += ahead();
  return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  struct timespec precise;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &precise);
  *now = (struct timeval){precise.tv_sec, precise.tv_nsec / 1000};
  return 0;
}

time_t time(time_t *result) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return result ? (*result = now.tv_sec) : now.tv_sec;
}

int timespec_get(struct timespec *now, int base) {
  return base == TIME_UTC && !clock_gettime(CLOCK_REALTIME, now) ? base : 0;
}

// Which clock a condition has cannot be seen. Times of the monotonic clock are far below those of the real-time clock.
static struct timespec kernel_time(const struct timespec *until) {
  struct timespec now, shifted = *until;
  syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
  if (shifted.tv_sec > now.tv_sec / 2) shifted.tv_sec -= ahead();
  return shifted;
}

static void *next(const char *name, const char *version) {
  void *found = version ? dlvsym(RTLD_NEXT, name, version) : NULL;
  return found ? found : dlsym(RTLD_NEXT, name);
}

#define WAIT(name, version, parameters, arguments)                                                                 \
  int name parameters {                                                                                            \
    static int(*real) parameters;                                                                                  \
    if (!real) real = next(#name, version);                                                                        \
    struct timespec shifted = kernel_time(until);                                                                  \
    until = &shifted;                                                                                              \
    return real arguments;                                                                                         \
  }

// The older version of this symbol, which x86 keeps, takes another structure.
WAIT(pthread_cond_timedwait, "GLIBC_2.3.2",
     (pthread_cond_t *restrict c, pthread_mutex_t *restrict m, const struct timespec *restrict until), (c, m, until))
WAIT(pthread_cond_clockwait, NULL,
     (pthread_cond_t *restrict c, pthread_mutex_t *restrict m, clockid_t k, const struct timespec *restrict until),
     (c, m, k, until))
WAIT(pthread_mutex_timedlock, NULL, (pthread_mutex_t *restrict m, const struct timespec *restrict until), (m, until))
WAIT(sem_timedwait, NULL, (sem_t *restrict s, const struct timespec *restrict until), (s, until))
WAIT(sem_clockwait, NULL, (sem_t *restrict s, clockid_t k, const struct timespec *restrict until), (s, k, until))

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *wanted, struct timespec *rest) {
  static int (*real)(clockid_t, int, const struct timespec *, struct timespec *);
  if (!real) real = next("clock_nanosleep", NULL);
  struct timespec shifted = flags & TIMER_ABSTIME ? kernel_time(wanted) : *wanted;
  return real(clock, flags, &shifted, rest);
}
