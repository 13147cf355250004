// The loop that serves: one thread, all connections.
#ifndef ESPALIER_SERVE_SERVER_H_
#define ESPALIER_SERVE_SERVER_H_

#include <chrono>
#include <optional>

#include "serve/answer.h"
#include "serve/listener.h"

#include "espalier/base/error.h"

namespace espalier::serve {

struct ServeOptions {
  /// A descriptor that becomes readable when it is time to stop; borrowed.
  int stop = -1;
  /// Also stops when no byte has come or gone for so long.
  std::optional<std::chrono::seconds> idle_timeout;
};

/// Serves until it is told to stop, which ends all connections. No client can hold up others or
/// make it use more than some megabytes: none is waited for, a connection that does not send a
/// request within 30 seconds or take any of a response for two minutes ends, and of more than 256
/// the one that has waited longest gives way. What goes wrong with one connection ends that one.
/// kIoError or kOutOfMemory if the loop cannot go on. Not thread-safe.
Result<void> serve(const Listener& listener, const Service& service, const ServeOptions& options);

}  // namespace espalier::serve

#endif  // ESPALIER_SERVE_SERVER_H_
