#include "serve/listener.h"

#include <cerrno>
#include <string>

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace espalier::serve {
namespace {

bool set_flags(int fd) {
  return ::fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 && ::fcntl(fd, F_SETFL, O_NONBLOCK) == 0;
}

void set_option(int fd, int level, int name) {
  const int on = 1;
  (void)::setsockopt(fd, level, name, &on, sizeof on);  // It works without.
}

}  // namespace

Result<Listener> Listener::open(std::uint16_t port) {
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM, 0));
  if (!socket.is_open() || !set_flags(socket.get())) return fail_with_errno(errno, "make a socket");
  // Otherwise the port of a server that has just ended stays taken for a minute.
  set_option(socket.get(), SOL_SOCKET, SO_REUSEADDR);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* place = reinterpret_cast<sockaddr*>(&address);
  if (::bind(socket.get(), place, size) != 0 || ::listen(socket.get(), SOMAXCONN) != 0 ||
      ::getsockname(socket.get(), place, &size) != 0) {
    return fail_with_errno(errno, "listen at port " + std::to_string(port) + " of 127.0.0.1");
  }
  return Listener(std::move(socket), ntohs(address.sin_port));
}

FileDescriptor Listener::accept() const {
  FileDescriptor socket(::accept(socket_.get(), nullptr, nullptr));
  if (!socket.is_open()) return socket;
  if (!set_flags(socket.get())) return {};
  // The head and the content are sent one after the other, and need not wait for each other.
  set_option(socket.get(), IPPROTO_TCP, TCP_NODELAY);
#ifdef SO_NOSIGPIPE
  set_option(socket.get(), SOL_SOCKET, SO_NOSIGPIPE);
#endif
  return socket;
}

}  // namespace espalier::serve
