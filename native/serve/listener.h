// A socket that accepts connections from this machine.
#ifndef ESPALIER_SERVE_LISTENER_H_
#define ESPALIER_SERVE_LISTENER_H_

#include <cstdint>

#include "espalier/error.h"
#include "serve/libevent.h"

namespace espalier::serve {

/// Listens on 127.0.0.1, which no other machine can reach. Connections wait until `base` runs and a
/// callback accepts them.
struct Listener {
  /// Port 0 selects any free port. kIoError if the port is in use, or fewer than 16 descriptors are
  /// left; kOutOfMemory.
  [[nodiscard]] static Result<Listener> open(std::uint16_t port);

  EventBaseHandle base;
  ListenerHandle socket;
  std::uint16_t port = 0;
};

}  // namespace espalier::serve

#endif  // ESPALIER_SERVE_LISTENER_H_
