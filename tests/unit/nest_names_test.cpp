#include "espalier/format/nest_names.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "support/memory_file.h"
#include <doctest/doctest.h>

#include "espalier/foreign/common/flatten.h"
#include "espalier/format/access.h"
#include "espalier/read/opener.h"
#include "espalier/read/to_value.h"
#include "espalier/read/verify.h"
#include "espalier/walker.h"
#include "espalier/write/layout.h"

namespace espalier {
namespace {

Tensor some_tensor(std::uint8_t value) {
  return Tensor{.dtype = DType::kU8,
                .shape = {1},
                .data = TensorData::owned({static_cast<std::byte>(value)})};
}

/// A dict whose values are the positions of its keys.
Value flat_dict(const std::vector<std::string>& names) {
  Value flat = Value::dict();
  for (std::size_t i = 0; i < names.size(); ++i) {
    flat.add(names[i], Value::integer(static_cast<std::int64_t>(i)));
  }
  return flat;
}

Result<Checkpoint> open_nested(ByteSpan file, const Limits& limits = {}) {
  Opener opener({.file_size = file.size(), .limits = limits, .nest = true});
  if (auto ok = opener.feed({0, 0, file.size()}, file); !ok) return propagate(ok);
  return opener.finish();
}

/// Every value of the state after nesting, as "path=value".
std::vector<std::string> nested(const Value& state, const Limits& limits = {}) {
  const auto file = testing::write_file(state);
  REQUIRE(file);
  const auto checkpoint = open_nested(*file, limits);
  REQUIRE(checkpoint);
  std::vector<std::string> lines;
  for (Walker walk(checkpoint->state()); walk.next();) {
    const auto value = walk.node().as_int64();
    if (value) lines.push_back(std::string(walk.path()) + "=" + std::to_string(*value));
  }
  return lines;
}

using Lines = std::vector<std::string>;

TEST_CASE("nest: segments become text keys, in the order of the names") {
  CHECK(nested(flat_dict({"b.x.w", "a", "b-", "b.10.w", "c..y", ".", "b.x.b"})) ==
        Lines{"b/x/w=0", "b/x/b=6", "b/10/w=3", "a=1", "b-=2", "c/~2/y=4", "~2/~2=5"});
}

TEST_CASE("nest: numbered dicts are in the order of their numbers") {
  CHECK(nested(flat_dict({"l.10.w", "l.2.w", "l.0.w", "l.2.b"})) ==
        Lines{"l/0/w=2", "l/2/w=1", "l/2/b=3", "l/10/w=0"});
  // A value among them keeps its place.
  CHECK(nested(flat_dict({"l.10.w", "l.2", "l.0.w"})) == Lines{"l/10/w=0", "l/2=1", "l/0/w=2"});
}

TEST_CASE("nest: a name that is also the beginning of others stays a value") {
  CHECK(nested(flat_dict({"a.b", "a", "a.c.d", "a.c.e", "ab.c", "a.b.x"})) ==
        Lines{"a.b=0", "a=1", "a.c/d=2", "a.c/e=3", "ab/c=4", "a.b.x=5"});
  CHECK(nested(flat_dict({"x.a/b.q", "x.a/b", "", "."})) ==
        Lines{"x/a~1b.q=0", "x/a~1b=1", "~2=2", ".=3"});
}

TEST_CASE("nest: all dicts of the state with any contents, and nothing else") {
  Value inner = Value::dict({{"a.b", Value::integer(1)}, {7, Value::integer(2)}});
  Value record = Value::record({{"c.d", Value::integer(3)}});
  CHECK(nested(Value::list({inner, record, Value::dict({{"e.f", inner}})})) ==
        Lines{"0/a/b=1", "0/7=2", "1/c.d=3", "2/e/f/a/b=1", "2/e/f/7=2"});
}

TEST_CASE("nest: names of many segments, and files with too many") {
  Limits limits;
  limits.depth = 3;
  CHECK(nested(flat_dict({"a.b.c.d.e"}), limits) == Lines{"a/b/c.d.e=0"});
  // The nodes below a name need levels too.
  CHECK(nested(Value::dict({{"a.b.c", Value::list({Value::integer(4)})}}), limits) ==
        Lines{"a/b.c/0=4"});
  const std::string dots(16000, '.');
  const auto lines = nested(flat_dict({dots, dots + "x"}));
  REQUIRE(lines.size() == 2);
  CHECK(static_cast<std::uint32_t>(std::count(lines[0].begin(), lines[0].end(), '/')) ==
        kMaxNestedLevels);
  // The tree as it is has 4 nodes, and the nested one would have 6.
  limits = {};
  limits.nodes = 5;
  CHECK(nested(flat_dict({"a.b.c", "d"}), limits) == Lines{"a.b.c=0", "d=1"});
}

TEST_CASE("nest: long keys that many dicts share stay as they are") {
  const std::string prefix(15000, 'a');
  Value shared = Value::dict();
  for (const char* key : {"b.c", "a.c", "d.c", "c.c"}) shared.add(prefix + key, Value::null());
  const auto nodes = [&](std::size_t dicts) {
    const auto file = testing::write_file(Value::list(std::vector<Value>(dicts, shared)));
    REQUIRE(file);
    const auto checkpoint = open_nested(*file);
    REQUIRE(checkpoint);
    return checkpoint->catalog().tables().nodes.size();
  };
  CHECK(nodes(100) == 2 + 100 * (1 + 4 + 4));
  // 138 MB of keys in a file of 200 KB.
  CHECK(nodes(2300) == 2 + 2300 * (1 + 4));
}

TEST_CASE("nest: any names give a tree as the format wants it, and flatten to the same names") {
  std::mt19937 random(5);
  for (int round = 0; round < 500; ++round) {
    Value flat = Value::dict();
    std::vector<std::string> names;
    const int count = static_cast<int>(random() % 24);
    for (int i = 0; i < count; ++i) {
      std::string name;
      for (std::size_t length = random() % 6; length > 0; --length)
        name += ".ab-\x01/"[random() % 6];
      if (std::find(names.begin(), names.end(), name) != names.end()) continue;
      names.push_back(name);
      Tensor tensor = some_tensor(static_cast<std::uint8_t>(i));
      if (random() % 4 == 0) tensor.axis_names = {"axis " + std::to_string(random() % 3)};
      Value value = Value::tensor(std::move(tensor));
      flat.add(name, random() % 4 == 0 ? std::move(value).labelled("L") : std::move(value));
    }
    const auto file = testing::write_file(flat, Value::dict({{"m.n", Value::real(0.5)}}));
    REQUIRE(file);
    const auto checkpoint = open_nested(*file);
    REQUIRE(checkpoint);
    const auto tree = testing::load_tree(*file, checkpoint->state());
    REQUIRE(tree);
    const auto again = flatten(*tree, 1000);
    REQUIRE(again);
    std::vector<std::string> flat_names;
    for (const FlatTensor& tensor : again->tensors) {
      flat_names.push_back(tensor.name);
      const auto stored = flat.find(Key(tensor.name))->as_tensor();
      CHECK(std::ranges::equal(*tensor.tensor->data.memory(), *stored->data.memory()));
      CHECK(tensor.tensor->axis_names == stored->axis_names);
    }
    std::sort(flat_names.begin(), flat_names.end());
    std::sort(names.begin(), names.end());
    CHECK(flat_names == names);

    // The tables are those of the tree, but for the numbers of tensors.
    const auto layout = lay_out(*tree, to_value(checkpoint->metadata()));
    REQUIRE(layout);
    const Tables expected = layout->index.tables();
    const Tables& tables = checkpoint->catalog().tables();
    REQUIRE(tables.nodes.size() == expected.nodes.size());
    for (std::size_t i = 0; i < tables.nodes.size(); ++i) {
      const NodeRecord& a = tables.nodes[i];
      const NodeRecord& b = expected.nodes[i];
      CHECK(std::tuple(a.kind, a.key_kind, a.key, a.count) ==
            std::tuple(b.kind, b.key_kind, b.key, b.count));
      if (node_kind(a) != Kind::kTensor) CHECK(a.value == b.value);
    }
    CHECK(std::ranges::equal(tables.text, expected.text));
    CHECK(std::ranges::equal(tables.text_ends, expected.text_ends));
    CHECK(std::ranges::equal(tables.order, expected.order));
    CHECK(tables.labels.size() == expected.labels.size());
    const bool is_nested =
        tables.nodes.data() != checkpoint->catalog().stored_tables().nodes.data();
    const bool has_dicts = std::ranges::any_of(
        tree->children(), [](const Value& child) { return child.kind() == Kind::kDict; });
    CHECK(is_nested == has_dicts);
  }
}

TEST_CASE("nest: verifying checks the file as it is stored, and names nested paths") {
  auto file = testing::write_file(Value::dict({{"b.x", Value::tensor(some_tensor(1))},
                                               {"a", Value::tensor(some_tensor(2))},
                                               {"b.y", Value::tensor(some_tensor(3))}}));
  REQUIRE(file);
  const auto verify = [&] {
    const auto checkpoint = open_nested(*file);
    REQUIRE(checkpoint);
    Verify verification(*checkpoint);
    REQUIRE(verification.feed({0, 0, file->size()}, *file));
    auto report = verification.finish();
    REQUIRE(report);
    return *report;
  };
  CHECK(verify().error_count == 0);
  file->back() ^= std::byte{1};
  const VerifyReport report = verify();
  REQUIRE(report.error_count == 1);
  CHECK(report.errors.front().path == "b/y");
}

}  // namespace
}  // namespace espalier
