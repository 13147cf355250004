#include "serve/answer.h"

#include <iterator>
#include <optional>
#include <string_view>

#include "serve/byte_range.h"
#include "serve/token.h"
#include "serve/url.h"
#include <fmt/format.h>

namespace espalier::serve {
namespace {

// In every response, errors too. The page may load its own parts and fetch checkpoints from
// anywhere, and nothing else: a checkpoint's text that gets into the page by a mistake of ours
// still runs no script. No CORS fields: other pages read nothing.
constexpr std::string_view kCommonFields =
    "Cache-Control: no-store\r\n"
    "Content-Security-Policy: default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; "
    "style-src 'self'; img-src 'self' data: blob:; connect-src 'self' https: http: blob:; "
    "worker-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors "
    "'none'\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "X-Content-Type-Options: nosniff\r\n";

std::string_view reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 206:
      return "Partial Content";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 413:
      return "Content Too Large";
    case 416:
      return "Range Not Satisfiable";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Bad Request";
  }
}

void begin_head(std::string& head, int status, bool keep_alive) {
  fmt::format_to(std::back_inserter(head), "HTTP/1.1 {} {}\r\n", status, reason_of(status));
  head += kCommonFields;
  if (!keep_alive) head += "Connection: close\r\n";
}

// An error, whose content is its name.
Answer error_answer(const Request& request, int status, std::string_view fields = {}) {
  Answer result;
  result.keep_alive = request.keep_alive;
  begin_head(result.head, status, request.keep_alive);
  result.head += fields;
  const std::string_view reason = reason_of(status);
  fmt::format_to(std::back_inserter(result.head),
                 "Content-Type: text/plain\r\nContent-Length: {}\r\n\r\n", reason.size() + 1);
  if (request.method != "HEAD") fmt::format_to(std::back_inserter(result.head), "{}\n", reason);
  return result;
}

// Another name would be that of a page which its owner lets resolve to this machine, so that its
// scripts count as ours (DNS rebinding).
bool is_our_name(std::string_view host, std::uint16_t port) {
  for (const std::string_view name : {"127.0.0.1", "localhost"}) {
    if (host == fmt::format("{}:{}", name, port)) return true;
    if (port == 80 && host == name) return true;  // the port that needs no mention
  }
  return false;
}

// What stands after "/TOKEN/" in a target, without a query.
std::optional<std::string_view> name_in(std::string_view target, std::string_view token) {
  const std::size_t prefix = token.size() + 2;
  if (target.size() < prefix || target.front() != '/' || target[prefix - 1] != '/' ||
      !equal_secrets(target.substr(1, token.size()), token)) {
    return std::nullopt;
  }
  target.remove_prefix(prefix);
  return target.substr(0, target.find('?'));
}

Answer content_answer(const Request& request, const Resource& resource) {
  const auto state = resource.state();
  if (!state) return error_answer(request, 500);
  // A part of what is not that any more is of no use to who has the rest. And only GET has ranges.
  const bool wants_part =
      request.method == "GET" && (request.if_range.empty() || request.if_range == state->tag);
  const ByteRange range = wants_part ? choose_range(request.range, state->size) : ByteRange{};

  std::string fields = "Accept-Ranges: bytes\r\n";
  const auto append = std::back_inserter(fields);
  if (!state->tag.empty()) fmt::format_to(append, "ETag: {}\r\n", state->tag);
  if (range.kind == ByteRange::Kind::kUnsatisfiable) {
    fmt::format_to(append, "Content-Range: bytes */{}\r\n", state->size);
    return error_answer(request, 416, fields);
  }
  const bool is_part = range.kind == ByteRange::Kind::kPart;
  const std::uint64_t length = is_part ? range.length : state->size;
  if (is_part) {
    fmt::format_to(append, "Content-Range: bytes {}-{}/{}\r\n", range.offset,
                   range.offset + range.length - 1, state->size);
  }
  fmt::format_to(append, "Content-Type: {}\r\nContent-Length: {}\r\n\r\n", resource.content_type(),
                 length);

  Answer result;
  result.keep_alive = request.keep_alive;
  begin_head(result.head, is_part ? 206 : 200, request.keep_alive);
  result.head += fields;
  if (request.method == "HEAD") return result;
  result.resource = &resource;
  result.offset = range.offset;
  result.length = length;
  return result;
}

}  // namespace

Answer answer(const Request& request, const Service& service) {
  const auto name = name_in(request.target, service.token);
  if (!name || !is_our_name(request.host, service.port)) return error_answer(request, 404);
  if (request.method != "GET" && request.method != "HEAD") {
    return error_answer(request, 405, "Allow: GET, HEAD\r\n");
  }
  const auto decoded = percent_decoded(*name);
  const Resource* resource =
      decoded ? service.site.find(decoded->empty() ? "index.html" : *decoded) : nullptr;
  return resource ? content_answer(request, *resource) : error_answer(request, 404);
}

Answer refuse(int status) { return error_answer(Request{}, status); }

}  // namespace espalier::serve
