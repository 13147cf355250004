#include "serve/answer.h"

#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "serve/byte_range.h"
#include "serve/token.h"
#include "serve/url.h"

namespace espalier::serve {
namespace {

// The page may load its own parts and fetch checkpoints from anywhere, and nothing else. Even if
// our mistake puts a checkpoint's text into the page, no script in it runs.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; "
    "img-src 'self' data: blob:; connect-src 'self' https: http: blob:; worker-src 'self'; "
    "manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

// Fields of every answer, including errors. No CORS fields, so other pages can read nothing.
Answer begin(int status) {
  Answer result;
  result.status = status;
  result.fields = {{"Cache-Control", "no-store"},
                   {"Content-Security-Policy", kPolicy},
                   {"Cross-Origin-Resource-Policy", "same-origin"},
                   {"Referrer-Policy", "no-referrer"},
                   {"X-Content-Type-Options", "nosniff"}};
  return result;
}

Answer error_answer(const Request& request, int status, const char* text) {
  Answer result = begin(status);
  result.text = text;
  result.fields.emplace_back("Content-Type", "text/plain");
  result.fields.emplace_back("Content-Length", std::to_string(result.text.size()));
  if (request.is_head) result.text.clear();
  return result;
}

// Prevents DNS rebinding: a page's owner can make its name resolve to this machine, so that its
// scripts count as ours.
bool is_our_name(std::string_view host, std::uint16_t port) {
  for (const std::string_view name : {"127.0.0.1", "localhost"}) {
    if (host == fmt::format("{}:{}", name, port)) return true;
    if (port == 80 && host == name) return true;  // the default port may be omitted
  }
  return false;
}

// The part of a target after "/TOKEN/", without a query.
std::optional<std::string_view> name_in(std::string_view target, std::string_view token) {
  const std::size_t prefix = token.size() + 2;
  if (target.size() < prefix || target.front() != '/' || target[prefix - 1] != '/' ||
      !equal_secrets(target.substr(1, token.size()), token)) {
    return std::nullopt;
  }
  target.remove_prefix(prefix);
  return target.substr(0, target.find('?'));
}

Answer content_answer(const Request& request, const std::shared_ptr<const Resource>& plain) {
  // Ranges refer to the plain bytes.
  const bool is_gzipped =
      plain->gzipped() != nullptr && request.accepts_gzip && request.range.empty();
  const auto resource =
      is_gzipped ? std::shared_ptr<const Resource>(plain, plain->gzipped()) : plain;
  const auto state = resource->state();
  if (!state) return error_answer(request, 500, "Internal Server Error\n");
  // Send the whole file if it changed: a part would not fit the client's other parts. Only GET has
  // ranges.
  const bool wants_part =
      !request.is_head && (request.if_range.empty() || request.if_range == state->tag);
  const ByteRange range = wants_part ? choose_range(request.range, state->size) : ByteRange{};
  const bool is_part = range.kind == ByteRange::Kind::kPart;
  const bool is_beyond = range.kind == ByteRange::Kind::kUnsatisfiable;

  Answer result = is_beyond ? error_answer(request, 416, "Range Not Satisfiable\n")
                            : begin(is_part ? 206 : 200);
  result.fields.emplace_back("Accept-Ranges", "bytes");
  if (plain->gzipped() != nullptr) result.fields.emplace_back("Vary", "Accept-Encoding");
  if (is_gzipped) result.fields.emplace_back("Content-Encoding", "gzip");
  if (!state->tag.empty()) result.fields.emplace_back("ETag", state->tag);
  if (is_beyond) {
    result.fields.emplace_back("Content-Range", fmt::format("bytes */{}", state->size));
    return result;
  }
  const std::uint64_t length = is_part ? range.length : state->size;
  if (is_part) {
    result.fields.emplace_back(
        "Content-Range",
        fmt::format("bytes {}-{}/{}", range.offset, range.offset + length - 1, state->size));
  }
  result.fields.emplace_back("Content-Type", resource->content_type());
  result.fields.emplace_back("Content-Length", std::to_string(length));
  if (request.is_head || length == 0) return result;
  result.resource = resource;
  result.offset = range.offset;
  result.length = length;
  return result;
}

}  // namespace

Answer answer(const Request& request, const Service& service) {
  if (request.is_ambiguous) return error_answer(request, 400, "Bad Request\n");
  if (request.has_content) {
    Answer result = error_answer(request, 413, "Content Too Large\n");
    // Bytes of the content must not be parsed as the next request (request smuggling).
    result.fields.emplace_back("Connection", "close");
    return result;
  }
  const auto name = name_in(request.target, service.token);
  if (!name || !is_our_name(request.host, service.port))
    return error_answer(request, 404, "Not Found\n");
  const std::string decoded = percent_decoded(*name);
  const auto resource = service.site.find(decoded.empty() ? "index.html" : decoded);
  Answer result = !resource   ? error_answer(request, 500, "Internal Server Error\n")
                  : *resource ? content_answer(request, *resource)
                              : error_answer(request, 404, "Not Found\n");
  result.is_authorized = true;
  return result;
}

}  // namespace espalier::serve
