// Sends the input to the server of `espalier view`, in pieces of several sizes. How it comes must
// not matter, and without the secret nothing comes back.
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz.h"
#include "serve/connection.h"
#include "serve/resource.h"
#include "serve/site.h"

namespace espalier::fuzz {
namespace {

constexpr std::string_view kContent = "what is secret";

// All that a connection answers to `text`, which comes and is taken in such pieces.
std::string answers(const serve::Service& service, std::string_view text, std::size_t piece) {
  using State = serve::Connection::State;
  serve::Connection connection(service);
  std::vector<std::byte> scratch(piece);
  std::string out;
  while (connection.state() != State::kDone) {
    if (connection.state() == State::kReading) {
      if (text.empty()) break;
      const std::size_t size = std::min(text.size(), piece);
      connection.feed(text.substr(0, size));
      text.remove_prefix(size);
      continue;
    }
    const auto next = connection.next(scratch);
    require(next && !next->empty(), "a connection that writes has nothing to write");
    const std::string_view sent = as_text(*next).substr(0, piece);
    out += sent;
    connection.sent(sent.size());
  }
  return out;
}

}  // namespace
}  // namespace espalier::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  using namespace espalier::fuzz;
  const std::vector<std::byte> input = copy_input(data, size);
  const std::string_view text = as_text(input);
  serve::Site site;
  site.add("index.html", std::make_unique<serve::TextResource>("text/html", std::string(kContent)));
  site.add("a b", std::make_unique<serve::TextResource>("text/plain", std::string()));
  const serve::Service service{site, "token", 1};

  const std::string whole = answers(service, text, serve::Connection::kMaxHead);
  require(whole.empty() || whole.starts_with("HTTP/1.1 "), "an answer is none");
  require(text.find("/token/") != text.npos || whole.find("HTTP/1.1 20") == whole.npos,
          "somebody without the secret gets an answer");
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{1000}}) {
    require(answers(service, text, piece) == whole, "pieces of another size, another answer");
  }
  return 0;
}
