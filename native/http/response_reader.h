// Reads the bytes of a response of HTTP/1.1, for a transfer over a bare connection.
#ifndef ESPALIER_HTTP_RESPONSE_READER_H_
#define ESPALIER_HTTP_RESPONSE_READER_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "http/response_receiver.h"

namespace espalier::http {

/// One response to a GET request. Feed it what the connection gives, in parts of any size. Strict:
/// what programs read in different ways (two lengths, a length that is no plain number, a coding
/// besides chunked) is an error and not a guess. Keeps no more memory than the headers and the body
/// of a response may have.
class ResponseReader {
 public:
  /// `limits` must outlive it.
  explicit ResponseReader(const TransferLimits& limits) : receiver_(limits) {}

  /// Takes the next bytes. False if the response has ended, for good or for ill.
  [[nodiscard]] bool feed(std::string_view bytes);
  /// The connection has ended, or failed with `problem`.
  void end(const std::string& problem, bool is_transient);
  /// Nothing more is wanted, for this reason of the program's own.
  void stop(Response::End end) { fail_with(end); }

  bool is_ended() const { return state_ == State::kEnded; }
  /// Whether any byte has come.
  bool has_begun() const { return has_begun_; }
  /// Whether the connection may serve another request: this response was complete, and nothing came
  /// after it.
  bool may_go_on() const { return may_go_on_; }
  Response& response() { return receiver_.response(); }

 private:
  enum class State : std::uint8_t {
    kHeaders,
    kCounted,   // A body whose length is known.
    kUntilEnd,  // A body that the end of the connection ends.
    kChunkSize,
    kChunk,
    kChunkEnd,
    kTrailers,
    kEnded,
  };

  bool take_line(std::string_view& bytes);
  bool take_header_line();
  bool begin_body();
  bool take_chunk_size();
  bool take_body(std::string_view& bytes);
  bool complete(bool may_go_on);
  bool fail_with(Response::End end, const char* problem = "");

  ResponseReceiver receiver_;
  State state_ = State::kHeaders;
  std::string line_;
  std::uint64_t left_ = 0;  // of the body, or of a chunk
  long status_ = 0;
  bool is_http_1_0_ = false;
  bool has_begun_ = false;
  bool may_go_on_ = false;
};

}  // namespace espalier::http

#endif  // ESPALIER_HTTP_RESPONSE_READER_H_
