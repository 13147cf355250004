#include "espalier/checkpoint.h"

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "support/equal.h"
#include "support/memory_file.h"
#include "support/random.h"
#include "support/random_tree.h"
#include <doctest/doctest.h>

#include "espalier/format/find_path.h"
#include "espalier/pattern.h"
#include "espalier/read/pattern_stepper.h"
#include "espalier/read/resolve.h"
#include "espalier/read/to_value.h"
#include "espalier/report/node_paths.h"
#include "espalier/walker.h"

namespace espalier {
namespace {

Checkpoint open(const Value& state, const Value& metadata = Value::dict()) {
  const auto file = testing::write_file(state, metadata);
  REQUIRE(file);
  auto checkpoint = testing::open_file(*file);
  REQUIRE(checkpoint);
  return std::move(*checkpoint);
}

std::vector<std::string> walk(const NodeRef& root, const std::vector<const char*>& texts = {}) {
  std::vector<Pattern> patterns;
  for (const char* text : texts) patterns.push_back(Pattern::parse(text).value());
  std::vector<std::string> paths;
  PatternStepper stepper(patterns);
  for (Walker walker(root, stepper); walker.next();) paths.emplace_back(walker.path());
  return paths;
}

using Paths = std::vector<std::string>;

TEST_CASE("Every key of a large unsorted dict is found, and no other") {
  testing::Random random(3);
  for (const std::size_t size : {1u, 7u, 8u, 9u, 10u, 100u, 1000u}) {
    std::vector<Key> keys;
    for (std::size_t i = 0; i < size; ++i) {
      const auto number = static_cast<std::int64_t>(2 * i) - 50;
      if (i % 2 == 0) {
        keys.emplace_back(number);
      } else {
        keys.emplace_back(std::to_string(number));
      }
    }
    random.shuffle(keys);
    Value dict = Value::dict();
    for (std::size_t i = 0; i < size; ++i) {
      dict.add(keys[i], Value::integer(static_cast<std::int64_t>(i)));
    }
    const Checkpoint checkpoint = open(dict);
    const NodeRef root = checkpoint.state();
    CAPTURE(size);
    for (std::size_t i = 0; i < size; ++i) {
      const auto found = root.find(keys[i].view());
      REQUIRE(found);
      CHECK(found->as_int64() == static_cast<std::int64_t>(i));
      CHECK(root.key(static_cast<std::uint32_t>(i)) == keys[i].view());
      // The same digits as a key of the other kind, and the number beside it.
      const KeyView key = keys[i].view();
      const std::string digits = std::to_string(key.integer);
      const KeyView other = key.is_int ? KeyView::of(std::string_view(digits))
                                       : KeyView::of(std::stoll(std::string(key.text)));
      CHECK_FALSE(root.find(other));
      if (key.is_int) CHECK_FALSE(root.find(KeyView::of(key.integer + 1)));
    }
    CHECK_FALSE(root.find(KeyView::of("")));
    CHECK_FALSE(root.find(KeyView::of("\xFF")));
    CHECK_FALSE(root.find(KeyView::of(std::int64_t{-1} << 62)));
  }
}

TEST_CASE("The int key 0 and the text key \"0\" are different keys") {
  const Checkpoint checkpoint =
      open(Value::dict({{0, Value::string("int")}, {"0", Value::string("text")}}));
  const NodeRef root = checkpoint.state();
  CHECK(root.find(KeyView::of(std::int64_t{0}))->as_string() == "int");
  CHECK(root.find(KeyView::of("0"))->as_string() == "text");
  CHECK(root.at("0")->as_string() == "int");
  CHECK(root.at("~20")->as_string() == "text");
}

TEST_CASE("Positions find the children of lists, tuples and sets") {
  const Checkpoint checkpoint =
      open(Value::list({Value::integer(5), Value::tuple({Value::null(), Value::integer(6)}),
                        Value::set({Value::integer(7)})}));
  CHECK(checkpoint.state().at("0")->as_int64() == 5);
  CHECK(checkpoint.state().at("1/1")->as_int64() == 6);
  CHECK(checkpoint.state().at("2/0")->as_int64() == 7);
  CHECK_FALSE(checkpoint.state().find(KeyView::of(std::int64_t{3})));
  CHECK_FALSE(checkpoint.state().find(KeyView::of(std::int64_t{-1})));
  CHECK_FALSE(checkpoint.state().find(KeyView::of(std::int64_t{1} << 32)));
  CHECK_FALSE(checkpoint.state().find(KeyView::of("0")));
  CHECK(checkpoint.state().key(2) == KeyView::of(std::int64_t{2}));
}

TEST_CASE("Digits mean the int key, or else the string key") {
  const Checkpoint checkpoint = open(Value::dict(
      {{"torch", Value::dict({{"8", Value::string("text 8")}, {"-1", Value::string("text -1")}})},
       {"both", Value::dict({{8, Value::string("int 8")},
                             {"8", Value::string("text 8")},
                             {"9", Value::string("text 9")}})}}));
  const auto text_at = [&](std::string_view path) {
    return checkpoint.state().at(path)->as_string();
  };
  CHECK(text_at("torch/8") == "text 8");
  CHECK(text_at("torch/-1") == "text -1");
  CHECK(text_at("torch/~28") == "text 8");
  CHECK(text_at("/torch/8/") == "text 8");
  CHECK(text_at("both/8") == "int 8");
  CHECK(text_at("both/~28") == "text 8");
  CHECK(text_at("both/9") == "text 9");
  CHECK(walk(checkpoint.state()) ==
        Paths{"", "torch", "torch/8", "torch/-1", "both", "both/8", "both/~28", "both/9"});
  CHECK(walk(checkpoint.state(), {"*/8"}) == Paths{"torch/8", "both/8"});
  CHECK(walk(checkpoint.state(), {"*/~28"}) == Paths{"torch/8", "both/~28"});
  CHECK(walk(checkpoint.state(), {"torch/???"}).empty());
}

TEST_CASE("A missing name with dots means the names between them") {
  const Checkpoint checkpoint = open(Value::dict(
      {{"model",
        Value::dict({{"layers", Value::dict({{"8", Value::dict({{"w", Value::integer(1)}})}})},
                     {"a.b", Value::dict({{"c", Value::integer(2)}})},
                     {"a", Value::integer(3)}})},
       {"list", Value::list({Value::integer(4)})},
       {"x.y", Value::integer(5)},
       {"x", Value::dict({{"y", Value::integer(6)}})}}));
  const NodeRef root = checkpoint.state();
  CHECK(root.at("model.layers.8.w")->as_int64() == 1);
  CHECK(root.at("model/layers.8.w")->as_int64() == 1);
  CHECK(root.at("model.a.b.c")->as_int64() == 2);
  CHECK(root.at("list.0")->as_int64() == 4);
  CHECK(root.at("x.y")->as_int64() == 5);
  CHECK(root.resolve("model.layers.8.w") == KeyPath{"model", "layers", "8", "w"});
  CHECK(printed_path(root, *root.resolve("model.layers.8.w")) == "model/layers/8/w");
  CHECK(walk(root, {"model/layers.8.w"}).empty());  // Only look-ups split names.
  for (const char* path :
       {"model.layers.9.w", "model.", ".model", "model.layers.", "list.~20", "."}) {
    const auto node = root.at(path);
    CHECK_MESSAGE(!node, path);
  }
  CHECK(root.at("model.layers.9.w").error().message.find("'model/layers' is a dict of 1") !=
        std::string::npos);
  // The work does not grow with the square of a long name.
  CHECK_FALSE(root.at(std::string(1 << 20, '.')));
  CHECK_FALSE(root.at("model." + std::string(1 << 20, 'a')));
}

TEST_CASE("Every node of any tree has one printed path, which finds it") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const Checkpoint checkpoint = open(testing::RandomTree(seed).state());
    const NodePaths paths(checkpoint);
    std::set<std::string> seen;
    for (Walker walk(checkpoint.state()); walk.next();) {
      const std::string path(walk.path());
      CAPTURE(seed);
      CAPTURE(path);
      REQUIRE(seen.insert(path).second);
      REQUIRE(checkpoint.state().at(path) == walk.node());
      if (!path.empty()) REQUIRE(checkpoint.state().at("/" + path + "/") == walk.node());
      const auto keys = checkpoint.state().resolve(path);
      REQUIRE(keys);
      REQUIRE(checkpoint.state().at(keys->to_string()) == walk.node());
      REQUIRE(printed_path(checkpoint.state(), *keys) == path);
      REQUIRE(paths.path(walk.node()) == path);
      REQUIRE(find_path(checkpoint.catalog().tables(), walk.node().number()) == path);
    }
  }
}

TEST_CASE("The error for a path with the wrong kind of key names the right key") {
  const Checkpoint checkpoint = open(Value::dict(
      {{"7", Value::null()}, {std::int64_t{8}, Value::null()}, {"other", Value::null()}}));
  const auto hint = [&](std::string_view path) {
    const auto found = checkpoint.state().at(path);
    REQUIRE_FALSE(found);
    const std::string& message = found.error().message;
    const auto at = message.find("did you mean");
    return at == std::string::npos ? "" : message.substr(at);
  };
  CHECK(hint("~28") == "did you mean '8', the int key?");
  CHECK(hint("9").empty());
  CHECK(hint("nothing").empty());
}

TEST_CASE(
    "The error for a missing path says what was probably meant, from the node that was asked") {
  Value many = Value::dict();
  for (int i = 0; i < 300; ++i) REQUIRE(many.set("layer_" + std::to_string(i), Value::null()));
  const Checkpoint checkpoint = open(Value::dict(
      {{"model", Value::dict({{"weight", Value::null()}, {"a/b", Value::dict({{"c", 1}})}})},
       {"many", std::move(many)}}));
  const auto hint = [](const auto& found) -> std::string {
    REQUIRE_FALSE(found);
    CHECK(found.error().code == ErrorCode::kNotFound);
    const std::string& message = found.error().message;
    const auto at = message.find("; did you mean");
    return at == std::string::npos ? "" : message.substr(at);
  };
  const NodeRef root = checkpoint.state();
  const NodeRef model = root.at("model").value();
  CHECK(hint(root.at("model/wieght")) == "; did you mean 'model/weight'?");
  CHECK(hint(root.at(KeyPath{"model", "wieght"})) == "; did you mean 'model/weight'?");
  CHECK(hint(root.resolve("model/wieght")) == "; did you mean 'model/weight'?");
  CHECK(hint(root.at("weight")) == "; did you mean 'model/weight'?");
  CHECK(hint(model.at("wieght")) == "; did you mean 'weight'?");
  CHECK(hint(model.at("a/b/c")) == "; did you mean 'a~1b/c'?");
  CHECK(hint(root.at("many/layr_277")) == "; did you mean 'many/layer_277'?");
  CHECK(hint(root.at("nothing/like/it")).empty());
  // For callers with words of their own.
  CHECK(hint(resolve_plainly(root, "model/wieght")).empty());
  CHECK(resolve_plainly(root, "model/weight") == KeyPath{"model", "weight"});
  // Joined keys of a long path would take minutes.
  std::string endless;
  for (int i = 0; i < 50'000; ++i) endless += "model/";
  CHECK(hint(root.at(endless)).empty());
}

TEST_CASE("The error for a missing path says how far it leads") {
  const Checkpoint checkpoint = open(Value::dict({{"a", Value::list({Value::integer(5)})}}));
  const auto beyond = checkpoint.state().at("a/7/b");
  REQUIRE_FALSE(beyond);
  CHECK(beyond.error().code == ErrorCode::kNotFound);
  CHECK(beyond.error().path == "a/7/b");
  CHECK(beyond.error().message.find("'a' is a list of 1 without that key") != std::string::npos);
  const auto below = checkpoint.state().at("a/0/b");
  REQUIRE_FALSE(below);
  CHECK(below.error().message.find("'a/0' is a int64") != std::string::npos);
  const auto top = checkpoint.state().at("z");
  REQUIRE_FALSE(top);
  CHECK(top.error().message.find("the root") != std::string::npos);
  const auto none = checkpoint.state().at("a//b");
  REQUIRE_FALSE(none);
  CHECK(none.error().code == ErrorCode::kInvalidKeyPath);
  CHECK(checkpoint.state().at("") == checkpoint.state());
}

TEST_CASE("A node gives its value for its own kind, and nothing for others") {
  const Checkpoint checkpoint = open(Value::list(
      {Value::null(), Value::boolean(true), Value::integer(-3), Value::real(0.5),
       Value::complex({1, 2}), Value::string("s"), Value::bytes(testing::bytes_of<char>({'b'})),
       Value::integer(*BigInt::from_decimal("-99999999999999999999")),
       Value::dict().labelled("L")}));
  const auto at = [&](std::uint32_t i) { return checkpoint.state().child(i); };
  CHECK(at(0).kind() == Kind::kNull);
  CHECK(at(1).as_bool() == true);
  CHECK(at(2).as_int64() == -3);
  CHECK(at(3).as_double() == 0.5);
  CHECK(at(4).as_complex() == Complex(1, 2));
  CHECK(at(5).as_string() == "s");
  CHECK(as_text(*at(6).as_bytes()) == "b");
  CHECK(at(7).as_bigint()->to_decimal() == "-99999999999999999999");
  CHECK(at(8).label() == "L");
  CHECK_FALSE(at(0).label());
  for (std::uint32_t i = 0; i < 9; ++i) {
    CHECK(at(i).as_bool().has_value() == (i == 1));
    CHECK(at(i).as_int64().has_value() == (i == 2));
    CHECK(at(i).as_double().has_value() == (i == 3));
    CHECK(at(i).as_complex().has_value() == (i == 4));
    CHECK(at(i).as_string().has_value() == (i == 5));
    CHECK(at(i).as_bytes().has_value() == (i == 6));
    CHECK(at(i).as_bigint().has_value() == (i == 7));
    CHECK_FALSE(at(i).tensor());
    CHECK(at(i).size() == 0);
  }
}

TEST_CASE("A tensor has its properties") {
  Tensor tensor;
  tensor.dtype = DType::kI4;
  tensor.shape = {3, 4};
  tensor.axis_names = {"rows", ""};
  tensor.data = TensorData::owned(std::vector<std::byte>(6));
  const auto shared = std::make_shared<const Tensor>(tensor);
  tensor.data = TensorData();
  Tensor large;
  large.dtype = DType::kU8;
  large.shape = {kChunkBytes + 5};
  large.data = TensorData::owned(std::vector<std::byte>(kChunkBytes + 5));
  const Checkpoint checkpoint = open(Value::dict({{"a", Value::tensor(shared)},
                                                  {"b", Value::tensor(shared)},
                                                  {"hole", Value::tensor(tensor)},
                                                  {"large", Value::tensor(large)}}));
  CHECK(checkpoint.tensor_count() == 3);
  const TensorRef a = *checkpoint.state().at("a")->tensor();
  CHECK(a == *checkpoint.state().at("b")->tensor());
  CHECK(a.dtype() == DType::kI4);
  CHECK(a.elements() == 12);
  CHECK(a.bytes() == 6);
  CHECK(a.stored_bytes() == 6);
  CHECK(a.axis_names() == std::vector<std::string_view>{"rows", ""});
  CHECK(a.chunk_count() == 1);
  REQUIRE(a.raw_extent());
  CHECK(a.raw_extent()->length == 6);
  CHECK(a.raw_extent()->offset % 64 == 0);
  CHECK(a.content_hash());
  CHECK(tensor_path(a) == "a");
  const TensorRef hole = *checkpoint.state().at("hole")->tensor();
  CHECK(hole.is_placeholder());
  CHECK(hole.bytes() == 6);
  CHECK(hole.stored_bytes() == 0);
  CHECK(hole.chunk_count() == 0);
  CHECK_FALSE(hole.raw_extent());
  CHECK_FALSE(hole.content_hash());
  CHECK(checkpoint.state().at("large")->tensor()->chunk_count() == 2);
  CHECK(checkpoint.state().at("large")->tensor()->raw_extent()->length == kChunkBytes + 5);
}

Value forest() {
  return Value::dict(
      {{"model", Value::dict({{"w", Value::null()},
                              {"layers", Value::list({Value::dict({{"w", Value::null()}}),
                                                      Value::dict({{"b", Value::null()}})})}})},
       {"", Value::tuple()},
       {0, Value::null()},
       {"0", Value::null()},
       {"a/b", Value::dict({{"~", Value::null()}})}});
}

TEST_CASE("A walk visits parents first and children in order") {
  const Checkpoint checkpoint = open(forest());
  CHECK(walk(checkpoint.state()) == Paths{"", "model", "model/w", "model/layers", "model/layers/0",
                                          "model/layers/0/w", "model/layers/1", "model/layers/1/b",
                                          "~2", "0", "~20", "a~1b", "a~1b/~0"});
  CHECK(walk(*checkpoint.state().at("model/layers")) == Paths{"", "0", "0/w", "1", "1/b"});
  CHECK(walk(*checkpoint.state().at("0")) == Paths{""});
}

TEST_CASE("A walk with patterns visits what they select") {
  const Checkpoint checkpoint = open(forest());
  CHECK(walk(checkpoint.state(), {"**/w"}) == Paths{"model/w", "model/layers/0/w"});
  CHECK(walk(checkpoint.state(), {"model/layers/*"}) ==
        Paths{"model/layers/0", "model/layers/0/w", "model/layers/1", "model/layers/1/b"});
  CHECK(walk(checkpoint.state(), {"**/b", "0"}) == Paths{"model/layers/1/b", "0"});
  CHECK(walk(checkpoint.state(), {""}) == walk(checkpoint.state()));
  CHECK(walk(checkpoint.state(), {"nothing/**"}) == Paths{});
  CHECK(walk(checkpoint.state(), {"~20"}) == Paths{"~20"});
  CHECK(walk(checkpoint.state(), {"**"}) == walk(checkpoint.state()));
}

TEST_CASE("A walk skips the nodes that it should skip") {
  const Checkpoint checkpoint = open(forest());
  Paths paths;
  for (Walker walker(checkpoint.state()); walker.next();) {
    paths.emplace_back(walker.path());
    if (walker.path() == "model/layers" || walker.path() == "a~1b") walker.skip_children();
    CHECK(walker.depth() == KeyPath::parse(walker.path())->size());
  }
  CHECK(paths == Paths{"", "model", "model/w", "model/layers", "~2", "0", "~20", "a~1b"});
  Walker root(checkpoint.state());
  CHECK(root.next());
  root.skip_children();
  CHECK_FALSE(root.next());
  CHECK_FALSE(root.next());
}

TEST_CASE("Metadata are separate from the state") {
  const Checkpoint checkpoint =
      open(Value::null(), Value::dict({{"date", Value::string("2026")}, {1, Value::list()}}));
  CHECK(checkpoint.metadata().at("date")->as_string() == "2026");
  CHECK(walk(checkpoint.metadata()) == Paths{"", "date", "1"});
  CHECK(testing::first_difference(
            to_value(checkpoint.metadata()),
            Value::dict({{"date", Value::string("2026")}, {1, Value::list()}})) == "");
}

}  // namespace
}  // namespace espalier
