#include "http/response_headers.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <system_error>
#include <utility>

#include "http/ascii.h"

namespace espalier::http {
namespace {

constexpr std::uint64_t kLargest = std::numeric_limits<std::int64_t>::max();

// Digits alone, at most kLargest.
std::optional<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t number = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  if (error != std::errc() || end != last || number > kLargest) return std::nullopt;
  return number;
}

bool are_equal_names(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

// Seconds since 1970 of "Sun, 06 Nov 1994 08:49:37 GMT", the one form of dates that servers send.
std::optional<std::int64_t> parse_date(std::string_view text) {
  constexpr std::string_view kForm = "Www, DD Mon YYYY hh:mm:ss GMT";
  constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
  if (text.size() != kForm.size() || !text.ends_with(" GMT")) return std::nullopt;
  const auto number = [&](char letter) {
    const std::size_t begin = kForm.find(letter);
    return parse_number(text.substr(begin, kForm.rfind(letter) + 1 - begin));
  };
  const std::size_t month = kMonths.find(text.substr(kForm.find("Mon"), 3));
  const auto day = number('D');
  const auto year = number('Y');
  const auto hour = number('h');
  const auto minute = parse_number(text.substr(kForm.find("mm"), 2));
  const auto second = number('s');
  if (month % 3 != 0 || month >= kMonths.size()) return std::nullopt;
  if (!day || !year || !hour || !minute || !second) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(static_cast<int>(*year)),
                                         std::chrono::month(static_cast<unsigned>(month / 3 + 1)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok() || *hour > 23 || *minute > 59 || *second > 60) return std::nullopt;
  const std::int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  const auto in_day = static_cast<std::int64_t>((*hour * 60 + *minute) * 60 + *second);
  return days * 24 * 3600 + in_day;
}

}  // namespace

std::optional<ContentRange> parse_content_range(std::string_view value) {
  constexpr std::string_view kUnit = "bytes ";
  if (value.size() < kUnit.size() || !are_equal_names(value.substr(0, kUnit.size()), kUnit)) {
    return std::nullopt;
  }
  value.remove_prefix(kUnit.size());
  const std::size_t slash = value.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  ContentRange range;
  if (const std::string_view total = value.substr(slash + 1); total != "*") {
    range.total = parse_number(total);
    if (!range.total) return std::nullopt;
  }
  const std::string_view bytes = value.substr(0, slash);
  if (bytes == "*") return range;
  const std::size_t dash = bytes.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const auto first = parse_number(bytes.substr(0, dash));
  const auto last = parse_number(bytes.substr(dash + 1));
  if (!first || !last || *first > *last || *last == kLargest) return std::nullopt;
  if (range.total && *last >= *range.total) return std::nullopt;
  range.begin = *first;
  range.end = *last + 1;
  return range;
}

std::chrono::seconds parse_retry_after(std::string_view value, std::int64_t now) {
  constexpr std::uint64_t kLongest = 365 * 24 * 3600;
  if (const auto seconds = parse_number(value)) {
    return std::chrono::seconds(std::min(*seconds, kLongest));
  }
  const auto date = parse_date(value);
  if (!date || *date <= now) return {};
  return std::chrono::seconds(std::min<std::int64_t>(*date - now, kLongest));
}

ResponseHeaders::Line ResponseHeaders::add_line(std::string_view line) {
  if (!count(line.size())) return Line::kTooLong;
  // A line that goes on with the one before would be a field of its own to us, and not to others.
  if (line.starts_with(' ') || line.starts_with('\t')) return Line::kInvalid;
  if (line.find('\0') != std::string_view::npos) return Line::kInvalid;
  if (is_ended_) return Line::kTaken;
  line = trimmed(line);
  if (line.starts_with("HTTP/")) {
    // An interim response (1xx) came before; the count goes on, because there may be any number.
    const std::size_t bytes = bytes_;
    *this = ResponseHeaders();
    bytes_ = bytes;
    return Line::kTaken;
  }
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return Line::kTaken;
  std::string* const field = find(line.substr(0, colon));
  if (field == nullptr) return Line::kTaken;
  if (!field->empty()) *field += ", ";
  *field += trimmed(line.substr(colon + 1));
  return Line::kTaken;
}

bool ResponseHeaders::count(std::size_t bytes) {
  bytes_ += std::min(bytes, kMaxBytes + 1);
  return bytes_ <= kMaxBytes;
}

std::string* ResponseHeaders::find(std::string_view name) {
  const std::array<std::pair<std::string_view, std::string*>, 9> fields = {
      {{"connection", &connection_},
       {"content-range", &content_range_},
       {"content-encoding", &content_encoding_},
       {"content-length", &content_length_},
       {"last-modified", &last_modified_},
       {"retry-after", &retry_after_},
       {"location", &location_},
       {"transfer-encoding", &transfer_encoding_},
       {"etag", &etag_}}};
  const auto* const found = std::find_if(fields.begin(), fields.end(), [&](const auto& field) {
    return are_equal_names(field.first, name);
  });
  return found == fields.end() ? nullptr : found->second;
}

bool ResponseHeaders::has_content_length() const { return !content_length_.empty(); }

std::optional<std::uint64_t> ResponseHeaders::content_length() const {
  return parse_number(content_length_);
}

std::string ResponseHeaders::transfer_encoding() const { return lower(transfer_encoding_); }

std::string ResponseHeaders::connection() const { return lower(connection_); }

std::string ResponseHeaders::strong_etag() const {
  return etag_.size() >= 2 && etag_.starts_with('"') && etag_.ends_with('"') ? etag_ : "";
}

}  // namespace espalier::http
