#include "espalier/value.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "support/equal.h"
#include "support/random_tree.h"
#include <doctest/doctest.h>

namespace {

using namespace espalier;

constexpr int kLevels = 400'000;  // More than any stack has frames for.

// A chain of containers, each with leaves before and after the next one.
Value deep(int levels) {
  Value value = Value::string("the innermost");
  for (int level = 0; level < levels; ++level) {
    if (level % 3 == 0) {
      Value dict = Value::dict();
      dict.add("before", Value::integer(1));
      dict.add(level, std::move(value));
      value = std::move(dict);
    } else {
      Value list = Value::list();
      list.add(std::move(value));
      if (level % 3 == 1) list.add(Value::list({Value::null()}));
      value = std::move(list).labelled("a label");
    }
  }
  return value;
}

int depth_of(const Value& value) {
  int depth = 0;
  for (const Value* at = &value;; ++depth) {
    const Value* next = nullptr;
    for (const Value& child : at->children()) {
      if (child.children().size() > 0 || child.as_string() != nullptr) {
        next = &child;
        break;
      }
    }
    if (next == nullptr) return depth;
    at = next;
  }
}

}  // namespace

TEST_CASE("value: a tree of any depth is destroyed, moved and assigned") {
  Value value = deep(kLevels);
  CHECK(depth_of(value) == kLevels);
  Value moved = std::move(value);
  CHECK(depth_of(moved) == kLevels);
  value = deep(kLevels);  // Over the moved-from value.
  value = Value::null();  // Over a deep one.
  CHECK(value.kind() == Kind::kNull);
  std::vector<Value> several;
  for (int i = 0; i < 3; ++i) several.push_back(deep(1000));
  several.erase(several.begin());
  CHECK(depth_of(several[1]) == 1000);
}

TEST_CASE("value: a tree of any depth is copied") {
  const Value value = deep(kLevels);
  Value copy = value;
  CHECK(depth_of(copy) == kLevels);
  copy = deep(3);
  CHECK(depth_of(copy) == 3);
  copy = value;
  CHECK(depth_of(copy) == kLevels);
  CHECK(depth_of(value) == kLevels);
}

TEST_CASE("value: children do not move within the room that was made for them") {
  for (const Kind kind : {Kind::kDict, Kind::kRecord, Kind::kList, Kind::kTuple, Kind::kSet}) {
    Value value = Value::container(kind);
    value.reserve(100);
    CHECK(value.children().empty());
    const auto add = [&](std::int64_t i) {
      has_keys(kind) ? value.add(std::to_string(i), i) : value.add(i);
    };
    add(0);
    const Value* const first = value.children().data();
    for (std::int64_t i = 1; i < 100; ++i) add(i);
    CHECK_EQ(value.children().data(), first);
    CHECK_EQ(value.children().size(), 100);
  }
  Value number = 7;
  number.reserve(100);
  CHECK_EQ(number.as_int64(), 7);
  CHECK_FALSE(number.defect());
}

TEST_CASE("value: what was moved from is an empty value of its kind, and can be filled") {
  Value from = Value::dict({{"a", 1}});
  const Value to = std::move(from);
  CHECK_EQ(to.children().size(), 1);
  CHECK(from.children().empty());
  from.add("b", 2);
  CHECK_EQ(from.find("b")->as_int64(), 2);
}

TEST_CASE("value: copies are equal, and of their own") {
  const auto same = [](const Value& a, const Value& b) {
    return testing::first_difference(a, b).empty();
  };
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Value value = testing::RandomTree(seed).state();
    Value copy = value;
    CHECK(same(copy, value));
    const Value& self = copy;
    copy = self;
    CHECK(same(copy, value));
    Value grown = value;
    if (has_keys(grown.kind())) grown.add("another key", Value::null());
    CHECK(same(copy, value));
    Value inner = Value::list({value, copy});
    inner = inner.children()[1];
    CHECK(same(inner, value));
  }
}
