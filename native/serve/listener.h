// A socket that waits for connections of this machine.
#ifndef ESPALIER_SERVE_LISTENER_H_
#define ESPALIER_SERVE_LISTENER_H_

#include <cstdint>
#include <utility>

#include "espalier/base/error.h"
#include "espalier/native/posix.h"

namespace espalier::serve {

/// Listens at 127.0.0.1, which no other machine reaches. Not thread-safe.
class Listener {
 public:
  /// Port 0 is any free one. kIoError, for one if the port is in use.
  static Result<Listener> open(std::uint16_t port);

  std::uint16_t port() const { return port_; }
  int fd() const { return socket_.get(); }

  /// A connection that waits, not blocking; none, and errno, if there is none or it cannot be had.
  FileDescriptor accept() const;

 private:
  Listener(FileDescriptor socket, std::uint16_t port) : socket_(std::move(socket)), port_(port) {}

  FileDescriptor socket_;
  std::uint16_t port_;
};

}  // namespace espalier::serve

#endif  // ESPALIER_SERVE_LISTENER_H_
