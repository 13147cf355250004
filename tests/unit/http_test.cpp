// What files on web servers are read with, without a server: URLs, headers, and which bytes are
// asked for.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "support/random.h"
#include <doctest/doctest.h>

#include "http/block_cache.h"
#include "http/credentials.h"
#include "http/response_headers.h"
#include "http/url.h"

namespace espalier::http {
namespace {

using Line = ResponseHeaders::Line;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

TEST_CASE("URLs are taken apart") {
  const auto url = parse_url("HTTPS://me:a%20b@Host.Example/a%2fb/model 1.bin?token=x#part");
  REQUIRE(url);
  CHECK(url->text == "https://Host.Example/a%2fb/model%201.bin?token=x");
  CHECK(url->shown == "https://Host.Example/a%2fb/model%201.bin");
  CHECK(url->host == "host.example");
  CHECK(url->port == "443");
  CHECK(url->user == "me");
  CHECK(url->password == "a b");
  using namespace std::string_view_literals;
  for (const auto text :
       {""sv, "host/x"sv, "file:///etc/passwd"sv, "ftp://host/x"sv, "http://"sv, "http://a b/"sv,
        "http://[::1/x"sv, "http://[1]/"sv, "http://host:0/"sv, "http://host:80x/"sv,
        "http://me@you@host/"sv, "http://host%2eevil/"sv, "http://host\\@evil/"sv, "http://a,b/"sv,
        "http://me:%zz@host/"sv, "http://me:%0d@host/"sv, "http://host/a\r\nb"sv,
        "http://host:99999/"sv, "http://host\0.evil/x"sv}) {
    CAPTURE(text);
    CHECK_FALSE(parse_url(text));
  }
}

TEST_CASE("redirects lead to http and https alone, and choose no user") {
  const auto base = *parse_url("https://me:secret@host/a/b?x");
  CHECK(resolve_redirect(base, "../c?y")->text == "https://host/c?y");
  CHECK(resolve_redirect(base, "//other/c")->text == "https://other/c");
  CHECK(resolve_redirect(base, "/c/./d/../../e/..")->text == "https://host/");
  CHECK(resolve_redirect(base, "?y")->text == "https://host/a/b?y");
  CHECK(resolve_redirect(base, "../../../etc")->text == "https://host/etc");
  CHECK(resolve_redirect(base, "http://you:word@other/c")->user.empty());
  CHECK(resolve_redirect(base, "http://you:word@other/c")->text == "http://other/c");
  for (const char* location :
       {"file:///etc/passwd", "ftp://host/", "gopher://x/", "http://", "javascript:x"}) {
    CAPTURE(location);
    const auto url = resolve_redirect(base, location);
    CHECK((!url || url->host == "host"));
    CHECK((!url || url->scheme == "https"));
  }
}

TEST_CASE("a URL's file has a name") {
  const auto name_of = [](const char* url) { return file_name(*parse_url(url)); };
  CHECK(name_of("https://me:pw@host/a/m-00001-of-00002.gguf?token=a/b#c/d") ==
        "m-00001-of-00002.gguf");
  CHECK(name_of("https://host/a%20b%2Fc%25") == "a b/c%");
  CHECK(name_of("https://host/a/").empty());
  CHECK(name_of("https://host").empty());
}

TEST_CASE("siblings stay in the folder") {
  const auto base = *parse_url("https://me:secret@host/a/index.json?signature=x");
  for (const char* name :
       {"..", "../x", "d/../../x", "d/.", "//other/x", "http://other/x", "/x", "d/"}) {
    CAPTURE(name);
    CHECK_FALSE(sibling_url(base, name));
  }
  CHECK(sibling_url(base, "d/a b")->text == "https://host/a/d/a%20b");
  CHECK(sibling_url(base, "model-1.safetensors")->text == "https://host/a/model-1.safetensors");
  CHECK(sibling_url(base, "model-1.safetensors")->user == "me");
  for (const char* name : {"a?b=c", "a#b", "%2e%2e", "..\\x", "x:y", " "}) {
    CAPTURE(name);
    const auto url = sibling_url(base, name);
    REQUIRE(url);
    CHECK(url->host == "host");
    CHECK(url->text.starts_with("https://host/a/"));
    CHECK(url->text.find('/', std::string("https://host/a/").size()) == std::string::npos);
    CHECK(url->text == url->shown);
  }
}

TEST_CASE("origins and this machine") {
  const auto url = [](const char* text) { return *parse_url(text); };
  CHECK(have_same_origin(url("https://host/a"), url("HTTPS://HOST:443/b?c")));
  CHECK_FALSE(have_same_origin(url("https://host/a"), url("http://host:443/a")));
  CHECK_FALSE(have_same_origin(url("https://host/a"), url("https://host:444/a")));
  CHECK_FALSE(have_same_origin(url("https://host/a"), url("https://host.example/a")));
  for (const char* text : {"http://localhost/", "http://LOCALHOST:1/", "http://127.0.0.1/",
                           "http://127.9.9.9/", "http://[::1]/"}) {
    CHECK(is_loopback(url(text)));
  }
  for (const char* text : {"http://127.0.0.1.example/", "http://128.0.0.1/",
                           "http://localhost.example/", "http://[::2]/", "http://10.0.0.1/"}) {
    CHECK_FALSE(is_loopback(url(text)));
  }
}

TEST_CASE("Content-Range") {
  CHECK(parse_content_range("bytes 0-99/1000") == ContentRange{0, 100, 1000});
  CHECK(parse_content_range("Bytes 5-5/6") == ContentRange{5, 6, 6});
  CHECK(parse_content_range("bytes 5-5/*") == ContentRange{5, 6, {}});
  CHECK(parse_content_range("bytes */7") == ContentRange{0, 0, 7});
  CHECK(parse_content_range("bytes 0-9223372036854775805/9223372036854775807"));
  for (const char* text :
       {"", "bytes", "bytes ", "bytes 0-9", "bytes 0-9/", "bytes 9-0/10", "bytes 0-10/10",
        "bytes -1-5/10", "bytes 0-+5/10", "bytes 0-5/10, bytes 0-5/10", "bytes 0-5/10 ",
        "bits 0-5/10", "bytes=0-5/10", "bytes 0-18446744073709551615/*",
        "bytes 0-9223372036854775807/*", "bytes 0-5/99999999999999999999", "bytes a-b/c",
        "bytes 0 - 5 / 10"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_content_range(text));
  }
}

TEST_CASE("Retry-After") {
  using std::chrono::seconds;
  CHECK(parse_retry_after("7", 0) == seconds(7));
  CHECK(parse_retry_after("Thu, 01 Jan 1970 00:01:40 GMT", 40) == seconds(60));
  CHECK(parse_retry_after("Thu, 01 Jan 1970 00:01:40 GMT", 100) == seconds(0));
  CHECK(parse_retry_after("Tue, 29 Feb 2028 23:59:60 GMT", 1835481000) == seconds(600));
  for (const char* text : {"Tue, 30 Feb 2028 00:00:00 GMT", "Tue, 01 anF 2028 00:00:00 GMT",
                           "Tue, 01 Feb 2028 24:00:00 GMT", "Tue, 01 Feb 2028 00:00:00 +00"}) {
    CHECK(parse_retry_after(text, 0) == seconds(0));
  }
  CHECK(parse_retry_after("9223372036854775807", 0) == seconds(365 * 24 * 3600));
  for (const char* text : {"", "soon", "-5", "99999999999999999999999"}) {
    CHECK(parse_retry_after(text, 0) == seconds(0));
  }
}

TEST_CASE("headers of a response") {
  ResponseHeaders headers;
  for (const char* line :
       {"HTTP/1.1 100 Continue\r\n", "ETag: \"interim\"\r\n", "\r\n", "HTTP/1.1 206 OK\r\n",
        "eTAG:\"one\" \r\n", "Content-Length: 12\r\n", "X: y\r\n", "no colon\r\n", "\r\n"}) {
    REQUIRE(headers.add_line(line) == Line::kTaken);
  }
  CHECK(headers.strong_etag() == "\"one\"");
  CHECK(headers.content_length() == 12);
  // Trailers come after the bytes that they would describe.
  headers.end();
  REQUIRE(headers.add_line("ETag: \"two\"\r\n") == Line::kTaken);
  CHECK(headers.strong_etag() == "\"one\"");

  ResponseHeaders weak;
  REQUIRE(weak.add_line("ETag: W/\"one\"") == Line::kTaken);
  REQUIRE(weak.add_line("Content-Range: bytes 0-1/2") == Line::kTaken);
  REQUIRE(weak.add_line("Content-Range: bytes 0-1/2") == Line::kTaken);
  CHECK(weak.strong_etag().empty());
  CHECK_FALSE(parse_content_range(weak.content_range()));
}

TEST_CASE("headers without end") {
  ResponseHeaders headers;
  std::size_t lines = 0;
  // Interim responses must not begin the count anew.
  while (headers.add_line(lines % 2 == 0 ? "HTTP/1.1 100 Continue\r\n" : "Location: /x\r\n") ==
         Line::kTaken) {
    ++lines;
  }
  CHECK(lines < ResponseHeaders::kMaxBytes);
  CHECK(headers.location().size() < ResponseHeaders::kMaxBytes);
}

TEST_CASE("headers that are changed at random") {
  const std::string good =
      "HTTP/1.1 206 OK\r\nContent-Range: bytes 0-99/1000\r\nContent-Length: 100\r\nETag: "
      "\"one\"\r\n"
      "Retry-After: Wed, 21 Oct 2015 07:28:00 GMT\r\nLocation: https://host/x\r\n";
  const auto base = *parse_url("https://host/a");
  testing::Random random(7);
  for (int i = 0; i < 20'000; ++i) {
    std::string text = good;
    for (auto changes = random.below(8) + 1; changes > 0; --changes) {
      text[random.below(text.size())] = static_cast<char>(random.below(256));
    }
    ResponseHeaders headers;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
      REQUIRE(headers.add_line(std::string_view(text).substr(at, end - at)) != Line::kTooLong);
      at = end;
    }
    if (const auto range = parse_content_range(headers.content_range())) {
      CHECK(range->begin <= range->end);
      CHECK((!range->total || range->end <= *range->total));
    }
    CHECK(parse_retry_after(headers.retry_after(), 0).count() >= 0);
    if (const auto url = resolve_redirect(base, headers.location())) {
      CHECK((url->scheme == "http" || url->scheme == "https"));
      CHECK(url->user.empty());
    }
  }
}

TEST_CASE("headers of the user's go to one server, and decide nothing of a request") {
  const auto url = *parse_url("http://host.example/a");
  const auto policy = CredentialPolicy::make(url, {{"X-Api-Key", "s3cret"}});
  REQUIRE(policy);
  CHECK(policy->for_request(*parse_url("http://host.example/b")).headers.size() == 1);
  for (const char* other : {"https://host.example/a", "http://host.example:81/a",
                            "http://other.example/a", "http://host.example.evil/a"}) {
    CHECK(policy->for_request(*parse_url(other)).headers.empty());
  }
  for (const Header& header : {Header{"Range", "bytes=0-1"}, Header{"ACCEPT-ENCODING", "gzip"},
                               Header{"Host", "other"}, Header{"Transfer-Encoding", "chunked"},
                               Header{"X", "a\r\nHost: b"}, Header{"X Y", "z"}, Header{"", "z"}}) {
    CAPTURE(header.name);
    const auto refused = CredentialPolicy::make(url, {header});
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == ErrorCode::kInvalidArgument);
    CHECK(refused.error().message.find("bytes=0-1") == std::string::npos);
  }
}

// A file whose bytes tell their offset, and what is asked of it.
struct FakeFile {
  std::mutex mutex;
  std::vector<ByteRange> asked;
  std::atomic<int> failures = 0;

  static std::byte at(std::uint64_t offset) {
    return static_cast<std::byte>(offset * 31 + offset / 256);
  }

  BlockCache::File file() {
    const auto fetch = [this](const ByteRange& range) -> Result<std::vector<std::byte>> {
      {
        const std::lock_guard lock(mutex);
        asked.push_back(range);
      }
      if (failures.fetch_sub(1) > 0) return fail(ErrorCode::kIoError, "the network is down");
      std::vector<std::byte> bytes(static_cast<std::size_t>(range.length()));
      for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = at(range.begin + i);
      return bytes;
    };
    return {fetch, [] { return false; }};
  }
};

bool reads(BlockCache& cache, std::uint64_t begin, std::uint64_t end) {
  std::vector<std::byte> out(static_cast<std::size_t>(end - begin));
  if (!cache.read(begin, out)) return false;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (out[i] != FakeFile::at(begin + i)) return false;
  }
  return true;
}

TEST_CASE("single reads fetch exactly what they ask for, once") {
  FakeFile file;
  BlockCache cache(1000, 100 * kMiB, file.file());
  CHECK(reads(cache, 5 * kMiB, 6 * kMiB));
  CHECK(reads(cache, 50 * kMiB, 50 * kMiB + 10));
  CHECK(reads(cache, 20 * kMiB, 25 * kMiB));
  CHECK(reads(cache, 5 * kMiB + 7, 5 * kMiB + 9));
  CHECK(file.asked == std::vector<ByteRange>{{5 * kMiB, 6 * kMiB},
                                             {50 * kMiB, 50 * kMiB + 10},
                                             {20 * kMiB, 25 * kMiB}});
}

TEST_CASE("what was announced is fetched together") {
  FakeFile file;
  BlockCache cache(1000, 10 * kMiB, file.file());
  cache.plan({0, 5000});                            // partly before the cache's begin
  cache.plan({4000, 8000});                         // partly announced
  cache.plan({10 * kMiB - 10, ~std::uint64_t{0}});  // beyond the end
  CHECK(file.asked.empty());
  for (std::uint64_t at = 1000; at < 8000; at += 100) CHECK(reads(cache, at, at + 100));
  CHECK(reads(cache, 10 * kMiB - 5, 10 * kMiB));
  CHECK(file.asked ==
        std::vector<ByteRange>{{1000, 5000}, {5000, 8000}, {10 * kMiB - 10, 10 * kMiB}});
}

TEST_CASE("reads that follow each other take few requests") {
  FakeFile file;
  BlockCache cache(0, 20 * kMiB, file.file());
  for (std::uint64_t at = 0; at < 20 * kMiB; at += 4096) REQUIRE(reads(cache, at, at + 4000));
  CHECK(file.asked.size() < 20);
  CHECK(file.asked.back().end == 20 * kMiB);
  FakeFile other;
  BlockCache expected(0, 20 * kMiB, other.file());
  expected.expect_sequence(true);
  CHECK(reads(expected, 0, 10));
  CHECK(other.asked == std::vector<ByteRange>{{0, BlockCache::kMaxBlock}});
}

TEST_CASE("a failed block is fetched again by a later read") {
  FakeFile file;
  file.failures = 1;
  BlockCache cache(0, kMiB, file.file());
  cache.plan({0, 1000});
  CHECK_FALSE(reads(cache, 0, 10));
  CHECK(reads(cache, 0, 10));
}

TEST_CASE("a thread that is cancelled does not end another's wait for the same block") {
  std::atomic<int> fetches = 0;
  std::atomic<int> polls = 0;
  const auto fetch = [&](const ByteRange& range) -> Result<std::vector<std::byte>> {
    if (fetches.fetch_add(1) > 0) {
      return std::vector<std::byte>(static_cast<std::size_t>(range.length()));
    }
    // Until the other thread waits.
    while (polls == 0) std::this_thread::yield();
    return fail(ErrorCode::kCancelled, "interrupted");
  };
  BlockCache cache(0, kMiB, {fetch, [&] { return ++polls < 0; }});
  std::vector<std::byte> first(10);
  std::vector<std::byte> second(10);
  std::thread cancelled([&] { CHECK_FALSE(cache.read(0, first)); });
  while (fetches == 0) std::this_thread::yield();
  CHECK(cache.read(0, second));
  cancelled.join();

  // And one that is cancelled waits for no other.
  std::atomic<bool> is_over = false;
  std::atomic<bool> has_begun = false;
  const auto hang = [&](const ByteRange& range) -> Result<std::vector<std::byte>> {
    has_begun = true;
    while (!is_over) std::this_thread::yield();
    return std::vector<std::byte>(static_cast<std::size_t>(range.length()));
  };
  BlockCache hanging(0, kMiB, {hang, [] { return true; }});
  std::thread waits([&] { CHECK(hanging.read(0, first)); });
  while (!has_begun) std::this_thread::yield();
  const auto given_up = hanging.read(0, second);
  REQUIRE_FALSE(given_up);
  CHECK(given_up.error().code == ErrorCode::kCancelled);
  is_over = true;
  waits.join();
}

TEST_CASE("random reads from many threads are right, in bounded memory") {
  FakeFile file;
  constexpr std::uint64_t kSize = 80 * kMiB;
  BlockCache cache(kMiB, kSize, file.file());
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&, seed] {
      testing::Random random(seed);
      for (int i = 0; i < 300; ++i) {
        const std::uint64_t begin = kMiB + random.below(kSize - kMiB);
        const std::uint64_t end =
            std::min(kSize, begin + random.below(i % 50 == 0 ? 3 * kMiB : 20'000));
        if (i % 3 == 0) cache.plan({begin, end});
        if (i % 100 == 0) cache.expect_sequence(i % 200 == 0);
        if (!reads(cache, begin, end)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(std::all_of(file.asked.begin(), file.asked.end(), [](const ByteRange& range) {
    return range.begin >= kMiB && range.begin < range.end && range.end <= kSize;
  }));
}

}  // namespace
}  // namespace espalier::http
