// One connection, without a socket: bytes in, bytes out.
//
//   connection.feed(received);                       // while it is kReading
//   auto piece = connection.next(scratch);           // while it is kWriting
//   connection.sent(send(socket, *piece));
#ifndef ESPALIER_SERVE_CONNECTION_H_
#define ESPALIER_SERVE_CONNECTION_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "serve/answer.h"

#include "espalier/base/bytes.h"
#include "espalier/base/error.h"

namespace espalier::serve {

/// Takes requests one after the other and gives the bytes of their responses. Holds one head of a
/// request and one of a response, and nothing of any content. Not thread-safe; `service` must
/// outlive it.
class Connection {
 public:
  enum class State : std::uint8_t {
    kReading,  // waits for a request, or the rest of one
    kWriting,  // has something to send
    kDone,     // all has been sent; nothing more is answered
  };
  /// The longest head of a request: names of files are below 256 bytes, and browsers send a
  /// kilobyte.
  static constexpr std::size_t kMaxHead = 16 * 1024;

  explicit Connection(const Service& service) : service_(service) {}

  State state() const { return state_; }

  /// Takes bytes that were received, at most kMaxHead; only while kReading.
  void feed(std::string_view bytes);

  /// What to send next: one byte or more, perhaps in `scratch`, which is not empty. Valid until the
  /// next call. kFileChanged or kIoError if content cannot be read: nobody can be told, as the head
  /// has promised it, so the connection has to end. Only while kWriting.
  Result<ByteSpan> next(MutableByteSpan scratch) const;

  /// Says that the first `size` bytes of what next() gave have been sent.
  void sent(std::size_t size);

 private:
  /// Begins to answer if there is a whole request.
  void answer_next();
  bool is_sent() const { return head_sent_ == answer_.head.size() && body_left() == 0; }
  std::uint64_t body_left() const {
    return answer_.resource == nullptr ? 0 : answer_.length - body_sent_;
  }

  const Service& service_;
  State state_ = State::kReading;
  std::string input_;
  std::size_t searched_ = 0;  // bytes of the input in which no head ends
  Answer answer_;
  std::size_t head_sent_ = 0;
  std::uint64_t body_sent_ = 0;
};

}  // namespace espalier::serve

#endif  // ESPALIER_SERVE_CONNECTION_H_
