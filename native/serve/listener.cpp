#include "serve/listener.h"

#include <cerrno>
#include <string>

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "files/os/posix.h"

namespace espalier::serve {
namespace {

// Descriptors for libevent's loop (3), the listener, and some connections.
constexpr rlim_t kDescriptors = 16;

// libevent aborts the program if it gets no descriptors for its loop.
Result<void> check_descriptors() {
  constexpr const char* kWhat = "get file descriptors for the server";
  const FileDescriptor lowest(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!lowest.is_open()) return fail_with_errno(errno, kWhat);
  rlimit limit = {};
  const rlim_t end = static_cast<rlim_t>(lowest.get()) + kDescriptors;
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && end > limit.rlim_cur) {
    return fail_with_errno(EMFILE, kWhat);
  }
  return {};
}

}  // namespace

Result<Listener> Listener::open(std::uint16_t port) {
  // Silences libevent's log: its warnings about connections help no user, and we report its errors.
  event_set_log_callback([](int, const char*) {});
  if (auto ok = check_descriptors(); !ok) return propagate(ok);
  Listener result;
  result.base.reset(event_base_new());
  if (!result.base) return fail_with_errno(errno, "create an event loop");
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* place = reinterpret_cast<sockaddr*>(&address);
  // SO_REUSEADDR: otherwise the port of a server that has just ended stays in use for a minute.
  constexpr unsigned kFlags = LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC | LEV_OPT_REUSEABLE;
  result.socket.reset(evconnlistener_new_bind(result.base.get(), nullptr, nullptr, kFlags,
                                              /*backlog=*/-1, place, static_cast<int>(size)));
  const int fd = result.socket ? evconnlistener_get_fd(result.socket.get()) : -1;
  if (fd < 0 || ::getsockname(fd, place, &size) != 0) {
    return fail_with_errno(errno, "listen on port " + std::to_string(port) + " of 127.0.0.1");
  }
  // TCP_NODELAY, which connections inherit: the last bytes of an answer need not wait for an
  // acknowledgement. Optional, so errors are ignored.
  const int on = 1;
  (void)::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  result.port = ntohs(address.sin_port);
  return result;
}

}  // namespace espalier::serve
