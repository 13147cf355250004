#include "espalier/read/pattern_stepper.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "../support/memory_file.h"
#include "../support/random.h"
#include <doctest/doctest.h>

#include "espalier/pattern.h"
#include "espalier/read/match.h"
#include "espalier/walker.h"

namespace espalier {
namespace {

std::vector<Pattern> parse(const std::vector<std::string>& texts) {
  auto patterns = parse_patterns(texts);
  REQUIRE(patterns);
  return *patterns;
}

Checkpoint open(const Value& state) {
  const auto file = testing::write_file(state);
  REQUIRE(file);
  auto checkpoint = testing::open_file(*file);
  REQUIRE(checkpoint);
  return std::move(*checkpoint);
}

Value tree() {
  return Value::dict({{"a", Value::dict({{"b", Value::list({Value::null(), Value::null()})}})},
                      {"x", Value::dict({{"b", Value::null()}})}});
}

std::vector<std::string> walk(const Checkpoint& checkpoint, PatternStepper& patterns) {
  std::vector<std::string> paths;
  for (Walker walk(checkpoint.state(), patterns); walk.next();) paths.emplace_back(walk.path());
  return paths;
}

using Paths = std::vector<std::string>;

TEST_CASE("A match selects all below it, for every kind of walk") {
  const Checkpoint checkpoint = open(tree());
  const auto patterns = parse({"a/b"});
  PatternStepper stepper(patterns);
  CHECK(walk(checkpoint, stepper) == Paths{"a/b", "a/b/0", "a/b/1"});
  std::vector<std::uint32_t> numbers;
  for (const char* path : {"a/b", "a/b/0", "a/b/1"}) {
    numbers.push_back(checkpoint.state().at(path)->number());
  }
  CHECK(match_nodes(checkpoint.state(), stepper) == numbers);
}

TEST_CASE("A stepper shows where nodes may still be selected") {
  const Checkpoint checkpoint = open(tree());
  const auto patterns = parse({"a/*/1"});
  PatternStepper stepper(patterns);
  CHECK(stepper.start() == PatternStepper::Verdict::kOpen);
  CHECK(stepper.step(1, checkpoint.state(), checkpoint.state().child(0)) ==
        PatternStepper::Verdict::kOpen);
  CHECK(stepper.step(1, checkpoint.state(), checkpoint.state().child(1)) ==
        PatternStepper::Verdict::kLeftOut);
}

TEST_CASE("No patterns select everything, and so does the empty one") {
  const Checkpoint checkpoint = open(tree());
  PatternStepper everything({});
  const auto patterns = parse({""});
  PatternStepper root(patterns);
  CHECK(walk(checkpoint, everything).size() == 7);
  CHECK(walk(checkpoint, everything) == walk(checkpoint, root));
  CHECK(everything.check_all_matched());
}

TEST_CASE("One stepper follows walks of several trees that repeat the same texts") {
  const Checkpoint one = open(Value::dict({{"a", Value::null()}, {"b", Value::null()}}));
  const Checkpoint other = open(Value::dict({{"b", Value::null()}, {"c", Value::null()}}));
  const auto patterns = parse({"b"});
  PatternStepper stepper(patterns);
  CHECK(walk(one, stepper) == Paths{"b"});
  CHECK(walk(other, stepper) == Paths{"b"});
}

TEST_CASE("Patterns that match nothing are named, also within a selected subtree") {
  const Checkpoint checkpoint = open(tree());
  const auto patterns = parse({"a", "a/b", "c"});
  PatternStepper stepper(patterns);
  walk(checkpoint, stepper);
  const auto checked = stepper.check_all_matched();
  REQUIRE_FALSE(checked);
  CHECK(checked.error().code == ErrorCode::kNotFound);
  CHECK(checked.error().message.find("'c'") != std::string::npos);
  walk(open(Value::dict({{"c", Value::null()}})), stepper);
  CHECK(stepper.check_all_matched());
}

// All names of a level are x and y.
Value binary_tree(int levels) {
  if (levels == 0) return Value::null();
  return Value::dict({{"x", binary_tree(levels - 1)}, {"y", binary_tree(levels - 1)}});
}

// What the patterns select, path by path.
Paths selected(const Checkpoint& checkpoint, const std::vector<Pattern>& patterns) {
  Paths paths;
  std::string last = "none";
  for (Walker walk(checkpoint.state()); walk.next();) {
    const bool is_below = last.empty() || walk.path().starts_with(last + '/');
    const bool is_match = std::any_of(patterns.begin(), patterns.end(), [&](const Pattern& each) {
      return each.matches(walk.path());
    });
    if (!is_below && !is_match) continue;
    if (!is_below) last = walk.path();
    paths.emplace_back(walk.path());
  }
  return paths;
}

TEST_CASE("More states than a stepper remembers select the same nodes") {
  const Checkpoint checkpoint = open(binary_tree(13));
  // Whether a node is selected depends on the twelve names above it, and so 4,096 states differ.
  const auto patterns = parse({"**/x/*/*/*/*/*/*/*/*/*/*/y/x", "**/y/x/*/*/*/*/*/*/*/y/y/y"});
  PatternStepper stepper(patterns);
  CHECK(walk(checkpoint, stepper) == selected(checkpoint, patterns));
  CHECK(walk(checkpoint, stepper) == selected(checkpoint, patterns));
}

Value random_tree(testing::Random& random, int levels) {
  if (levels == 0 || random.one_in(6)) return Value::null();
  if (random.one_in(4)) {
    return Value::list({random_tree(random, levels - 1), random_tree(random, levels - 1)});
  }
  std::vector<Value::Item> items;
  for (const Key& key : {Key("a"), Key("b"), Key("ab"), Key(1), Key("x/y"), Key("0")}) {
    if (random.one_in(2)) items.push_back({key, random_tree(random, levels - 1)});
  }
  return Value::dict(std::move(items));
}

TEST_CASE("A walk with patterns takes what one of them matches, and all below it") {
  testing::Random random(7);
  for (int round = 0; round < 300; ++round) {
    const Checkpoint one = open(random_tree(random, 6));
    const Checkpoint other = open(random_tree(random, 6));
    std::vector<std::string> texts;
    for (std::uint64_t i = random.below(4); i > 0; --i) {
      std::string text;
      for (std::uint64_t k = random.below(5); k > 0; --k) {
        text +=
            random.pick<std::string>({"a", "b", "a*", "?", "*", "**", "[01]", "{b,1}", "*b"}) + '/';
      }
      texts.push_back(text);
    }
    CAPTURE(round);
    const auto patterns = parse(texts);
    PatternStepper stepper(patterns);
    // No patterns select everything.
    const auto expected = [&](const Checkpoint& of) {
      return selected(of, patterns.empty() ? parse({"**"}) : patterns);
    };
    CHECK(walk(one, stepper) == expected(one));
    CHECK(walk(other, stepper) == expected(other));
    CHECK(walk(one, stepper) == expected(one));
  }
}

TEST_CASE("Text that is no pattern is quoted in the error") {
  const auto patterns = parse_patterns(std::vector<std::string>{"ok", "a//b"});
  REQUIRE_FALSE(patterns);
  CHECK(patterns.error().code == ErrorCode::kInvalidPattern);
  CHECK(patterns.error().message.find("'a//b'") != std::string::npos);
}

}  // namespace
}  // namespace espalier
