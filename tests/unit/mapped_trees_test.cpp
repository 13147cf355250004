// The trees that key maps make: what is kept stays what it is.
#include "espalier/map/mapped_trees.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "espalier/checkpoint_file.h"
#include "espalier/mapped_checkpoint.h"

namespace {

using espalier::Key;
using espalier::KeyMap;
using espalier::Kind;
using espalier::Value;

// "w" of [2 3], of [3 2] once it is transposed.
Value weight() { return Value::tensor(std::vector<float>(6, 1), {2, 3}); }

// A tree as Python would print it; tensors are their shapes.
std::string text_of(const Value& value) {
  if (const auto tensor = value.as_tensor()) {
    std::string text;
    for (const std::uint64_t size : tensor->shape) {
      if (!text.empty()) text += 'x';
      text += std::to_string(size);
    }
    return text.empty() ? "scalar" : text;
  }
  if (const auto number = value.as_int64()) return std::to_string(*number);
  if (value.kind() == Kind::kNull) return "null";
  const bool is_dict = value.kind() == Kind::kDict;
  std::string text(1, is_dict ? '{' : value.kind() == Kind::kTuple ? '(' : '[');
  for (auto [key, child] : value) {
    if (text.size() > 1) text += ", ";
    if (is_dict) {
      text += key.is_int ? std::to_string(key.integer) : '\'' + std::string(key.text) + '\'';
      text += ": ";
    }
    text += text_of(child);
  }
  return text + (is_dict ? '}' : value.kind() == Kind::kTuple ? ')' : ']');
}

struct Mapped {
  std::string text;
  std::string error;
  std::uint64_t unlisted = 0;
};

// `members` are further ones of a map with the rule.
Mapped map_tree(const Value& tree, const std::string& members, const std::string& rules,
                bool reverse = false, const std::string& at = {}) {
  const auto map = KeyMap::parse(R"({"espalier_map": 1, "rest": "keep", )" + members +
                                 R"("rules": [)" + rules + "]}");
  REQUIRE(map);
  const auto file = espalier::open_value(tree, Value::dict());
  REQUIRE(file);
  espalier::MappedOptions options;
  options.lift.plan.reverse = reverse;
  options.lift.at = at;
  const auto mapped = espalier::MappedCheckpoint::make(*map, {{.file = *file}}, options);
  if (!mapped) return {{}, mapped.error().message};
  const auto outputs = mapped->outputs();
  if (!outputs) return {{}, outputs.error().message};
  REQUIRE(outputs->size() == 1);
  return {text_of(outputs->front().state), {}, outputs->front().unlisted};
}

const std::string kTurn = R"("w [a b] <-> v [b a]")";

Value dict(std::vector<Value::Item> items) { return Value::dict(std::move(items)); }
Value list(std::vector<Value> values) { return Value::list(std::move(values)); }
Value number(std::int64_t value) { return Value::integer(value); }

}  // namespace

TEST_CASE("Keys that a map keeps are no paths, and paths no keys") {
  const Value flat = dict({{Key("w"), weight()},
                           {Key("x/y"), number(1)},
                           {Key("a.b"), number(2)},
                           {Key("z~"), number(3)},
                           {Key("0"), number(4)}});
  const std::string kept = "'x/y': 1, 'a.b': 2, 'z~': 3, '0': 4, 'v': 3x2}";
  const Value nested = dict(
      {{Key("w"), weight()}, {Key("k"), dict({{Key("x/y"), number(1)}, {Key("a.b"), number(2)}})}});
  for (const char* const sides :
       {R"("right": {"names": "paths"}, )", R"("left": {"names": "paths"}, )",
        R"("left": {"names": "paths"}, "right": {"tree": "flat"}, )",
        R"("right": {"names": "paths", "tree": "flat"}, )",
        R"("left": {"names": "paths"}, "right": {"names": "paths"}, )"}) {
    CAPTURE(sides);
    const Mapped made = map_tree(flat, sides, kTurn);
    CHECK(made.text == '{' + kept);
    CHECK(made.error.empty());
  }
  for (const char* const sides :
       {R"("right": {"names": "paths"}, )", R"("left": {"names": "paths"}, )",
        R"("right": {"names": "paths", "tree": "flat"}, )"}) {
    CAPTURE(sides);
    CHECK(map_tree(nested, sides, kTurn).text == "{'k': {'x/y': 1, 'a.b': 2}, 'v': 3x2}");
  }
}

TEST_CASE("Lists below what is unwrapped stay lists") {
  const std::string unwrap = R"("left": {"unwrap": ["module"]}, )";
  const auto wrapped = [](Value value) { return dict({{Key("module"), std::move(value)}}); };
  const Value inner = dict(
      {{Key("w"), weight()},
       {Key("l"), list({number(1), wrapped(dict({{Key("q"), number(2)}})), wrapped(number(3))})},
       {Key(std::int64_t{7}), number(4)}});
  const std::string made = "{'l': [1, {'q': 2}, 3], 7: 4, 'v': 3x2}";
  for (const Value& tree : {wrapped(inner), wrapped(wrapped(inner))}) {
    const Mapped mapped = map_tree(tree, unwrap, kTurn);
    CHECK(mapped.text == made);
    CHECK(mapped.unlisted == 0);
  }
  // What a rule passes under its name, too, and what stands beside the wrapper.
  Value both = wrapped(inner);
  both.add(Key("z"), list({wrapped(list({number(1), number(2)}))}));
  CHECK(map_tree(both, unwrap, R"("{p...} <-> {p...}")").text ==
        "{'w': 2x3, 'l': [1, {'q': 2}, 3], 7: 4, 'z': [[1, 2]]}");
  CHECK(map_tree(wrapped(inner), unwrap + R"("right": {"tree": "flat"}, )", kTurn).text ==
        "{'l': [1, {'q': 2}, 3], 7: 4, 'v': 3x2}");
  const Value plain = dict({{Key("module"), dict({{Key("w"), weight()},
                                                  {Key("d"), dict({{Key("e"), number(4)}})},
                                                  {Key("l"), list({number(1)})}})},
                            {Key("d"), dict({{Key("f"), list({number(2)})}})}});
  CHECK(map_tree(plain, unwrap + R"("right": {"tree": "flat"}, )", kTurn).text ==
        "{'v': 3x2, 'd.e': 4, 'l': [1], 'd.f': [2]}");
  CHECK(map_tree(plain, unwrap, kTurn).text == "{'d': {'e': 4, 'f': [2]}, 'l': [1], 'v': 3x2}");
  // Segments within keys.
  CHECK(map_tree(dict({{Key("module.a"), list({number(1)})}, {Key("w"), weight()}}), unwrap, kTurn)
            .text == "{'a': [1], 'v': 3x2}");
  // What is taken out of a list leaves its place.
  CHECK(map_tree(wrapped(dict({{Key("l"), list({wrapped(weight()), number(1)})}})), unwrap,
                 R"("l.0 [a b] <-> v [b a]")")
            .text == "{'l': [null, 1], 'v': 3x2}");
  // Two of one name.
  CHECK(map_tree(dict({{Key("module"), dict({{Key("a"), list({number(1)})}})},
                       {Key("a"), list({number(2), number(3)})},
                       {Key("w"), weight()}}),
                 unwrap, kTurn)
            .error.find("a.0") != std::string::npos);
  CHECK_FALSE(
      map_tree(
          dict({{Key("module"), list({number(1)})}, {Key("a"), number(2)}, {Key("w"), weight()}}),
          unwrap, kTurn)
          .error.empty());
}

TEST_CASE("Numbers in names are integers where the keys beside them are") {
  const auto layer = [](std::int64_t kept) {
    return dict({{Key("w"), weight()}, {Key("kept"), number(kept)}});
  };
  const Value tree =
      dict({{Key("layers"), dict({{Key(std::int64_t{0}), layer(5)},
                                  {Key(std::int64_t{1}), dict({{Key("w"), weight()}})},
                                  {Key(std::int64_t{2}), layer(6)}})}});
  const std::string rule = R"("layers.{i}.w [a b] <-> layers.{i}.v [b a]")";
  const Mapped made = map_tree(tree, "", rule);
  CHECK(made.text ==
        "{'layers': {0: {'kept': 5, 'v': 3x2}, 2: {'kept': 6, 'v': 3x2}, 1: {'v': 3x2}}}");
  CHECK(made.unlisted == 0);
  const Value mixed =
      dict({{Key("layers"), dict({{Key("note"), number(4)}, {Key(std::int64_t{0}), layer(5)}})}});
  CHECK(map_tree(mixed, "", rule).text == "{'layers': {'note': 4, 0: {'kept': 5, 'v': 3x2}}}");
}

TEST_CASE("A flat side keeps the containers beside the parameters") {
  const Value tree = dict(
      {{Key("m"),
        dict({{Key("p"), dict({{Key("w"), weight()}})}, {Key("l"), list({number(1), number(2)})}})},
       {Key("o"),
        dict({{Key("l"), list({number(3)})}, {Key("d"), dict({{Key("e"), number(4)}})}})}});
  const Mapped made =
      map_tree(tree, R"("right": {"tree": "flat"}, )", R"("p.w [a b] <-> v.u [b a]")", false, "m");
  CHECK(made.text == "{'m': {'l': [1, 2], 'v.u': 3x2}, 'o': {'l': [3], 'd': {'e': 4}}}");
  CHECK(made.unlisted == 0);
}

TEST_CASE("A root that is a tensor stays one, or is refused") {
  for (const char* const sides :
       {"", R"("right": {"tree": "flat"}, )", R"("right": {"names": "paths"}, )"}) {
    CAPTURE(sides);
    CHECK(map_tree(weight(), sides, R"("? w <-> v")").text == "2x3");
    CHECK(map_tree(number(5), sides, R"("? w <-> v")").text == "5");
  }
}
