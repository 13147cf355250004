#include "espalier/foreign/nesting.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "espalier/foreign/flatten.h"

namespace {

using namespace espalier;

/// A flat dict whose values are the positions of its keys.
Value flat_dict(const std::vector<std::string>& names) {
  Value flat = Value::dict();
  for (std::size_t i = 0; i < names.size(); ++i) {
    flat.add(names[i], Value::integer(static_cast<std::int64_t>(i)));
  }
  return flat;
}

const Value& at(const Value& value, std::initializer_list<const char*> keys) {
  const Value* node = &value;
  for (const char* key : keys) {
    node = node->find(Key(key));
    REQUIRE_MESSAGE(node != nullptr, key);
  }
  return *node;
}

std::vector<std::string> keys_of(const Value& value) {
  std::vector<std::string> keys;
  for (const Key& key : value.keys()) {
    REQUIRE(!key.view().is_int);
    keys.emplace_back(key.view().text);
  }
  return keys;
}

}  // namespace

TEST_CASE("nesting: segments become text keys, in the order of the names") {
  const auto nested = nest_dotted(
      flat_dict({"b.0.w", "a", "b-", "b.10.w", "c..x", ".", "", "b.0.b"}).labelled("L"));
  // "" is a segment that "." needs as a dict.
  REQUIRE(!nested);
  CHECK(nested.error().code == ErrorCode::kNameCollision);

  const auto good = nest_dotted(flat_dict({"b.0.w", "a", "b-", "b.10.w", "c..x", ".", "b.0.b"})
                                    .labelled("collections.OrderedDict"));
  REQUIRE(good);
  CHECK(good->label() == "collections.OrderedDict");
  CHECK(keys_of(*good) == std::vector<std::string>{"b", "a", "b-", "c", ""});
  CHECK(keys_of(at(*good, {"b"})) == std::vector<std::string>{"0", "10"});
  CHECK(keys_of(at(*good, {"b", "0"})) == std::vector<std::string>{"w", "b"});
  CHECK(at(*good, {"b", "0", "b"}).as_int64() == 6);
  CHECK(at(*good, {"b", "10", "w"}).as_int64() == 3);
  CHECK(at(*good, {"c", "", "x"}).as_int64() == 4);
  CHECK(at(*good, {"", ""}).as_int64() == 5);
  CHECK(at(*good, {"a"}).as_int64() == 1);
  CHECK(nest_dotted(Value::dict())->children().empty());
}

TEST_CASE("nesting: names that cannot nest") {
  for (const auto& names : {std::vector<std::string>{"a/b", "x", "a/b.c"},
                            std::vector<std::string>{"a/b.c.d", "a/b-c", "a/b"},
                            std::vector<std::string>{"x.a/b.q", "x.a/b"}}) {
    const auto nested = nest_dotted(flat_dict(names));
    REQUIRE(!nested);
    CHECK(nested.error().code == ErrorCode::kNameCollision);
    CHECK(nested.error().message.find("a~1b would") != std::string::npos);
    CHECK(nested.error().message.find("a~1b.") != std::string::npos);
  }
  CHECK(nest_dotted(flat_dict({"a.b", "c", "a.b"})).error().code == ErrorCode::kInvalidTree);
  Value ints = Value::dict();
  ints.add(1, Value::null());
  CHECK(nest_dotted(ints).error().code == ErrorCode::kWrongKind);
  CHECK(nest_dotted(Value::list()).error().code == ErrorCode::kWrongKind);

  Limits limits;
  limits.depth = 3;
  CHECK(nest_dotted(flat_dict({"a.b.c"}), limits));
  const auto deep = nest_dotted(flat_dict({"a.b.c.d"}), limits);
  REQUIRE(!deep);
  CHECK(deep.error().code == ErrorCode::kLimitExceeded);
  CHECK(nest_dotted(flat_dict({std::string(16000, '.')})).error().code ==
        ErrorCode::kLimitExceeded);
}

TEST_CASE("nesting: flattening gives the same names") {
  std::mt19937 random(5);
  int nested_count = 0;
  for (int round = 0; round < 500; ++round) {
    std::vector<std::string> names;
    const int count = static_cast<int>(random() % 12);
    for (int i = 0; i < count; ++i) {
      std::string name;
      for (std::size_t length = random() % 6; length > 0; --length)
        name += ".ab-\x01/"[random() % 6];
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
    Value flat = Value::dict();
    for (const std::string& name : names) {
      Tensor tensor;
      tensor.dtype = DType::kU8;
      tensor.shape = {0};
      tensor.data = TensorData::owned({});
      flat.add(name, Value::tensor(std::move(tensor)));
    }
    const auto nested = nest_dotted(flat);
    // Some name must be the beginning of another, or nesting works.
    bool clash = false;
    for (const std::string& a : names) {
      for (const std::string& b : names) clash = clash || b.starts_with(a + ".");
    }
    REQUIRE(nested.has_value() == !clash);
    if (!nested) continue;
    ++nested_count;
    const auto again = flatten(*nested, 1000);
    REQUIRE(again);
    CHECK(again->losses.empty());
    std::vector<std::string> flat_names;
    for (const FlatTensor& tensor : again->tensors) {
      flat_names.push_back(tensor.name);
      CHECK(tensor.tensor == flat.find(Key(tensor.name))->as_tensor());
    }
    std::sort(flat_names.begin(), flat_names.end());
    std::sort(names.begin(), names.end());
    CHECK(flat_names == names);
  }
  CHECK(nested_count > 100);
}
