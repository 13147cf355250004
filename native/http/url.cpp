#include "http/url.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <memory>

#include <arpa/inet.h>
#include <curl/curl.h>

namespace espalier::http {
namespace {

struct FreeUrl {
  void operator()(CURLU* url) const noexcept { curl_url_cleanup(url); }
};
struct FreeText {
  void operator()(char* text) const noexcept { curl_free(text); }
};
using CurlUrl = std::unique_ptr<CURLU, FreeUrl>;

tl::unexpected<Error> not_a_url() {
  return fail(ErrorCode::kInvalidArgument,
              "this is not a valid http or https URL; check it for missing or odd characters");
}

std::string part(CURLU* url, CURLUPart what, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url, what, &text, flags) != CURLUE_OK) return {};
  const std::unique_ptr<char, FreeText> owned(text);
  return owned.get();
}

Result<Url> take_apart(const CurlUrl& parsed) {
  Url url;
  url.scheme = part(parsed.get(), CURLUPART_SCHEME);
  // Stops a redirect to file:///etc/passwd, and to protocols that nothing here limits.
  if (url.scheme != "http" && url.scheme != "https") return not_a_url();
  url.host = part(parsed.get(), CURLUPART_HOST);
  std::transform(url.host.begin(), url.host.end(), url.host.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  url.port = part(parsed.get(), CURLUPART_PORT, CURLU_DEFAULT_PORT);
  url.user = part(parsed.get(), CURLUPART_USER, CURLU_URLDECODE);
  url.password = part(parsed.get(), CURLUPART_PASSWORD, CURLU_URLDECODE);
  for (const CURLUPart secret : {CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_FRAGMENT}) {
    curl_url_set(parsed.get(), secret, nullptr, 0);
  }
  url.text = part(parsed.get(), CURLUPART_URL);
  curl_url_set(parsed.get(), CURLUPART_QUERY, nullptr, 0);
  url.shown = part(parsed.get(), CURLUPART_URL);
  if (url.host.empty() || url.text.empty() || url.shown.empty()) return not_a_url();
  return url;
}

Result<CurlUrl> parse(const std::string& text) {
  CurlUrl parsed(curl_url());
  if (parsed == nullptr) return fail(ErrorCode::kOutOfMemory, "out of memory");
  if (curl_url_set(parsed.get(), CURLUPART_URL, text.c_str(), CURLU_URLENCODE) != CURLUE_OK) {
    return not_a_url();
  }
  return parsed;
}

// `location` as seen from `base`.
Result<Url> resolve(const Url& base, const std::string& location) {
  auto parsed = parse(base.text);
  if (!parsed) return propagate(parsed);
  const auto code = curl_url_set(parsed->get(), CURLUPART_URL, location.c_str(), CURLU_URLENCODE);
  if (code != CURLUE_OK) return not_a_url();
  return take_apart(*parsed);
}

}  // namespace

Result<Url> parse_url(std::string_view text) {
  // libcurl would read the text up to a zero.
  if (text.find('\0') != std::string_view::npos) return not_a_url();
  auto parsed = parse(std::string(text));
  if (!parsed) return propagate(parsed);
  return take_apart(*parsed);
}

Result<Url> resolve_redirect(const Url& base, const std::string& location) {
  auto url = resolve(base, location);
  if (!url) return url;
  url->user.clear();
  url->password.clear();
  return url;
}

Result<Url> sibling_url(const Url& url, const std::string& name) {
  const std::unique_ptr<char, FreeText> segment(
      curl_easy_escape(nullptr, name.data(), static_cast<int>(name.size())));
  if (segment == nullptr) return fail(ErrorCode::kOutOfMemory, "out of memory");
  auto sibling = resolve(url, std::string("./") + segment.get());
  if (!sibling) return sibling;
  // The user typed these for the folder's server.
  sibling->user = url.user;
  sibling->password = url.password;
  return sibling;
}

std::string file_name(const Url& url) {
  const auto parsed = parse(url.text);
  if (!parsed) return {};
  const std::string path = part(parsed->get(), CURLUPART_PATH);
  const std::unique_ptr<char, FreeText> name(
      curl_easy_unescape(nullptr, path.c_str() + path.rfind('/') + 1, 0, nullptr));
  return name == nullptr ? std::string() : name.get();
}

bool have_same_origin(const Url& a, const Url& b) {
  return a.scheme == b.scheme && a.host == b.host && a.port == b.port;
}

bool is_loopback(const Url& url) {
  if (url.host == "localhost" || url.host == "[::1]") return true;
  // Not by its first characters: 127.example.com is a name that anybody may own.
  std::array<unsigned char, 4> address{};
  return ::inet_pton(AF_INET, url.host.c_str(), address.data()) == 1 && address[0] == 127;
}

}  // namespace espalier::http
