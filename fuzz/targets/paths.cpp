// Parses text as a key path and as a pattern, and walks a file that has this path. The input is a
// pattern, a line feed, and a path.
#include <string>
#include <string_view>
#include <vector>

#include "fuzz.h"
#include "support/memory_file.h"

#include "espalier/codec/hash.h"
#include "espalier/key_path.h"
#include "espalier/pattern.h"
#include "espalier/read/pattern_stepper.h"
#include "espalier/walker.h"

namespace espalier::fuzz {
namespace {

void check_path(std::string_view text) {
  const auto path = KeyPath::parse(text);
  if (!path) return;
  if (text.starts_with('/')) text.remove_prefix(1);
  if (text.ends_with('/')) text.remove_suffix(1);
  require(path->to_string() == text, "a key path has two texts");
  const auto again = KeyPath::parse(path->to_string());
  require(again && *again == *path, "a printed key path is another one");
  const KeyPath parent = path->parent();
  require(path->starts_with(parent) && parent <= *path, "a key path comes before its parent");
  require(path->empty() || parent / path->back() == *path, "a parent and its key are another path");
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

// A file with one leaf at `path`: a walk must visit exactly the nodes that the pattern selects.
void check_walk(const Pattern& pattern, const KeyPath& path) {
  Value state = Value::null();
  for (std::size_t i = path.size(); i > 0; --i) state = Value::dict({{path[i - 1], state}});
  const auto file = testing::write_file(state);
  require(file.has_value(), "a tree of parsed keys cannot be written");
  const auto checkpoint = testing::open_file(*file);
  require(checkpoint.has_value(), "a written tree cannot be opened");
  std::vector<std::string> expected;
  std::string printed;
  Pattern::State pattern_state = pattern.start();
  bool selected = pattern.accepts(pattern_state);
  if (selected) expected.push_back(printed);
  for (const Key& key : path) {
    // The dicts have no other keys, so that digits need no mark.
    std::string segment;
    append_segment(segment, key.view(), DigitMark::kNever);
    append_path(printed, key.view(), DigitMark::kNever);
    const bool is_unmarked = !key.view().is_int && read_int_key(key.view().text);
    pattern_state = pattern.step(pattern_state, segment, is_unmarked);
    selected = selected || pattern.accepts(pattern_state);
    if (selected) expected.push_back(printed);
  }
  std::vector<std::string> met;
  PatternStepper stepper(std::span(&pattern, 1));
  for (Walker walk(checkpoint->state(), stepper); walk.next();) {
    met.emplace_back(walk.path());
  }
  require(met == expected, "a walk meets other nodes than are selected");

  const auto leaf = checkpoint->state().at(path);
  require(leaf && leaf->kind() == Kind::kNull, "a path does not lead to its node");
  require(checkpoint->state().at(printed) == *leaf, "a printed path does not lead to its node");
  for (const KeyPath& wrong :
       {path / Key("0"), path.parent() / Key(std::int64_t{0}), path.parent() / Key("0")}) {
    const auto node = checkpoint->state().at(wrong);
    // 0 also finds "0".
    const bool is_path = wrong.to_string() == path.to_string() || wrong.empty() ||
                         (!path.empty() && path.back() == Key("0"));
    require(node ? is_path : node.error().code == ErrorCode::kNotFound,
            "a path that is not there leads somewhere");
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
  if (!pattern || !path) return 0;
  fuzz::check_match(*pattern, *path);
  // A file for every input would be slow.
  if (path->size() <= 20 && hash64(as_bytes(text)) % 4 == 0) fuzz::check_walk(*pattern, *path);
  return 0;
}
