#include "serve/request.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

namespace espalier::serve {
namespace {

constexpr BadStatus kBadRequest = 400;
constexpr BadStatus kContentTooLarge = 413;
constexpr BadStatus kVersionNotSupported = 505;

bool is_token_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool is_token(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_token_char);
}

bool is_visible(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7F; });
}

// No control characters but tabs. Bytes beyond ASCII are allowed, as browsers send some.
bool is_value(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte == '\t' || (byte >= 0x20 && byte != 0x7F);
  });
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

// Takes the next line, without its end, off `head`.
std::optional<std::string_view> take_line(std::string_view& head) {
  const std::size_t end = head.find("\r\n");
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view line = head.substr(0, end);
  head.remove_prefix(end + 2);
  return line;
}

// Whether a comma-separated list, of which letters may be of any case, has `word`.
bool has_word(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    if (lower(trimmed(list.substr(0, comma))) == word) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

tl::expected<Request, BadStatus> parse_request_line(std::string_view line) {
  const tl::unexpected<BadStatus> bad(kBadRequest);
  const std::size_t first = line.find(' ');
  const std::size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) return bad;
  Request request;
  request.method = line.substr(0, first);
  request.target = line.substr(first + 1, last - first - 1);
  const std::string_view version = line.substr(last + 1);
  if (!is_token(request.method) || request.target.empty() || !is_visible(request.target))
    return bad;
  if (!version.starts_with("HTTP/")) return bad;
  if (version != "HTTP/1.1" && version != "HTTP/1.0") {
    return tl::unexpected<BadStatus>(kVersionNotSupported);
  }
  request.keep_alive = version == "HTTP/1.1";
  return request;
}

// Where the value of a field goes that may come once; null for other fields.
std::string* place_of(std::string_view name, Request& request) {
  if (name == "host") return &request.host;
  if (name == "range") return &request.range;
  if (name == "if-range") return &request.if_range;
  return nullptr;
}

// Returns 0 or the status that the field deserves.
BadStatus take_field(std::string_view line, Request& request) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || !is_token(line.substr(0, colon))) return kBadRequest;
  const std::string name = lower(line.substr(0, colon));
  const std::string_view value = trimmed(line.substr(colon + 1));
  if (!is_value(value)) return kBadRequest;
  if (name == "transfer-encoding") return kContentTooLarge;
  if (name == "content-length" && value != "0") return kContentTooLarge;
  if (name == "connection" && has_word(value, "close")) request.keep_alive = false;
  if (std::string* place = place_of(name, request)) {
    if (!place->empty() || value.empty()) return kBadRequest;
    *place = value;
  }
  return 0;
}

}  // namespace

tl::expected<Request, BadStatus> parse_request(std::string_view head) {
  const auto first = take_line(head);
  if (!first) return tl::unexpected<BadStatus>(kBadRequest);
  auto request = parse_request_line(*first);
  if (!request) return request;
  while (true) {
    const auto line = take_line(head);
    if (!line) return tl::unexpected<BadStatus>(kBadRequest);
    if (line->empty()) return request;
    if (const BadStatus bad = take_field(*line, *request); bad != 0) {
      return tl::unexpected<BadStatus>(bad);
    }
  }
}

}  // namespace espalier::serve
