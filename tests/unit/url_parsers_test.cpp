// Whether our URLs mean to libcurl what they mean to us. If they did not, a password could go to
// another host than the one that was compared.

#include <memory>
#include <string>
#include <string_view>

#include "support/random.h"
#include <curl/curl.h>
#include <doctest/doctest.h>

#include "http/ascii.h"
#include "http/url.h"

namespace espalier::http {
namespace {

struct FreeUrl {
  void operator()(CURLU* url) const noexcept { curl_url_cleanup(url); }
};

std::string part(CURLU* url, CURLUPart what, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url, what, &text, flags) != CURLUE_OK) return {};
  const std::unique_ptr<char, void (*)(void*)> owned(text, curl_free);
  return text;
}

TEST_CASE("libcurl reads our URLs as we do") {
  // What URLs are made of, and what parsers trip over.
  static constexpr std::string_view kPieces[] = {
      "http://", "https://", "HTTP://",     "://",      ":",         "//",    "/",
      "@",       "?",        "#",           "host",     "127.0.0.1", "[::1]", "[",
      "]",       ":80",      ":0443",       ":0",       ":99999",    "a.b",   "%2f",
      "%40",     "%",        "%00",         "\\",       "..",        "/../",  "/./",
      ".",       " ",        "user",        "user:pw@", "x=y",       "&",     "\t",
      "\x7F",    "\xC3\xBC", "localhost",   "0x7f.1",   "1.",        ";",     "!",
      "_",       "-",        "evil.example"};
  testing::Random random(38);
  int accepted = 0;
  for (int i = 0; i < 200'000; ++i) {
    std::string text = random.below(8) == 0 ? "" : random.below(2) == 0 ? "http://" : "https://";
    for (auto pieces = random.below(7); pieces > 0; --pieces) {
      text += kPieces[random.below(std::size(kPieces))];
    }
    const auto ours = random.below(2) == 0
                          ? parse_url(text)
                          : resolve_redirect(*parse_url("https://base:81/a/b?c"), text);
    if (!ours) continue;
    ++accepted;
    CAPTURE(text);
    CAPTURE(ours->text);
    const std::unique_ptr<CURLU, FreeUrl> theirs(curl_url());
    if (curl_url_set(theirs.get(), CURLUPART_URL, ours->text.c_str(), 0) != CURLUE_OK) {
      // An address of IPv6 that is none leads nowhere.
      REQUIRE(ours->host.front() == '[');
      continue;
    }
    REQUIRE(part(theirs.get(), CURLUPART_SCHEME) == ours->scheme);
    // libcurl writes addresses in rare forms in the usual one.
    const std::string host = lower(part(theirs.get(), CURLUPART_HOST));
    REQUIRE((host == ours->host || (is_digit(ours->host.front()) && is_digit(host.front()))));
    REQUIRE(part(theirs.get(), CURLUPART_PORT, CURLU_DEFAULT_PORT) == ours->port);
    REQUIRE(part(theirs.get(), CURLUPART_USER).empty());
    REQUIRE(ours->text.ends_with(ours->path));
    REQUIRE(ours->path.starts_with('/'));
    std::string path = part(theirs.get(), CURLUPART_PATH);
    const std::string query = part(theirs.get(), CURLUPART_QUERY);
    const bool is_bare = query.empty() && ours->path == path;
    path += "?";
    path += query;
    REQUIRE((is_bare || ours->path == path));
    // What is shown has no query, and is what is asked for otherwise.
    REQUIRE(ours->text.starts_with(ours->shown));
    REQUIRE(ours->shown.find_first_of("?#") == std::string::npos);
  }
  CHECK(accepted > 20'000);
}

}  // namespace
}  // namespace espalier::http
