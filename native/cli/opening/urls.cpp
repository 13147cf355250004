#include "cli/opening/urls.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "cli/terminal/interrupt.h"
#ifdef ESPALIER_URLS
#include "libcurl/curl_transfer.h"

#include "http/http_checkpoint.h"
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

Result<http::HttpOptions> options_of_urls() {
  auto options = http::HttpOptions::from_environment();
  if (options) options->is_cancelled = stop_reads;
  return options;
}

// What was opened last. Commands open files one after the other, in one thread.
struct Opened {
  std::string url;
  std::shared_ptr<const Source> source;
};

Result<std::shared_ptr<const Source>> open_or_reuse(const std::string& name, const http::Url& url,
                                                    const http::MakeTransfer& transfers,
                                                    const http::HttpOptions& options) {
  static Opened last;
  if (last.source != nullptr && last.url == name) return last.source;
  auto source = http::open_url(url, transfers, options);
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
  const auto http_options = options_of_urls();
  if (!http_options) return propagate(http_options);
  const auto transfers = http::curl_transfers();
  if (!transfers) return propagate(transfers);
  auto source = open_or_reuse(url, *parsed, *transfers, *http_options);
  if (!source) return propagate(source);
  return http::open_checkpoint(*parsed, std::move(*source), *transfers, *http_options,
                               std::move(options));
}

#else

Result<CheckpointFile> open_url(const std::string&, OpenFileOptions) {
  return fail(ErrorCode::kInvalidArgument,
              "this program was built without URLs; download the file first, or build it with "
              "libcurl");
}

#endif

}  // namespace espalier::cli
