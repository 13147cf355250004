// Sends requests to the server of `espalier view`. The input is a method, a target and the fields
// Host, Range and If-Range, one per line, as evhttp passes them. Without the secret nothing is
// revealed, and an answer has exactly the content that it announces.
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz.h"

#include "serve/answer.h"
#include "serve/byte_range.h"
#include "serve/request.h"
#include "serve/resource.h"
#include "serve/site.h"
#include "serve/url.h"

namespace espalier::fuzz {
namespace {

constexpr std::string_view kContent = "what is secret";

std::string_view take_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

// The value of the one field of that name; empty if there is none.
std::string_view field_of(const serve::Answer& answer, std::string_view name) {
  std::string_view found;
  for (const auto& [key, value] : answer.fields) {
    if (key != name) continue;
    require(found.empty(), "a field stands twice in an answer");
    found = value;
  }
  return found;
}

void check_range(std::string_view field, std::uint64_t size) {
  const serve::ByteRange range = serve::choose_range(field, size);
  if (range.kind != serve::ByteRange::Kind::kPart) return;
  require(range.length > 0 && range.offset < size && range.length <= size - range.offset,
          "a part lies outside");
}

void check_answer(const serve::Request& request, const serve::Answer& answer) {
  const bool is_good = answer.status == 200 || answer.status == 206;
  require(!is_good || (request.target.starts_with("/token/") && request.host == "localhost:1") ||
              (request.target.starts_with("/token/") && request.host == "127.0.0.1:1"),
          "a client without the secret gets an answer");
  require(!is_good || (!request.has_content && !request.is_ambiguous), "nonsense is answered");
  require(!field_of(answer, "Content-Security-Policy").empty(), "an answer has no policy");
  for (const auto& [key, value] : answer.fields) {
    require(value.find_first_of("\r\n") == value.npos, "a field is two");
  }
  if (answer.resource != nullptr) {
    require(is_good && answer.text.empty(), "an answer has two contents");
    require(answer.length > 0 && answer.offset + answer.length <= kContent.size(),
            "an answer goes beyond its content");
  }
  const std::size_t length = answer.resource != nullptr ? answer.length : answer.text.size();
  if (request.is_head) {
    require(length == 0, "HEAD has content");
  } else {
    require(field_of(answer, "Content-Length") == std::to_string(length), "a length is wrong");
  }
}

}  // namespace
}  // namespace espalier::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  using namespace espalier::fuzz;
  const std::vector<std::byte> input = copy_input(data, size);
  std::string_view text = as_text(input);
  serve::Site site;
  site.add("index.html", std::make_unique<serve::TextResource>("text/html", std::string(kContent)));
  site.add("a b", std::make_unique<serve::TextResource>("text/plain", std::string()));
  const serve::Service service{site, "token", 1};

  serve::Request request;
  request.is_head = take_line(text) == "HEAD";
  request.target = take_line(text);
  request.host = take_line(text);
  request.range = take_line(text);
  request.if_range = take_line(text);
  request.has_content = text.starts_with('c');
  request.is_ambiguous = text.starts_with('a');
  check_answer(request, serve::answer(request, service));
  for (const std::uint64_t length : {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}}) {
    check_range(request.range, length);
  }
  require(serve::percent_decoded(serve::percent_encoded(request.target)) == request.target,
          "an escaped name is another one");
  return 0;
}
