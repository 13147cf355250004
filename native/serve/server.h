// The loop that serves: evhttp in one thread, and the limits that it does not set itself.
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
  /// Also stops when nothing has been asked with the token, or answered, for so long.
  std::optional<std::chrono::seconds> idle_timeout;
};

/// Serves until it is told to stop, which ends all connections. A client without the token cannot
/// hold up others. Connection limits its time. There are at most 64 connections, fewer if
/// descriptors are short: for a new one, the one that has waited longest without ever having sent
/// the token ends; if there is none, the one that has waited longest. Those that answer a request
/// with the token stay. What goes wrong with one connection ends that one. kIoError or
/// kOutOfMemory if the loop cannot go on. Not thread-safe; from then on, SIGPIPE is ignored.
Result<void> serve(Listener listener, const Service& service, const ServeOptions& options);

}  // namespace espalier::serve

#endif  // ESPALIER_SERVE_SERVER_H_
