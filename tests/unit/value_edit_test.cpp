#include <string>
#include <utility>
#include <vector>

#include "support/check_error.h"
#include "support/equal.h"
#include <doctest/doctest.h>

#include "espalier/value.h"

namespace {

using namespace espalier;
using testing::check_error;

Value number(std::int64_t value) { return Value::integer(value); }

Value tree() {
  return Value::dict({
      {"model", Value::dict({{"layers", Value::dict({{"0", number(10)}, {"1", number(11)}})}})},
      {"optimizer", Value::dict({{0, number(20)}, {"0", number(21)}})},
      {"betas", Value::tuple({Value::real(0.9), Value::real(0.999)})},
      {"config", Value::record({{"name", Value::string("x")}})},
      {"none", Value::null()},
  });
}

// What differs from a tree in which one path was written out by hand.
std::string difference(const Value& a, const Value& b) { return testing::first_difference(a, b); }

std::int64_t int_at(const Value& value, std::string_view path) {
  const auto found = value.at(path);
  REQUIRE_MESSAGE(found, (found ? "" : found.error().describe()));
  return (*found)->as_int64().value_or(-1);
}

}  // namespace

TEST_CASE("value: literals are values") {
  const Value state = Value::dict({{"step", 7},
                                   {"rate", 0.5},
                                   {"on", true},
                                   {"name", "run"},
                                   {"none", nullptr},
                                   {"most", ~std::uint64_t{0}},
                                   {"betas", Value::tuple({0.9f, 1})},
                                   {std::size_t{3}, std::string("three")},
                                   {~std::uint64_t{0}, Value::list({"a", "b"})}});
  CHECK(state.find("step")->as_int64() == 7);
  CHECK(state.find("rate")->as_double() == 0.5);
  CHECK(state.find("on")->as_bool() == true);
  CHECK(*state.find("name")->as_string() == "run");
  CHECK(state.find("none")->kind() == Kind::kNull);
  CHECK(state.find("most")->as_bigint()->to_decimal() == "18446744073709551615");
  CHECK(state.find("betas")->children()[0].as_double() == double{0.9f});
  CHECK(*state.find(3)->as_string() == "three");
  CHECK(state.find("18446744073709551615")->children().size() == 2);
}

TEST_CASE("value: children and keys in a loop") {
  Value state = Value::dict({{"a", 1}, {2, Value::list({10, 20})}});
  std::string seen;
  for (auto [key, child] : std::as_const(state)) {
    seen += key.is_int ? std::to_string(key.integer) : std::string(key.text);
    for (auto [position, element] : child) {
      seen += ' ' + std::to_string(position.integer) + '=' + std::to_string(*element.as_int64());
    }
    seen += ';';
  }
  CHECK(seen == "a;2 0=10 1=20;");
  for (auto [key, child] : state) child = 5;
  CHECK(state.find(2)->as_int64() == 5);
  CHECK(state.find("a")->begin() == state.find("a")->end());
}

TEST_CASE("value: keys are found in constant time, whatever was done between") {
  Value state = Value::dict();
  // Compared with a plain list of keys, which an index must agree with.
  std::vector<std::pair<std::string, std::int64_t>> expected;
  const auto check = [&] {
    for (const auto& [key, number] : expected) CHECK(int_at(state, key) == number);
    CHECK_FALSE(state.at("k5000"));
    CHECK(state.children().size() == expected.size());
  };
  for (int i = 0; i < 200; ++i) {
    expected.emplace_back("k" + std::to_string(i), i);
    REQUIRE(state.set(expected.back().first, i));
  }
  check();
  state.add("k5001", 1);
  expected.emplace_back("k5001", 1);
  REQUIRE(state.erase("k7"));
  expected.erase(expected.begin() + 7);
  check();
  const Value copy = state;
  REQUIRE(state.set("k8", -8));
  expected[7].second = -8;
  check();
  CHECK(int_at(copy, "k8") == 8);
  // The first of two equal keys counts, as without an index.
  state.add("k9", 900);
  CHECK(int_at(state, "k9") == 9);
  state = Value::dict({{"k9", 1}});
  CHECK(int_at(state, "k9") == 1);
}

TEST_CASE("value: at() finds by path, digits as int or string keys") {
  Value value = tree();
  CHECK(int_at(value, "model/layers/1") == 11);
  CHECK(int_at(value, "model/layers/~21") == 11);
  CHECK(int_at(value, "optimizer/0") == 20);
  CHECK(int_at(value, "optimizer/~20") == 21);
  CHECK((*value.at("betas/1"))->as_double() == 0.999);
  CHECK(*value.at("") == &value);
  CHECK((*value.at(KeyPath{"optimizer", "0"}))->as_int64() == 21);
  **value.at("model/layers/0") = Value::string("changed");
  CHECK(*(*std::as_const(value).at("model/layers/0"))->as_string() == "changed");

  const auto missing = value.at("model/layers/7/weight");
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == ErrorCode::kNotFound);
  CHECK(missing.error().path == "model/layers/7/weight");
  CHECK(missing.error().message == "no such key; 'model/layers' is a dict of 2 without that key");
  CHECK(value.at("none/x").error().message ==
        "no such key; 'none' is a null, which has no children");
  CHECK(value.at("betas/2").error().code == ErrorCode::kNotFound);
  CHECK(value.at("betas/x").error().code == ErrorCode::kNotFound);
  CHECK(value.at("a//b").error().code == ErrorCode::kInvalidKeyPath);
}

TEST_CASE("value: set() replaces, adds and appends") {
  Value value = tree();
  REQUIRE(value.set("optimizer/0", number(1)));
  REQUIRE(value.set("optimizer/5/exp_avg/x", number(2)));
  REQUIRE(value.set("betas/2", number(3)));
  REQUIRE(value.set("model/layers/2", number(4)));
  REQUIRE(value.set("config/7", number(5)));
  REQUIRE(value.set("new/0", number(6)));
  const Value expected = Value::dict({
      {"model",
       Value::dict(
           {{"layers", Value::dict({{"0", number(10)}, {"1", number(11)}, {"2", number(4)}})}})},
      {"optimizer",
       Value::dict({{0, number(1)},
                    {"0", number(21)},
                    {5, Value::dict({{"exp_avg", Value::dict({{"x", number(2)}})}})}})},
      {"betas", Value::tuple({Value::real(0.9), Value::real(0.999), number(3)})},
      {"config", Value::record({{"name", Value::string("x")}, {"7", number(5)}})},
      {"none", Value::null()},
      {"new", Value::dict({{0, number(6)}})},
  });
  CHECK(difference(value, expected) == "");

  check_error(value.set("betas/9", number(0)), ErrorCode::kWrongKind, "betas/9",
              "'betas' is a tuple of 3 elements; only position 3 can be added");
  check_error(value.set("none/x/y", number(0)), ErrorCode::kWrongKind, "none/x/y",
              "'none' is a null, which has no children");
  CHECK(value.set("a//b", number(0)).error().code == ErrorCode::kInvalidKeyPath);
  CHECK(difference(value, expected) == "");
  REQUIRE(value.set("", number(8)));
  CHECK(value.as_int64() == 8);
}

TEST_CASE("value: erase() removes one child") {
  Value value = tree();
  REQUIRE(value.erase("optimizer/0"));
  CHECK(int_at(value, "optimizer/0") == 21);
  REQUIRE(value.erase("optimizer/0"));
  CHECK((*value.at("optimizer"))->children().empty());
  REQUIRE(value.erase("betas/0"));
  CHECK((*value.at("betas/0"))->as_double() == 0.999);
  check_error(value.erase("betas/1"), ErrorCode::kNotFound, "betas/1", "a tuple of 1");
  CHECK(value.erase("").error().code == ErrorCode::kInvalidArgument);
}

TEST_CASE("value: merge() adds, and conflicts change nothing") {
  Value value = tree();
  const Value patch = Value::dict({
      {"model", Value::dict({{"head", number(1)}, {"layers", Value::dict({{"9", number(2)}})}})},
      {"step", number(3)},
  });
  REQUIRE(value.merge(patch));
  CHECK(int_at(value, "model/head") == 1);
  CHECK(int_at(value, "model/layers/9") == 2);
  CHECK(int_at(value, "model/layers/0") == 10);
  CHECK(value.keys().back() == Key("step"));

  const Value before = value;
  check_error(value.merge(patch), ErrorCode::kNameCollision, "step", "both trees have this key");
  check_error(value.merge(Value::dict({{"zzz", number(1)}, {"betas", Value::list()}})),
              ErrorCode::kNameCollision, "betas", "");
  CHECK(difference(value, before) == "");
  REQUIRE(value.merge(Value::dict({{"betas", Value::list()}, {"model", number(0)}}),
                      Value::OnConflict::kReplace));
  CHECK((*value.at("betas"))->kind() == Kind::kList);
  CHECK(int_at(value, "model") == 0);
  check_error(value.merge(Value::list()), ErrorCode::kWrongKind, "", "is a list");

  // Dicts of other types are not mixed.
  Value typed = Value::dict({{"a", Value::dict({{"x", number(1)}}).labelled("OrderedDict")}});
  const Value untyped = Value::dict({{"a", Value::dict({{"y", number(2)}})}});
  check_error(typed.merge(untyped), ErrorCode::kNameCollision, "a", "");
  Value lost = Value::dict();
  lost.add(number(1));
  REQUIRE(typed.merge(Value::dict({{"b", lost}})));
  CHECK((*typed.at("b"))->defect());
  REQUIRE(typed.merge(lost));
  CHECK(typed.defect());
}

TEST_CASE("value: a merge of deep trees and of many keys") {
  constexpr int kCount = 100'000;
  const auto around = [](const char* key, int level, Value inner) {
    Value dict = Value::dict();
    dict.add(key, number(level));
    dict.add("next", std::move(inner));
    return dict;
  };
  Value a;
  Value b;
  for (int level = 0; level < kCount; ++level) {
    a = around("a", level, std::move(a));
    b = around("b", level, std::move(b));
  }
  const auto conflict = a.merge(b);
  REQUIRE_FALSE(conflict);
  REQUIRE(a.merge(std::move(b), Value::OnConflict::kReplace));
  const Value* at = &a;
  for (int level = kCount; level-- > 0; at = at->find("next")) {
    REQUIRE(at->find("a")->as_int64() == level);
    REQUIRE(at->find("b")->as_int64() == level);
  }
  Value wide = Value::dict();
  Value more = Value::dict();
  for (int i = 0; i < kCount; ++i) {
    wide.add(2 * i, number(i));
    more.add(2 * i + 1, number(i));
  }
  REQUIRE(wide.merge(std::move(more)));
  CHECK(wide.children().size() == 2 * kCount);
}

TEST_CASE("value: merge() by a rule") {
  Value value = tree();
  value.add("list", Value::list({number(1), Value::dict({{"a", number(2)}})}));
  const Value before = value;
  const Value other = Value::dict({
      {"model", Value::dict({{"layers", Value::dict({{"1", number(1)}, {"2", number(2)}})}})},
      {"config", Value::record({{"name", Value::string("y")}, {"size", number(7)}})},
      {"betas", Value::tuple({Value::real(0.5), Value::real(0.25)})},
      {"list", Value::list({number(3), Value::dict({{"b", number(4)}})})},
      {"none", Value::dict({{"x", number(5)}})},
      {"new", number(6)},
  });
  std::string asked;
  const auto rule = [&](const Value& mine, const Value& theirs,
                        const auto& path) -> Result<Value::OnBoth> {
    asked += path() + " ";
    if (Value::can_join(mine, theirs)) return Value::OnBoth::kJoin;
    return path() == "betas/1" ? Value::OnBoth::kKeep : Value::OnBoth::kReplace;
  };
  REQUIRE(value.merge(other, rule));
  CHECK(asked ==
        "model config betas list none model/layers config/name betas/0 betas/1 list/0 list/1 "
        "model/layers/1 ");
  CHECK(int_at(value, "model/layers/0") == 10);
  CHECK(int_at(value, "model/layers/1") == 1);
  CHECK(int_at(value, "model/layers/2") == 2);
  CHECK(*(*value.at("config/name"))->as_string() == "y");
  CHECK(int_at(value, "config/size") == 7);
  CHECK((*value.at("betas/0"))->as_double() == 0.5);
  CHECK((*value.at("betas/1"))->as_double() == 0.999);
  CHECK(int_at(value, "list/0") == 3);
  CHECK(int_at(value, "list/1/a") == 2);
  CHECK(int_at(value, "list/1/b") == 4);
  CHECK(int_at(value, "none/x") == 5);
  CHECK(value.keys().back() == Key("new"));

  // What cannot be joined is replaced, also if the rule asks to join it.
  Value joined = before;
  REQUIRE(joined.merge(Value::dict({{"betas", Value::tuple({number(1)})}, {"model", number(0)}}),
                       [](const auto&, const auto&, const auto&) { return Value::OnBoth::kJoin; }));
  CHECK((*joined.at("betas"))->children().size() == 1);
  CHECK(int_at(joined, "model") == 0);

  Value refused = before;
  const auto refuse = [](const Value& mine, const Value& theirs,
                         const auto&) -> Result<Value::OnBoth> {
    if (Value::can_join(mine, theirs)) return Value::OnBoth::kJoin;
    return fail(ErrorCode::kNameCollision, "no");
  };
  check_error(refused.merge(other, refuse), ErrorCode::kNameCollision, "none", "no");
  CHECK(difference(refused, before) == "");
}

TEST_CASE("value: the rule of the command line's merge") {
  const auto row = [](float x) { return Value::tensor(std::vector<float>{x}, {1}); };
  const Value gap = Value::tensor(Tensor{.shape = {1}});
  Value value = Value::dict({{"list", Value::list({row(1), row(2), gap})}, {"x", row(3)}});
  const Value other = Value::dict({{"list", Value::list({gap, row(5), row(6)})}, {"x", number(7)}});
  Value replaced = value;
  REQUIRE(replaced.merge(other, Value::OnConflict::kReplace));
  CHECK((*replaced.at("list/0"))->kind() == Kind::kPlaceholder);
  REQUIRE(value.merge(other, Value::later_wins));
  const Value expected =
      Value::dict({{"list", Value::list({row(1), row(5), row(6)})}, {"x", number(7)}});
  CHECK(difference(value, expected) == "");
  REQUIRE(value.merge(Value::dict({{"list", Value::list({number(1)})}}), Value::later_wins));
  CHECK((*value.at("list"))->children().size() == 1);
}
