/* What the module and the program call and glibc 2.28 has not, or has by other names: see stubs.py. It goes into
 * the wheel. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

/* glibc 2.28 has these in place of stat() and so on, which are real functions since 2.33. */
#ifdef __x86_64__
enum { STAT_VERSION = 1 };
#else
enum { STAT_VERSION = 0 };
#endif
int __xstat(int version, const char* path, struct stat* result);
int __lxstat(int version, const char* path, struct stat* result);
int __fxstat(int version, int file, struct stat* result);
int __fxstatat(int version, int folder, const char* path, struct stat* result, int flags);

#define OWN __attribute__((visibility("hidden")))

OWN int stat(const char* path, struct stat* result) { return __xstat(STAT_VERSION, path, result); }
OWN int lstat(const char* path, struct stat* result) {
  return __lxstat(STAT_VERSION, path, result);
}
OWN int fstat(int file, struct stat* result) { return __fxstat(STAT_VERSION, file, result); }
OWN int fstatat(int folder, const char* path, struct stat* result, int flags) {
  return __fxstatat(STAT_VERSION, folder, path, result, flags);
}

/* Since 2.32. Shared pointers count without atomic instructions while it says that there is one
 * thread. */
OWN char __libc_single_threaded = 0;

/* Since 2.30. If the system's clock is set back meanwhile, the wait is longer by that much; if it
 * is set forward, the wait ends early, and std::condition_variable sees that the time is not over.
 */
OWN int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                               const struct timespec* until) {
  struct timespec now, end;
  if (clock_gettime(clock, &now) != 0 || clock_gettime(CLOCK_REALTIME, &end) != 0) return EINVAL;
  end.tv_sec += until->tv_sec - now.tv_sec;
  end.tv_nsec += until->tv_nsec - now.tv_nsec;
  if (end.tv_nsec < 0) {
    end.tv_nsec += 1000000000;
    --end.tv_sec;
  } else if (end.tv_nsec >= 1000000000) {
    end.tv_nsec -= 1000000000;
    ++end.tv_sec;
  }
  return pthread_cond_timedwait(condition, mutex, &end);
}

/* Since 2.36, for libevent. The kernel gives up to 256 bytes at once, and whole. */
OWN void arc4random_buf(void* bytes, size_t size) {
  unsigned char* next = bytes;
  while (size > 0) {
    const ssize_t got = getrandom(next, size < 256 ? size : 256, 0);
    if (got < 0 && errno != EINTR) abort();
    if (got <= 0) continue;
    next += got;
    size -= (size_t)got;
  }
}
OWN uint32_t arc4random(void) {
  uint32_t number;
  arc4random_buf(&number, sizeof number);
  return number;
}
