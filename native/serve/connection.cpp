#include "serve/connection.h"

#include <algorithm>

#include "serve/request.h"

namespace espalier::serve {

void Connection::feed(std::string_view bytes) {
  input_ += bytes;
  answer_next();
}

void Connection::answer_next() {
  constexpr std::string_view kEnd = "\r\n\r\n";
  const std::size_t end = input_.find(kEnd, searched_);
  if (end == std::string::npos && input_.size() <= kMaxHead) {
    searched_ = input_.size() - std::min(input_.size(), kEnd.size() - 1);
    return;
  }
  const std::size_t length = end == std::string::npos ? input_.size() : end + kEnd.size();
  if (length > kMaxHead) {
    answer_ = refuse(431);
  } else if (const auto request = parse_request(std::string_view(input_).substr(0, length))) {
    answer_ = answer(*request, service_);
  } else {
    answer_ = refuse(request.error());
  }
  input_.erase(0, length);
  searched_ = 0;
  head_sent_ = 0;
  body_sent_ = 0;
  state_ = State::kWriting;
}

Result<ByteSpan> Connection::next(MutableByteSpan scratch) const {
  if (head_sent_ < answer_.head.size()) {
    return as_bytes(std::string_view(answer_.head).substr(head_sent_));
  }
  const auto wanted =
      static_cast<std::size_t>(std::min<std::uint64_t>(body_left(), scratch.size()));
  const auto read = answer_.resource->read(answer_.offset + body_sent_, scratch.first(wanted));
  if (!read) return propagate(read);
  return ByteSpan(scratch.first(*read));
}

void Connection::sent(std::size_t size) {
  if (head_sent_ < answer_.head.size()) {
    head_sent_ += size;
  } else {
    body_sent_ += size;
  }
  if (!is_sent()) return;
  state_ = answer_.keep_alive ? State::kReading : State::kDone;
  // The next request may have come together with this one.
  if (state_ == State::kReading) answer_next();
}

}  // namespace espalier::serve
