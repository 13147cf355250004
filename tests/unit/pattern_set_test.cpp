#include "espalier/tree/pattern_set.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace {

using espalier::PatternSet;

PatternSet parse(const std::vector<std::string>& texts) {
  auto set = PatternSet::parse(texts);
  REQUIRE(set);
  return *set;
}

}  // namespace

TEST_CASE("a match selects all below it") {
  PatternSet set = parse({"a/*/c"});
  PatternSet::Place root = set.start();
  CHECK(!root.selected);
  CHECK(root.alive);
  PatternSet::Place a, b, c, d, other;
  set.step(root, "a", a);
  set.step(a, "b", b);
  CHECK(!b.selected);
  set.step(b, "c", c);
  CHECK(c.selected);
  set.step(c, "d", d);
  CHECK(d.selected);
  set.step(root, "x", other);
  CHECK(!other.alive);
}

TEST_CASE("no patterns select everything, and the empty one too") {
  PatternSet everything;
  CHECK(everything.selects_all());
  CHECK(everything.start().selected);
  CHECK(everything.check_all_matched());
  PatternSet root = parse({""});
  CHECK(!root.selects_all());
  CHECK(root.start().selected);
}

TEST_CASE("patterns that match nothing are named, also within a selected subtree") {
  PatternSet set = parse({"a", "a/b", "c"});
  PatternSet::Place a, b;
  const PatternSet::Place root = set.start();
  set.step(root, "a", a);
  set.step(a, "b", b);
  auto checked = set.check_all_matched();
  REQUIRE(!checked);
  CHECK(checked.error().code == espalier::ErrorCode::kNotFound);
  CHECK(checked.error().message.find("'c'") != std::string::npos);
  set.step(root, "c", b);
  CHECK(set.check_all_matched());
}

TEST_CASE("text that is no pattern is quoted in the error") {
  const auto set = PatternSet::parse(std::vector<std::string>{"ok", "a//b"});
  REQUIRE(!set);
  CHECK(set.error().code == espalier::ErrorCode::kInvalidPattern);
  CHECK(set.error().message.find("'a//b'") != std::string::npos);
}
