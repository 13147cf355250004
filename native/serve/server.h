// The server loop: evhttp in one thread, with the limits that it lacks.
#ifndef ESPALIER_SERVE_SERVER_H_
#define ESPALIER_SERVE_SERVER_H_

#include <chrono>
#include <optional>

#include "espalier/error.h"
#include "serve/answer.h"
#include "serve/listener.h"

namespace espalier::serve {

struct ServeOptions {
  /// Stops when this descriptor becomes readable; borrowed.
  int stop = -1;
  /// Also stops after this time without a request with the token and without an answer in progress.
  std::optional<std::chrono::seconds> idle_timeout;
};

/// Serves until it is told to stop, then ends all connections. A client without the token cannot
/// block others: Connection limits its time, and there are at most 64 connections, fewer if
/// descriptors are short. At the limit, a new connection replaces the one that has waited longest
/// without ever sending the token; if there is none, the one that has waited longest. Connections
/// that answer a request with the token are kept. An error on one connection ends only that one.
/// kIoError or kOutOfMemory if the loop cannot continue. Not thread-safe. Ignores SIGPIPE from then
/// on.
[[nodiscard]] Result<void> serve(Listener listener, const Service& service,
                                 const ServeOptions& options);

}  // namespace espalier::serve

#endif  // ESPALIER_SERVE_SERVER_H_
