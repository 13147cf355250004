// Header fields of a response, from an untrusted server.
#ifndef ESPALIER_HTTP_RESPONSE_HEADERS_H_
#define ESPALIER_HTTP_RESPONSE_HEADERS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace espalier::http {

/// "Content-Range: bytes 0-99/1000".
struct ContentRange {
  /// Offsets of the first byte and of the one after the last; both 0 in "bytes */1000".
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  /// Bytes of the file; none if the server does not say.
  std::optional<std::uint64_t> total;

  friend bool operator==(const ContentRange&, const ContentRange&) = default;
};

/// Parses a value of Content-Range. None if it is invalid, also if it contradicts itself. An end or
/// a total is at most 2^63 - 1, so sums of two do not overflow.
std::optional<ContentRange> parse_content_range(std::string_view value);

/// The wait that a value of Retry-After asks for: seconds, or a date as seen from `now`. Zero for
/// other text.
std::chrono::seconds parse_retry_after(std::string_view value, std::int64_t now);

/// Collects the fields of one response that the program uses.
class ResponseHeaders {
 public:
  /// The most bytes of headers that a response may have.
  static constexpr std::size_t kMaxBytes = 64 * 1024;

  enum class Line : std::uint8_t {
    kTaken,
    /// The headers of all responses together are longer than kMaxBytes: a server could send headers
    /// for ever.
    kTooLong,
    /// It holds a zero, or goes on with the line before.
    kInvalid,
  };

  /// Takes one line, with or without its end. A status line begins a new response.
  [[nodiscard]] Line add_line(std::string_view line);
  /// Counts what stands between the parts of a body with the headers. False if these are longer
  /// than kMaxBytes now.
  [[nodiscard]] bool count(std::size_t bytes);
  /// Lines after the body (trailers) have no effect from now on.
  void end() { is_ended_ = true; }

  // Empty if there is none. Several fields of one name are joined with ", ", as RFC 9110 says, so
  // that two Content-Ranges make an invalid one.
  const std::string& content_range() const { return content_range_; }
  const std::string& content_encoding() const { return content_encoding_; }
  const std::string& last_modified() const { return last_modified_; }
  const std::string& retry_after() const { return retry_after_; }
  const std::string& location() const { return location_; }
  /// Bytes of the body; none if the server does not say, or nothing valid.
  std::optional<std::uint64_t> content_length() const;
  bool has_content_length() const;
  // In lower case.
  std::string transfer_encoding() const;
  std::string connection() const;
  /// The ETag if it is strong; empty otherwise: a weak one does not promise equal bytes.
  std::string strong_etag() const;

 private:
  std::string* find(std::string_view name);

  std::size_t bytes_ = 0;
  bool is_ended_ = false;
  std::string connection_;
  std::string content_range_;
  std::string content_encoding_;
  std::string content_length_;
  std::string last_modified_;
  std::string retry_after_;
  std::string location_;
  std::string transfer_encoding_;
  std::string etag_;
};

}  // namespace espalier::http

#endif  // ESPALIER_HTTP_RESPONSE_HEADERS_H_
