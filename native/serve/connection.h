// One connection: its time limits, and sending it an answer piece by piece.
#ifndef ESPALIER_SERVE_CONNECTION_H_
#define ESPALIER_SERVE_CONNECTION_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <new>

#include "serve/answer.h"
#include "serve/libevent.h"

namespace espalier::serve {

class Connection;

/// The connections of a server.
struct Crowd {
  /// Runs the body of a libevent callback: no exception may pass through C. Lack of memory ends the
  /// loop.
  template <class Call>
  void run(const Call& call) noexcept {
    try {
      call();
    } catch (const std::bad_alloc&) {
      is_out_of_memory = true;
      event_base_loopbreak(base);
    }
  }

  event_base* base = nullptr;  // borrowed
  std::list<Connection> all;   // those waiting for a request are in the order of their waiting
  bool is_out_of_memory = false;
};

/// Adds the limits that evhttp lacks. A request must be complete within 30 seconds, because one
/// that comes byte by byte (Slowloris) would keep evhttp waiting for ever. Only one piece of an
/// answer is in memory. Nothing is read from a client during its answer. A client that takes no
/// byte for two minutes is disconnected. Only answer() sends: where evhttp would send its own
/// error, the connection ends. Belongs to a Crowd, and leaves it when evhttp closes it. Not
/// thread-safe.
class Connection {
 public:
  /// Limit for the head of a request: file names are below 256 bytes, and browsers send about 1 KB.
  static constexpr std::size_t kMaxHead = 16 * 1024;

  /// Adds a connection that evhttp is about to take. Return its buffer from evhttp_set_bevcb()'s
  /// callback. Throws std::bad_alloc.
  static Connection& add(Crowd& crowd, bufferevent*& buffer);

  explicit Connection(Crowd& crowd);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();

  /// Finds evhttp's connection. Call once, after evhttp has taken the buffer and before anything
  /// else happens to the connection. May destroy this object.
  void adopt();

  bool is(const evhttp_connection* connection) const { return connection_ == connection; }
  /// Whether an answer is being sent to a client that knows the token.
  bool is_answering() const { return state_ == State::kAnswering; }
  /// Whether it ever had a request with the token.
  bool was_authorized() const { return was_authorized_; }

  /// Begins to answer a request. If content cannot be read, the connection ends: the head is
  /// already sent, so no error can be. Throws std::bad_alloc.
  void answer(evhttp_request* request, const Answer& answer);

  /// Closes the connection.
  void close() { evhttp_connection_free(connection_); }

 private:
  enum class State : std::uint8_t { kWaiting, kRefusing, kAnswering };

  void send_answers_only();
  void wait();
  void send_piece();
  void stop_reading();

  Crowd& crowd_;
  std::list<Connection>::iterator place_;
  SharedBufferevent buffer_;                 // until it is adopted
  evhttp_connection* connection_ = nullptr;  // since then; evhttp's
  EventHandle deadline_;
  State state_ = State::kWaiting;
  bool was_authorized_ = false;
  // Set while pieces are left to send.
  evhttp_request* request_ = nullptr;
  std::shared_ptr<const Resource> resource_;
  std::uint64_t offset_ = 0;
  std::uint64_t left_ = 0;
};

}  // namespace espalier::serve

#endif  // ESPALIER_SERVE_CONNECTION_H_
