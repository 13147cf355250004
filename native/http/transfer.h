// One GET request for a range of bytes, and what may come of it. Programs bring the connections:
// the command line those of libcurl, the Python package those of Python.
#ifndef ESPALIER_HTTP_TRANSFER_H_
#define ESPALIER_HTTP_TRANSFER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "http/byte_range.h"
#include "http/credentials.h"
#include "http/response_headers.h"
#include "http/url.h"

namespace espalier::http {

/// A response, or how far it came.
struct Response {
  enum class End : std::uint8_t {
    kComplete,
    kLonger,      // The body has more bytes than the limit; `body` holds the first ones.
    kNoResponse,  // See `problem`.
    kBroken,      // The connection broke off after the headers.
    kHeaderFlood,
    kBadHeaders,  // They are not valid HTTP.
    kBadChunks,   // The framing of the body, or what follows it, is not valid.
    kCancelled,
    kOutOfMemory,
  };

  End end = End::kNoResponse;
  /// Why, in the words of the transfer, for kNoResponse and kBroken.
  std::string problem;
  /// Whether another try may have another outcome, for kNoResponse and kBroken.
  bool is_transient = false;
  bool is_timeout = false;
  long status = 0;
  ResponseHeaders headers;
  std::vector<std::byte> body;
};

struct TransferLimits {
  /// The most bytes of the body to keep, by status. A longer body is not read further.
  std::function<std::uint64_t(long status, const ResponseHeaders& headers)> body_bytes;
  /// Seconds without a connection, or with less than 1 KiB each, after which to give up.
  unsigned timeout = 30;
  /// Polled at least about once a second.
  std::function<bool()> is_cancelled;
};

/// A server that sends some bytes now and then must not hold the program for days.
constexpr unsigned kLeastBytesPerSecond = 1024;

/// A connection to a server, kept open between requests. For one thread at a time.
class Transfer {
 public:
  Transfer() = default;
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;
  virtual ~Transfer() = default;

  /// Asks for `range` of `url`, uncompressed ("Accept-Encoding: identity"), with these credentials
  /// and no others. Follows no redirect: the caller decides where credentials may go. Implement it
  /// with a ResponseReceiver, which keeps the limits. Throws nothing but std::bad_alloc.
  virtual Response get(const Url& url, const ByteRange& range, const Credentials& credentials,
                       const TransferLimits& limits) = 0;
};

/// Makes connections. Called from any thread.
using MakeTransfer = std::function<std::unique_ptr<Transfer>()>;

}  // namespace espalier::http

#endif  // ESPALIER_HTTP_TRANSFER_H_
