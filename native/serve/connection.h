// One connection: how long it may take, and how an answer gets to it piece by piece.
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

/// All connections of a server.
struct Crowd {
  /// Runs what libevent calls back: no exception may pass through C. Lack of memory ends the loop.
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
  std::list<Connection> all;   // those that wait for a request: in the order of their waiting
  bool is_out_of_memory = false;
};

/// Bounds what evhttp does not: a request has to be there within 30 seconds, for one that comes
/// byte by byte (Slowloris) would keep evhttp waiting for ever; of an answer, one piece is held;
/// and while a client is answered nothing is read from it. One that takes no byte for two minutes
/// is given up. Nothing is sent but answer()s: where evhttp would send an error of its own, the
/// connection ends. Belongs to a Crowd, and leaves it when evhttp closes it. Not thread-safe.
class Connection {
 public:
  /// The head of a request: names of files are below 256 bytes, and browsers send a kilobyte.
  static constexpr std::size_t kMaxHead = 16 * 1024;

  /// Adds a connection that evhttp is about to take. Its buffer is for evhttp_set_bevcb(). Throws
  /// std::bad_alloc.
  static Connection& add(Crowd& crowd, bufferevent*& buffer);

  explicit Connection(Crowd& crowd);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();

  /// Learns what evhttp has made for it: to be called once, after evhttp has taken the buffer and
  /// before anything else happens to the connection, which this may be the end of.
  void adopt();

  bool is(const evhttp_connection* connection) const { return connection_ == connection; }
  /// Whether an answer is on its way to a client that knows the token.
  bool is_answering() const { return state_ == State::kAnswering; }
  /// Whether it ever had a request with the token.
  bool was_authorized() const { return was_authorized_; }

  /// Begins to answer a request of it. If content cannot be read, the connection ends: nobody can
  /// be told, as the head has promised it. Throws std::bad_alloc.
  void answer(evhttp_request* request, const Answer& answer);

  /// Ends it.
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
  // While there are pieces left to be read.
  evhttp_request* request_ = nullptr;
  const Resource* resource_ = nullptr;
  std::uint64_t offset_ = 0;
  std::uint64_t left_ = 0;
};

}  // namespace espalier::serve

#endif  // ESPALIER_SERVE_CONNECTION_H_
