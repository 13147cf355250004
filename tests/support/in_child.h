// Runs a check in a process of its own, where it may give up rights or set limits.
#ifndef ESPALIER_TESTS_SUPPORT_IN_CHILD_H_
#define ESPALIER_TESTS_SUPPORT_IN_CHILD_H_

#include <cstdio>
#include <functional>

#include <sys/wait.h>
#include <unistd.h>

namespace espalier::testing {

/// The result of `check` in a child process, or -1 if that dies. `check` must not use doctest.
inline int in_child(const std::function<int()>& check) {
  // Otherwise both processes would write the buffered output.
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child < 0) return -1;
  if (child == 0) ::_exit(check());
  int status = 0;
  if (::waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_SUPPORT_IN_CHILD_H_
