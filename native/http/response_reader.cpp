#include "http/response_reader.h"

#include <algorithm>
#include <limits>

#include "http/ascii.h"

namespace espalier::http {
namespace {

// "HTTP/1.1 206 Partial Content"; 0 if it is none.
long status_of(std::string_view line) {
  constexpr std::string_view kForm = "HTTP/1.x 206";
  constexpr std::string_view kEnds = " \r\n";
  if (line.size() < kForm.size() || !line.starts_with("HTTP/1.") || !is_digit(line[7]) ||
      line[8] != ' ' ||
      (line.size() > kForm.size() && kEnds.find(line[kForm.size()]) == kEnds.npos)) {
    return 0;
  }
  const std::string_view digits = line.substr(9, 3);
  if (!std::all_of(digits.begin(), digits.end(), is_digit) || digits[0] == '0') return 0;
  return (digits[0] - '0') * 100 + (digits[1] - '0') * 10 + (digits[2] - '0');
}

bool is_interim(long status) { return status >= 100 && status < 200 && status != 101; }

}  // namespace

bool ResponseReader::feed(std::string_view bytes) {
  has_begun_ = has_begun_ || !bytes.empty();
  while (!bytes.empty() && state_ != State::kEnded) {
    const bool has_body_bytes =
        state_ == State::kCounted || state_ == State::kUntilEnd || state_ == State::kChunk;
    if (!(has_body_bytes ? take_body(bytes) : take_line(bytes))) break;
  }
  // What nobody has asked for could be taken for the next response.
  if (!bytes.empty()) may_go_on_ = false;
  return state_ != State::kEnded;
}

void ResponseReader::end(const std::string& problem, bool is_transient) {
  if (state_ == State::kEnded) return;
  if (state_ == State::kUntilEnd && problem.empty()) {
    complete(false);
    return;
  }
  Response& response = receiver_.response();
  response.end = receiver_.has_body() ? Response::End::kBroken : Response::End::kNoResponse;
  response.problem = problem.empty() ? "the server closed the connection" : problem;
  response.is_transient = is_transient;
  state_ = State::kEnded;
}

// Takes a line, or what there is of it, and acts on it.
bool ResponseReader::take_line(std::string_view& bytes) {
  const std::size_t end = bytes.find('\n');
  const std::string_view part = bytes.substr(0, end == std::string_view::npos ? end : end + 1);
  bytes.remove_prefix(part.size());
  // A line without end must not take memory without end. add_line() decides about the sum.
  if (line_.size() + part.size() > ResponseHeaders::kMaxBytes) {
    return fail_with(Response::End::kHeaderFlood);
  }
  line_ += part;
  if (end == std::string_view::npos) return true;
  const bool goes_on = [&] {
    switch (state_) {
      case State::kChunkSize:
        return take_chunk_size();
      case State::kChunkEnd:
        if (line_ != "\r\n" && line_ != "\n") return fail_with(Response::End::kBadChunks);
        state_ = State::kChunkSize;
        return true;
      default:
        return take_header_line();
    }
  }();
  line_.clear();
  return goes_on;
}

bool ResponseReader::take_header_line() {
  if (state_ == State::kHeaders && status_ == 0) {
    status_ = status_of(line_);
    is_http_1_0_ = line_.starts_with("HTTP/1.0");
    if (status_ == 0) return fail_with(Response::End::kNoResponse, "what it sends is not HTTP");
    if (receiver_.add_line(line_)) return true;
    state_ = State::kEnded;
    return false;
  }
  if (!receiver_.add_line(line_)) {
    state_ = State::kEnded;
    return false;
  }
  const std::size_t text = line_.find_last_not_of("\r\n");
  const std::string_view line =
      std::string_view(line_).substr(0, text == std::string::npos ? 0 : text + 1);
  // Some programs end a line here, and others do not.
  if (line.find('\r') != std::string_view::npos) {
    return fail_with(receiver_.has_body() ? Response::End::kBadChunks : Response::End::kBadHeaders);
  }
  if (state_ == State::kTrailers) return !line.empty() || complete(true);
  if (line.starts_with("HTTP/")) return fail_with(Response::End::kBadHeaders);
  if (!line.empty()) return true;
  if (is_interim(status_)) {
    status_ = 0;
    return true;
  }
  return begin_body();
}

bool ResponseReader::begin_body() {
  if (!receiver_.begin_body(status_)) {
    state_ = State::kEnded;
    return false;
  }
  const ResponseHeaders& headers = receiver_.response().headers;
  const std::string coding = headers.transfer_encoding();
  if (status_ == 101 || status_ == 204 || status_ == 304) return complete(status_ != 101);
  if (!coding.empty()) {
    if (coding != "chunked" || headers.has_content_length()) {
      return fail_with(Response::End::kBadHeaders);
    }
    state_ = State::kChunkSize;
    return true;
  }
  if (!headers.has_content_length()) {
    state_ = State::kUntilEnd;
    return true;
  }
  left_ = headers.content_length().value_or(0);  // begin_body() has refused what is none.
  state_ = State::kCounted;
  return left_ > 0 || complete(true);
}

// "1a2b" or "1a2b;extension".
bool ResponseReader::take_chunk_size() {
  constexpr std::size_t kMostDigits = 15;  // so that no sum overflows
  std::size_t digits = 0;
  left_ = 0;
  while (digits < line_.size() && digits <= kMostDigits && hex_digit(line_[digits]) >= 0) {
    left_ = left_ * 16 + static_cast<std::uint64_t>(hex_digit(line_[digits++]));
  }
  const std::string_view rest = std::string_view(line_).substr(digits);
  if (digits == 0 || digits > kMostDigits || rest.find_first_of("\r\n; \t") != 0) {
    return fail_with(Response::End::kBadChunks);
  }
  // Extensions could be far longer than the chunks.
  if (rest.size() > 2 && !receiver_.response().headers.count(rest.size())) {
    return fail_with(Response::End::kHeaderFlood);
  }
  state_ = left_ > 0 ? State::kChunk : State::kTrailers;
  return true;
}

bool ResponseReader::take_body(std::string_view& bytes) {
  const bool is_until_end = state_ == State::kUntilEnd;
  const std::size_t count =
      is_until_end ? bytes.size()
                   : static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), left_));
  if (!receiver_.take(bytes.substr(0, count))) {
    state_ = State::kEnded;
    return false;
  }
  bytes.remove_prefix(count);
  if (is_until_end) return true;
  left_ -= count;
  if (left_ > 0) return true;
  if (state_ == State::kCounted) return complete(true);
  state_ = State::kChunkEnd;
  return true;
}

// Returns false, as what ends a response does.
bool ResponseReader::complete(bool may_go_on) {
  const std::string connection = receiver_.response().headers.connection();
  receiver_.response().end = Response::End::kComplete;
  may_go_on_ = may_go_on && !is_http_1_0_ && connection.find("close") == std::string::npos;
  state_ = State::kEnded;
  return false;
}

bool ResponseReader::fail_with(Response::End end, const char* problem) {
  receiver_.response().end = end;
  receiver_.response().problem = problem;
  state_ = State::kEnded;
  return false;
}

}  // namespace espalier::http
