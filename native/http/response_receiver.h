// Takes a response as it comes, and says when it is enough.
#ifndef ESPALIER_HTTP_RESPONSE_RECEIVER_H_
#define ESPALIER_HTTP_RESPONSE_RECEIVER_H_

#include <cstdint>
#include <string_view>

#include "http/transfer.h"

namespace espalier::http {

/// Keeps the headers of a response and as much of its body as the limits allow, whatever sends it.
/// A function that returns false has set the response's end, and no more is to be read.
class ResponseReceiver {
 public:
  /// `limits` must outlive it.
  explicit ResponseReceiver(const TransferLimits& limits) : limits_(limits) {}

  /// A line of the headers, or after the body.
  [[nodiscard]] bool add_line(std::string_view line);
  /// The headers are complete.
  [[nodiscard]] bool begin_body(long status);
  bool has_body() const { return has_body_; }
  [[nodiscard]] bool take(std::string_view bytes);

  Response& response() { return response_; }

 private:
  const TransferLimits& limits_;
  Response response_;
  bool has_body_ = false;
  bool is_kept_ = false;
  std::uint64_t limit_ = 0;
};

}  // namespace espalier::http

#endif  // ESPALIER_HTTP_RESPONSE_RECEIVER_H_
