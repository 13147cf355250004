#include "urls.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "interrupt.h"
#ifdef ESPALIER_URLS
#include "http/http_source.h"
#endif

namespace espalier::cli {
namespace {

constexpr std::string_view kSchemeEnd = "://";

// "https" of "HTTPS://host/file"; empty if there is no scheme.
std::string scheme_of(std::string_view name) {
  const std::size_t end = name.find(kSchemeEnd);
  if (end == std::string_view::npos) return {};
  std::string scheme(name.substr(0, end));
  for (char& c : scheme) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) == 0 && c != '+' && c != '-' && c != '.') return {};
    c = static_cast<char>(std::tolower(byte));
  }
  return scheme;
}

// Where a user name and a password may begin: after "://", also in a sentence, or after the scheme
// of a mistyped URL, "https:/user:password@host".
std::size_t begin_of_secrets(std::string_view name) {
  if (const std::size_t end = name.find(kSchemeEnd); end != std::string_view::npos) {
    return end + kSchemeEnd.size();
  }
  const std::size_t colon = name.find(':');
  const std::string url = std::string(name.substr(0, colon)) + std::string(kSchemeEnd);
  return colon == std::string_view::npos || scheme_of(url).empty() ? std::string_view::npos
                                                                   : colon + 1;
}

#ifdef ESPALIER_URLS

// The environment can say how long to wait: links to some archives take minutes.
Result<unsigned> timeout_of(const http::HttpOptions& defaults) {
  const char* text = std::getenv("ESPALIER_HTTP_TIMEOUT");
  if (text == nullptr || *text == '\0') return defaults.timeout;
  unsigned seconds = 0;
  const char* const last = text + std::string_view(text).size();
  const auto [end, error] = std::from_chars(text, last, seconds);
  if (error == std::errc() && end == last && seconds > 0 && seconds <= 3600) return seconds;
  return fail(ErrorCode::kInvalidArgument,
              "the variable ESPALIER_HTTP_TIMEOUT is not a number of seconds from 1 to 3600");
}

Result<std::shared_ptr<const Source>> open_source_at(const http::Url& url,
                                                     http::HttpOptions options = {}) {
  options.is_cancelled = stop_reads;
  auto timeout = timeout_of(options);
  if (!timeout) return propagate(timeout);
  options.timeout = *timeout;
  return http::open_url(url, options);
}

// What was opened last. Commands open files one after the other, in one thread.
struct Opened {
  std::string url;
  std::shared_ptr<const Source> source;
};

Result<std::shared_ptr<const Source>> open_or_reuse(const std::string& name, const http::Url& url) {
  static Opened last;
  if (last.source != nullptr && last.url == name) return last.source;
  auto source = open_source_at(url);
  if (source) last = {name, *source};
  return source;
}

#endif

}  // namespace

bool is_url(std::string_view name) {
  const std::string scheme = scheme_of(name);
  return scheme == "http" || scheme == "https";
}

std::string shown_name(std::string_view name) {
  const std::size_t secrets = begin_of_secrets(name);
  std::error_code error;
  if (secrets == std::string_view::npos ||
      (!is_url(name) && std::filesystem::exists(name, error))) {
    return std::string(name);
  }
  const std::size_t query = is_url(name) ? name.find_first_of("?#") : std::string_view::npos;
  const std::string head(name.substr(0, secrets));
  const std::size_t at = name.rfind('@');
  if (at == std::string_view::npos || at < secrets) return std::string(name.substr(0, query));
  // A password may hold any characters, so all up to the last '@' may be one.
  if (at > query) return head + "[...]";
  const std::string_view hidden = name.substr(secrets, at - secrets);
  const bool is_plain =
      head.ends_with(kSchemeEnd) && hidden.find_first_of("/?#") == std::string_view::npos;
  return head + (is_plain ? "" : "[...]@") + std::string(name.substr(at + 1, query - at - 1));
}

Result<void> check_scheme(const std::string& name) {
  std::error_code error;
  const std::string scheme = scheme_of(name);
  if (scheme.empty() || is_url(name) || std::filesystem::exists(name, error)) return {};
  return fail(ErrorCode::kInvalidArgument,
              "URLs that begin with " + scheme +
                  ":// cannot be read, only http and https; download the file first");
}

#ifdef ESPALIER_URLS

Result<CheckpointFile> open_url(const std::string& url, OpenFileOptions options) {
  const auto parsed = http::parse_url(url);
  if (!parsed) return propagate(parsed);
  auto source = open_or_reuse(url, *parsed);
  if (!source) return propagate(source);
  // The threads mostly wait for the network, so there may be more of them than CPUs.
  constexpr unsigned kThreads = 8;
  if (options.threads == 0) options.threads = kThreads;
  options.name = http::file_name(*parsed);
  // One of many, so its header is short.
  http::HttpOptions shard;
  shard.head_bytes = std::uint64_t{256} << 10;
  options.sibling = [&](const std::string& name) -> Result<std::shared_ptr<const Source>> {
    const auto beside = http::sibling_url(*parsed, name);
    return beside ? open_source_at(*beside, shard) : propagate(beside);
  };
  options.sibling_threads = kThreads;
  return CheckpointFile::open(std::move(*source), options);
}

#else

Result<CheckpointFile> open_url(const std::string&, OpenFileOptions) {
  return fail(ErrorCode::kInvalidArgument,
              "this program was built without URLs; download the file first, or build it with "
              "libcurl");
}

#endif

}  // namespace espalier::cli
