#include "cli/view/browser.h"

#include <csignal>

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#include "files/os/posix.h"

extern char** environ;

namespace espalier::cli {
namespace {

#ifdef __APPLE__
constexpr const char* kOpener = "open";
#else
constexpr const char* kOpener = "xdg-open";
#endif

// Starts the opener without our terminal, because browsers log to it, and in its own process group,
// so that the Ctrl-C that stops us does not end the browser.
class SpawnSettings {
 public:
  SpawnSettings() {
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDWR, 0);
    ::posix_spawn_file_actions_adddup2(&actions, STDIN_FILENO, STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, STDIN_FILENO, STDERR_FILENO);
    ::posix_spawnattr_init(&attributes);
    ::posix_spawnattr_setpgroup(&attributes, 0);
    // A child process inherits ignored signals.
    sigset_t ignored;
    ::sigemptyset(&ignored);
    ::sigaddset(&ignored, SIGCHLD);
    ::sigaddset(&ignored, SIGXFSZ);
    ::posix_spawnattr_setsigdefault(&attributes, &ignored);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;
  ~SpawnSettings() {
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
  }

  posix_spawn_file_actions_t actions = {};
  posix_spawnattr_t attributes = {};
};

}  // namespace

Result<void> open_browser(const std::string& url) {
  // We do not wait for the opener, so the system must reap it.
  std::signal(SIGCHLD, SIG_IGN);
  const SpawnSettings settings;
  std::string opener = kOpener;
  std::string argument = url;
  char* const arguments[] = {opener.data(), argument.data(), nullptr};
  pid_t child = 0;
  const int error =
      ::posix_spawnp(&child, kOpener, &settings.actions, &settings.attributes, arguments, environ);
  if (error != 0) return fail_with_errno(error, "run " + opener);
  return {};
}

}  // namespace espalier::cli
