// Responses of HTTP/1.1, as good servers and hostile ones send them, in parts of any size.

#include "http/response_reader.h"

#include <cstdint>
#include <string>
#include <string_view>

#include "support/random.h"
#include <doctest/doctest.h>

namespace espalier::http {
namespace {

using End = Response::End;

constexpr std::uint64_t kLimit = 10;  // bytes of a body

struct Outcome {
  End end = End::kNoResponse;
  long status = 0;
  std::string body;
  bool may_go_on = false;
  bool is_transient = false;

  friend bool operator==(const Outcome&, const Outcome&) = default;
};

const TransferLimits& limits() {
  static const TransferLimits kLimits{
      .body_bytes = [](long, const ResponseHeaders&) { return kLimit; },
      .timeout = 1,
      .is_cancelled = {}};
  return kLimits;
}

Outcome outcome_of(ResponseReader& reader) {
  const Response& response = reader.response();
  const auto* const body = reinterpret_cast<const char*>(response.body.data());
  return {response.end, response.status, std::string(body, response.body.size()),
          reader.may_go_on(), response.is_transient};
}

// What comes of these bytes, after which the connection ends. Whatever their parts, the outcome
// must be the same, except for what stands behind the response: its bytes may come after it.
Outcome read(std::string_view bytes) {
  ResponseReader whole(limits());
  if (whole.feed(bytes)) whole.end("", true);
  ResponseReader single(limits());
  std::size_t taken = 0;
  while (taken < bytes.size() && single.feed(bytes.substr(taken, 1))) ++taken;
  if (!single.is_ended()) single.end("", true);
  Outcome outcome = outcome_of(whole);
  Outcome by_bytes = outcome_of(single);
  if (taken + 1 < bytes.size()) by_bytes.may_go_on = outcome.may_go_on;
  CHECK(outcome == by_bytes);
  return outcome;
}

TEST_CASE("good responses") {
  const Outcome good{End::kComplete, 206, "12345", true};
  CHECK(read("HTTP/1.1 206 Partial Content\r\nContent-Length: 5\r\n\r\n12345") == good);
  CHECK(read("HTTP/1.1 206\nContent-Length:5\n\n12345") == good);
  CHECK(read("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nContent-Length: 99\r\n\r\n"
             "HTTP/1.1 206 OK\r\nContent-Length: 5\r\n\r\n12345") == good);
  CHECK(read("HTTP/1.1 206 OK\r\nTransfer-Encoding: Chunked\r\n\r\n2\r\n12\r\n03;x=y\r\n345\r\n"
             "0\r\nETag: \"late\"\r\n\r\n") == good);
  CHECK(read("HTTP/1.1 204 OK\r\n\r\n") == Outcome{End::kComplete, 204, "", true});
  CHECK(read("HTTP/1.1 404 OK\r\nContent-Length: 5\r\n\r\n12345") ==
        Outcome{End::kComplete, 404, "", true});
}

TEST_CASE("connections that serve no other request") {
  const Outcome last{End::kComplete, 206, "12345", false};
  CHECK(read("HTTP/1.0 206 OK\r\nContent-Length: 5\r\n\r\n12345") == last);
  CHECK(read("HTTP/1.1 206 OK\r\nConnection: x, Close\r\nContent-Length: 5\r\n\r\n12345") == last);
  CHECK(read("HTTP/1.1 206 OK\r\n\r\n12345") == last);
  // Bytes that nobody has asked for would begin the next response.
  CHECK(read("HTTP/1.1 206 OK\r\nContent-Length: 5\r\n\r\n12345HTTP/1.1 200 OK\r\n\r\n") == last);
  CHECK(read("HTTP/1.1 101 Upgrade\r\n\r\nanything") == Outcome{End::kComplete, 101, "", false});
}

TEST_CASE("bodies that are longer or shorter than they should be") {
  const std::string more(kLimit + 1, 'x');
  const Outcome longer{End::kLonger, 200, more.substr(1)};
  CHECK(read("HTTP/1.1 200 OK\r\n\r\n" + more) == longer);
  CHECK(read("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n" + more) == longer);
  CHECK(read("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffff\r\n" + more) ==
        longer);
  CHECK(read("HTTP/1.1 206 OK\r\nContent-Length: 5\r\n\r\n123") ==
        Outcome{End::kBroken, 206, "123", false, true});
  CHECK(read("HTTP/1.1 206 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n") ==
        Outcome{End::kBroken, 206, "12345", false, true});
}

TEST_CASE("what is not HTTP, or means two things") {
  for (const char* text : {"\r\nHTTP/1.1 200 OK\r\n\r\n", "HTTP/2 200 OK\r\n\r\n",
                           "HTTP/1.1 20 \r\n", "HTTP/1.1 2000\r\n", "HTTP/1.1 -20 x\r\n",
                           "HTTP/1.1  200\r\n", "ICY 200 OK\r\n\r\n", "{}\n"}) {
    CAPTURE(text);
    CHECK(read(text) == Outcome{End::kNoResponse, 0, ""});
  }
  CHECK(read("") == Outcome{End::kNoResponse, 0, "", false, true});
  CHECK(read("HTTP/1.1 206 OK\r\nContent-") == Outcome{End::kNoResponse, 0, "", false, true});
  using namespace std::string_view_literals;
  for (const auto headers :
       {"Content-Length: 5\r\nContent-Length: 6"sv, "Content-Length: +5"sv, "Content-Length: 0x5"sv,
        "Content-Length: 5_0"sv, "Content-Length: -5"sv, "Content-Length: 5 5"sv,
        "Content-Length: 99999999999999999999"sv, "Transfer-Encoding: gzip, chunked"sv,
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"sv,
        "Transfer-Encoding: chunked\r\nContent-Length: 5"sv, "X: y\r\n Content-Length: 5"sv,
        "X: y\r\n\tz"sv, "X: \0"sv, "X: y\rContent-Length: 5"sv, "X: y\r\nHTTP/1.1 206 OK"sv}) {
    CAPTURE(headers);
    CHECK(read("HTTP/1.1 206 OK\r\n" + std::string(headers) + "\r\n\r\n12345").end ==
          End::kBadHeaders);
  }
  for (const char* chunks :
       {"5 x\r\n12345\r\n0\r\n\r\n", "x\r\n", "-5\r\n", "+5\r\n", "0x5\r\n", "\r\n", "1_0\r\n",
        "5\r\n123456\r\n", "fffffffffffffffff\r\n", "0\r\n folded: x\r\n\r\n"}) {
    CAPTURE(chunks);
    const End end =
        read("HTTP/1.1 206 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + std::string(chunks)).end;
    // An extension after a space is none of our business.
    CHECK(end == (chunks[1] == ' ' ? End::kComplete : End::kBadChunks));
  }
}

// How many bytes are read of a start, and of what follows again and again.
std::size_t bytes_taken(std::string_view start, std::string_view again, End expected) {
  ResponseReader reader(limits());
  std::size_t taken = start.size();
  bool goes_on = reader.feed(start);
  while (goes_on && taken < (std::size_t{1} << 24)) {
    taken += again.size();
    goes_on = reader.feed(again);
  }
  CHECK(reader.is_ended());
  CHECK(reader.response().end == expected);
  return taken;
}

TEST_CASE("floods") {
  constexpr std::size_t kMost = ResponseHeaders::kMaxBytes + 100;
  const std::string_view head = "HTTP/1.1 206 OK\r\n";
  const std::string chunked = std::string(head) + "Transfer-Encoding: chunked\r\n\r\n";
  CHECK(bytes_taken(head, "X-Flood: x\r\n", End::kHeaderFlood) < kMost);
  CHECK(bytes_taken(head, "x", End::kHeaderFlood) < kMost);
  CHECK(bytes_taken("", "HTTP/1.1 100 Continue\r\n\r\n", End::kHeaderFlood) < kMost);
  CHECK(bytes_taken(chunked + "0\r\n", "X-Flood: x\r\n", End::kHeaderFlood) < kMost);
  CHECK(bytes_taken(chunked + "0\r\n", "x", End::kHeaderFlood) < kMost);
  CHECK(bytes_taken(chunked + "1", ";x", End::kHeaderFlood) < kMost);
  const std::string chunk = "1;" + std::string(20'000, 'x') + "\r\ny\r\n";
  CHECK(bytes_taken(chunked, chunk, End::kHeaderFlood) < kMost + chunk.size());
  CHECK(bytes_taken("HTTP/1.1 302 OK\r\n\r\n", "x", End::kLonger) < kMost);
}

TEST_CASE("responses that are changed at random end, and in the same way whatever their parts") {
  testing::Random random(3);
  for (int i = 0; i < 20'000; ++i) {
    std::string text =
        random.below(2) == 0
            ? "HTTP/1.1 206 OK\r\nContent-Length: 5\r\nX: y\r\n\r\n12345"
            : "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a\r\n12\r\n3\r\n"
              "345\r\n0\r\nX: y\r\n\r\n";
    for (auto changes = random.below(4); changes > 0; --changes) {
      const std::size_t at = random.below(text.size());
      if (random.below(2) == 0) {
        text[at] = static_cast<char>(random.below(256));
      } else {
        text.insert(at, 1, "\r\n:; \t0fx"[random.below(10)]);
      }
    }
    CAPTURE(text);
    CHECK(read(text).body.size() <= kLimit);
  }
}

}  // namespace
}  // namespace espalier::http
