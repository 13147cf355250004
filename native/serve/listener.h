// A socket that waits for connections of this machine.
#ifndef ESPALIER_SERVE_LISTENER_H_
#define ESPALIER_SERVE_LISTENER_H_

#include <cstdint>

#include "serve/libevent.h"

#include "espalier/base/error.h"

namespace espalier::serve {

/// Listens at 127.0.0.1, which no other machine reaches. Connections wait until `base` runs and
/// somebody takes them.
struct Listener {
  /// Port 0 is any free one. kIoError if the port is in use, or fewer than 16 descriptors are left;
  /// kOutOfMemory.
  static Result<Listener> open(std::uint16_t port);

  EventBaseHandle base;
  ListenerHandle socket;
  std::uint16_t port = 0;
};

}  // namespace espalier::serve

#endif  // ESPALIER_SERVE_LISTENER_H_
