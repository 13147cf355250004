#include "http/response_receiver.h"

#include <algorithm>

namespace espalier::http {
namespace {

// Of a redirect or an error page, whose text is not shown. Read to its end if it is short, so that
// the connection can be used again.
constexpr std::uint64_t kIgnoredBytes = 16 * 1024;

}  // namespace

bool ResponseReceiver::add_line(std::string_view line) {
  switch (response_.headers.add_line(line)) {
    case ResponseHeaders::Line::kTaken:
      return true;
    case ResponseHeaders::Line::kTooLong:
      response_.end = Response::End::kHeaderFlood;
      return false;
    case ResponseHeaders::Line::kInvalid:
      break;
  }
  response_.end = has_body_ ? Response::End::kBadChunks : Response::End::kBadHeaders;
  return false;
}

bool ResponseReceiver::begin_body(long status) {
  has_body_ = true;
  response_.headers.end();
  response_.status = status;
  // Two lengths: programs take the first, the last, or what the connection gives.
  if (response_.headers.has_content_length() && !response_.headers.content_length()) {
    response_.end = Response::End::kBadHeaders;
    return false;
  }
  is_kept_ = status == 200 || status == 206;
  limit_ = is_kept_ ? limits_.body_bytes(status, response_.headers) : kIgnoredBytes;
  if (!is_kept_) return true;
  // No more than the caller wants, whatever the server says.
  const std::uint64_t length = response_.headers.content_length().value_or(0);
  response_.body.reserve(static_cast<std::size_t>(std::min(limit_, length)));
  return true;
}

bool ResponseReceiver::take(std::string_view bytes) {
  const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), limit_));
  limit_ -= count;
  if (is_kept_) {
    const auto* const first = reinterpret_cast<const std::byte*>(bytes.data());
    response_.body.insert(response_.body.end(), first, first + count);
  }
  if (count < bytes.size()) response_.end = Response::End::kLonger;
  return count == bytes.size();
}

}  // namespace espalier::http
