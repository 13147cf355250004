// Parses text as a key path and as a pattern. The input is a pattern, a line feed, and a path.
#include <string>
#include <string_view>

#include "fuzz.h"

#include "espalier/tree/key_path.h"
#include "espalier/tree/pattern.h"

namespace espalier::fuzz {
namespace {

void check_path(std::string_view text) {
  const auto path = KeyPath::parse(text);
  if (!path) return;
  require(path->to_string() == text, "a key path has two texts");
  const auto again = KeyPath::parse(path->to_string());
  require(again && *again == *path, "a printed key path is another one");
}

// Matching at once and step by step are the same.
void check_match(const Pattern& pattern, const KeyPath& path) {
  Pattern::State state = pattern.start();
  std::string printed;
  require(pattern.matches(printed) == pattern.accepts(state), "a pattern differs on the root");
  for (const Key& key : path) {
    std::string segment;
    append_segment(segment, key.view());
    state = pattern.step(state, segment);
    append_path(printed, key.view());
    require(pattern.matches(printed) == pattern.accepts(state), "a pattern differs step by step");
  }
  if (const auto literal = pattern.literal_path()) {
    require(pattern.matches(printed) == (printed == *literal), "a literal pattern matches others");
  }
}

}  // namespace
}  // namespace espalier::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  const std::string text(reinterpret_cast<const char*>(data), size);
  fuzz::check_path(text);
  const std::size_t end = text.find('\n');
  const auto pattern = Pattern::parse(std::string_view(text).substr(0, end));
  const auto path = KeyPath::parse(end == text.npos ? std::string_view()
                                                    : std::string_view(text).substr(end + 1));
  if (pattern && path) fuzz::check_match(*pattern, *path);
  return 0;
}
