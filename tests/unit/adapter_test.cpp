#include "espalier/map/adapter.h"

#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/random.h"
#include <doctest/doctest.h>

#include "espalier/native/mapped_checkpoint.h"
#include "espalier/native/save.h"

namespace espalier {
namespace {

using testing::Random;

// A tensor of whole numbers, which doubles hold exactly.
struct Numbers {
  std::vector<std::uint64_t> shape;
  std::vector<double> values;

  friend bool operator==(const Numbers&, const Numbers&) = default;
};
using NumbersByName = std::map<std::string, Numbers>;

std::uint64_t count_of(const std::vector<std::uint64_t>& shape) {
  std::uint64_t count = 1;
  for (const std::uint64_t size : shape) count *= size;
  return count;
}

Numbers random_numbers(Random& random, std::vector<std::uint64_t> shape) {
  Numbers made{std::move(shape), {}};
  for (std::uint64_t i = count_of(made.shape); i > 0; --i) {
    made.values.push_back(static_cast<double>(random.between(-9, 9)));
  }
  return made;
}

KeyMap parsed(std::string_view rules, std::string_view more = "") {
  auto map = KeyMap::parse("{\"espalier_map\": 1, " + std::string(more) + " \"rules\": [" +
                           std::string(rules) + "]}");
  REQUIRE_MESSAGE(map, map.error().message);
  return std::move(*map);
}

CheckpointFile file_of(const NumbersByName& state) {
  Value value = Value::dict();
  for (const auto& [name, numbers] : state) {
    Tensor tensor{.dtype = DType::kF64, .shape = numbers.shape};
    std::vector<std::byte> bytes(numbers.values.size() * sizeof(double));
    std::memcpy(bytes.data(), numbers.values.data(), bytes.size());
    tensor.data = TensorData::owned(std::move(bytes));
    value.add(Key(name), Value::tensor(std::move(tensor)));
  }
  const auto bytes = save_to_memory(value);
  REQUIRE(bytes);
  auto file = CheckpointFile::open(*bytes);
  REQUIRE(file);
  return std::move(*file);
}

struct Made {
  NumbersByName state;
  std::optional<MapAdapter> adapter;
  std::vector<MapWork> works;
};

Result<Made> try_map(const KeyMap& map, const NumbersByName& state, const LiftOptions& lift) {
  MappedOptions options;
  options.lift = lift;
  options.targets.memory = 1;
  const auto mapped = MappedCheckpoint::make(map, {{file_of(state)}}, options);
  if (!mapped) return propagate(mapped);
  if (auto ok = mapped->check(); !ok) return propagate(ok);
  const auto file = mapped->open();
  if (!file) return propagate(file);
  Made made;
  made.adapter = mapped->plan().adapter();
  for (const MapTarget& target : mapped->plan().targets()) {
    made.works.push_back(target.work);
    const auto view = file->slice(*file->state().find(KeyView::of(target.name))->tensor(), {});
    if (!view) return propagate(view);
    Numbers numbers{view->shape, std::vector<double>(view->bytes.size() / sizeof(double))};
    std::memcpy(numbers.values.data(), view->bytes.data(), view->bytes.size());
    made.state[target.name] = std::move(numbers);
  }
  return made;
}

Made map_it(const KeyMap& map, const NumbersByName& state, const LiftOptions& lift) {
  auto made = try_map(map, state, lift);
  REQUIRE_MESSAGE(made, made.error().message);
  return std::move(*made);
}

std::string problem(const KeyMap& map, const NumbersByName& state, const LiftOptions& lift) {
  const auto made = try_map(map, state, lift);
  REQUIRE_FALSE(made);
  return std::string(to_string(made.error().code)) + ": " + made.error().message;
}

// A weight: its axes, each a letter (o is of rows, i of columns, s stacks) and a size.
struct Weight {
  std::string axes;
  std::vector<std::uint64_t> shape;
  // 0 for one without an adapter.
  std::uint64_t rank = 0;
};
using Weights = std::map<std::string, Weight>;

std::vector<std::uint64_t> shape_along(const Weight& weight, char own, std::uint64_t rank) {
  std::vector<std::uint64_t> shape;
  for (const char role : {'s', own}) {
    if (own == 'i' && role == own) shape.push_back(rank);
    for (std::size_t i = 0; i < weight.axes.size(); ++i) {
      if (weight.axes[i] == role) shape.push_back(weight.shape[i]);
    }
  }
  if (own == 'o') shape.push_back(rank);
  return shape;
}

// The position in a factor of an element of the weight.
std::uint64_t position(const std::string& axes, const std::vector<std::uint64_t>& shape,
                       const std::vector<std::uint64_t>& at, char own, std::uint64_t rank,
                       std::uint64_t r) {
  std::uint64_t index = 0;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] == 's') index = index * shape[i] + at[i];
  }
  if (own == 'i') index = index * rank + r;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] == own) index = index * shape[i] + at[i];
  }
  return own == 'o' ? index * rank + r : index;
}

// scale * B * A, laid out as the weight.
Numbers product(const std::string& axes, const std::vector<std::uint64_t>& shape, const Numbers& a,
                const Numbers& b, std::uint64_t rank, double scale) {
  Numbers made{shape, std::vector<double>(count_of(shape))};
  std::vector<std::uint64_t> at(shape.size(), 0);
  for (double& value : made.values) {
    for (std::uint64_t r = 0; r < rank; ++r) {
      value += scale * b.values[position(axes, shape, at, 'o', rank, r)] *
               a.values[position(axes, shape, at, 'i', rank, r)];
    }
    for (std::size_t i = at.size(); i > 0 && ++at[i - 1] == shape[i - 1]; --i) at[i - 1] = 0;
  }
  return made;
}

std::string module_named(const std::string& weight) {
  const std::size_t end = weight.rfind('.');
  const std::string last = weight.substr(end + 1);
  return last == "weight" || last == "kernel" ? weight.substr(0, end) : weight;
}

constexpr const char* kNames = "{module}.lora_{A|B}.weight";

// The weights after the map with the product are those with the product of the mapped factors.
// `roles` are the axes of the targets by their names. Returns the modules of the adapter.
std::map<std::string, MapAdapted> check_product(const KeyMap& map, const Weights& weights,
                                                const std::map<std::string, std::string>& roles,
                                                LiftOptions lift, double scale = 3) {
  Random random(7);
  NumbersByName base;
  NumbersByName with;
  NumbersByName factors;
  for (const auto& [name, weight] : weights) {
    base[name] = random_numbers(random, weight.shape);
    with[name] = base[name];
    if (weight.rank == 0) continue;
    const std::string module = module_named(name);
    Numbers& a = factors[module + ".lora_A.weight"] =
        random_numbers(random, shape_along(weight, 'i', weight.rank));
    Numbers& b = factors[module + ".lora_B.weight"] =
        random_numbers(random, shape_along(weight, 'o', weight.rank));
    const Numbers delta = product(weight.axes, weight.shape, a, b, weight.rank, scale);
    for (std::size_t i = 0; i < delta.values.size(); ++i) with[name].values[i] += delta.values[i];
  }
  if (lift.lora.empty()) lift.lora = {kNames};
  LiftOptions plain = lift;
  plain.lora.clear();
  const Made before = map_it(map, base, plain);
  const Made wanted = map_it(map, with, plain);
  const Made made = map_it(map, factors, lift);
  std::map<std::string, MapAdapted> modules;
  REQUIRE(made.adapter);
  for (const MapAdapted& each : made.adapter->modules) modules[each.module] = each;
  std::size_t used = 0;
  for (const auto& [name, after] : wanted.state) {
    const std::string module = module_named(name);
    const Numbers& old = before.state.at(name);
    const auto a = made.state.find(module + ".lora_A.weight");
    if (a == made.state.end()) {
      CHECK_MESSAGE(after == old, name);
      continue;
    }
    used += 2;
    const MapAdapted& adapted = modules.at(module);
    REQUIRE(adapted.alpha);
    const double own = *adapted.alpha / static_cast<double>(adapted.rank);
    const std::string axes = roles.count(name) > 0 ? roles.at(name) : "oi";
    Numbers sum = product(axes, old.shape, a->second, made.state.at(module + ".lora_B.weight"),
                          adapted.rank, own);
    for (std::size_t i = 0; i < sum.values.size(); ++i) sum.values[i] += old.values[i];
    CHECK_MESSAGE(sum == after, name);
  }
  CHECK(used == made.state.size());
  return modules;
}

LiftOptions with_alpha(std::uint64_t alpha, Sizes sizes = {}) {
  LiftOptions lift;
  lift.plan.sizes = std::move(sizes);
  lift.plan.sizes["lora_alpha"] = alpha;
  return lift;
}

LiftOptions reversed(LiftOptions lift) {
  lift.plan.reverse = true;
  return lift;
}

TEST_CASE("Rows of a weight are those of B, and columns those of A") {
  const KeyMap map =
      parsed(R"("a.weight [(h p 2) (m 3)] <-> b.weight [(h 2 p) (3 m)]")", R"("sizes": {"p": 2},)");
  check_product(map, {{"a.weight", {"oi", {12, 6}, 2}}}, {}, with_alpha(6));
  check_product(map, {{"b.weight", {"oi", {12, 6}, 2}}}, {}, reversed(with_alpha(6)));
}

TEST_CASE("Joined rows have stacked ranks, and a part without factors is zero") {
  const KeyMap map = parsed(
      R"("q.{i}.weight [(g r d) n], k.{i}.weight [(g d) n], v.{i}.weight [(g d) n] <-> qkv.{i}.weight [(g (r+1+1) d) n]")",
      R"("sizes": {"g": 3, "d": 2},)");
  const Weights apart = {{"q.0.weight", {"oi", {12, 5}, 2}}, {"k.0.weight", {"oi", {6, 5}, 2}},
                         {"v.0.weight", {"oi", {6, 5}, 2}},  {"q.1.weight", {"oi", {12, 5}, 2}},
                         {"k.1.weight", {"oi", {6, 5}, 0}},  {"v.1.weight", {"oi", {6, 5}, 2}}};
  const auto modules = check_product(map, apart, {}, with_alpha(6));
  CHECK(modules.at("qkv.0").rank == 6);
  CHECK(*modules.at("qkv.0").alpha == 18);
  CHECK(modules.at("qkv.1").rank == 4);
  // Taken apart, each has the whole A.
  const auto parts =
      check_product(map, {{"qkv.0.weight", {"oi", {24, 5}, 2}}}, {}, reversed(with_alpha(6)));
  CHECK(parts.at("v.0").rank == 2);
  CHECK(*parts.at("v.0").alpha == 6);
}

TEST_CASE("Joined columns have stacked ranks, too") {
  const KeyMap map = parsed(R"("s{r}.w.weight [m n] <-> w.weight [m (r n)]")");
  check_product(map, {{"s0.w.weight", {"oi", {3, 4}, 2}}, {"s1.w.weight", {"oi", {3, 4}, 2}}}, {},
                with_alpha(6));
  check_product(map, {{"w.weight", {"oi", {3, 8}, 2}}}, {}, reversed(with_alpha(6, {{"r", 2}})));
}

TEST_CASE("Parts change places in rows and in columns") {
  const KeyMap map = parsed(
      R"("a.weight [x+y n+m], b.weight [z n+m] <-> c.weight [y+z+x m+n]", "? d.weight [u+v n] <-> e.weight [v+u n]")",
      R"("sizes": {"x": 2, "n": 3},)");
  check_product(map,
                {{"a.weight", {"oi", {5, 7}, 2}},
                 {"b.weight", {"oi", {4, 7}, 2}},
                 {"d.weight", {"oi", {5, 3}, 2}}},
                {}, with_alpha(6, {{"u", 1}}));
  check_product(map, {{"c.weight", {"oi", {9, 7}, 2}}}, {},
                reversed(with_alpha(6, {{"y", 3}, {"u", 1}})));
}

TEST_CASE("Blocks that rows and columns do not choose apart have a rank each") {
  const KeyMap map = parsed(
      R"("a.weight [x+y n+m], b.weight [x m], c.weight [y n] <-> e.weight [x m], f.weight [y n], d.weight [x+y n+m]")",
      R"("sizes": {"x": 2, "n": 3},)");
  // Of a, d gets the blocks [x n] and [y m].
  const auto modules = check_product(map,
                                     {{"a.weight", {"oi", {5, 7}, 1}},
                                      {"b.weight", {"oi", {2, 4}, 1}},
                                      {"c.weight", {"oi", {3, 3}, 1}}},
                                     {}, with_alpha(3));
  CHECK(modules.at("d").rank == 4);
  CHECK(modules.at("e").rank == 1);
}

TEST_CASE("Transposed weights keep A as the factor of the input") {
  const KeyMap map =
      parsed(R"("a.weight [o i] <-> a.kernel [i o]", "b.weight [(h d) n] <-> b.kernel [n h d]")",
             R"("sizes": {"h": 3},)");
  const auto modules =
      check_product(map, {{"a.weight", {"oi", {4, 3}, 2}}, {"b.weight", {"oi", {6, 5}, 2}}},
                    {{"a.kernel", "io"}, {"b.kernel", "ioo"}}, with_alpha(6));
  CHECK(modules.at("b").rank == 2);
  check_product(map, {{"a.kernel", {"io", {3, 4}, 2}}, {"b.kernel", {"ioo", {5, 3, 2}, 2}}}, {},
                reversed(with_alpha(6)));
  // [in out] of Conv1D.
  LiftOptions conv = with_alpha(6);
  conv.plan.config = [](const std::string& word) {
    return word == "fan_in_fan_out" ? std::optional(1.0) : std::nullopt;
  };
  check_product(parsed(R"("c.weight [n (q h)] <-> c.weight [n (h q)]")", R"("sizes": {"q": 3},)"),
                {{"c.weight", {"io", {4, 6}, 2}}}, {{"c.weight", "io"}}, conv);
}

TEST_CASE("Experts and layers are stacked in both factors, or joined in an axis") {
  const KeyMap map = parsed(
      R"("l.{i}.e.{x}.w1.weight [f n], l.{i}.e.{x}.w3.weight [f n] <-> gate_up [i x f+f n]",
         "? l.{i}.e.{x}.w2.weight [n f] <-> down [(x n) i f]", "l.{i}.o.weight [n h] <-> o.kernel [h i n]")",
      R"("sizes": {"n": 3},)");
  Weights apart;
  for (const std::string i : {"0", "1"}) {
    for (const std::string x : {"0", "1", "2"}) {
      const std::string name = "l." + i + ".e." + x;
      apart[name + ".w1.weight"] = {"oi", {2, 3}, 2};
      apart[name + ".w3.weight"] = {"oi", {2, 3}, 2};
      apart[name + ".w2.weight"] = {"oi", {3, 2}, 2};
    }
    apart["l." + i + ".o.weight"] = {"oi", {3, 5}, 2};
  }
  const auto modules = check_product(
      map, apart, {{"gate_up", "ssoi"}, {"down", "osi"}, {"o.kernel", "iso"}}, with_alpha(6));
  CHECK(modules.at("gate_up").rank == 4);
  CHECK(modules.at("down").rank == 6);
  CHECK(modules.at("o").rank == 2);
  check_product(map, {{"gate_up", {"ssoi", {2, 3, 4, 3}, 2}}, {"o.kernel", {"iso", {5, 2, 3}, 2}}},
                {}, reversed(with_alpha(6)));
}

TEST_CASE("Padding has rows of zeros, and other alphas are folded into B where that is exact") {
  const KeyMap map = parsed(
      R"("? a.weight [v n], pad [p n] <-> b.weight [v+p n]", "? c.weight [x n], d.weight [y n] <-> e.weight [x+y n]", "? f.weight [o i] * 4 <-> g.weight [o i]")");
  LiftOptions lift = with_alpha(6, {{"p", 2}});
  check_product(map, {{"a.weight", {"oi", {4, 3}, 2}}, {"f.weight", {"oi", {2, 3}, 2}}}, {}, lift);
  check_product(map, {{"b.weight", {"oi", {6, 3}, 2}}}, {}, reversed(lift));
  // 8/2 and 8/4.
  NumbersByName factors = {{"c.lora_A.weight", {{1, 1}, {1}}},
                           {"c.lora_B.weight", {{1, 1}, {5}}},
                           {"d.lora_A.weight", {{2, 1}, {1, 1}}},
                           {"d.lora_B.weight", {{1, 2}, {5, 7}}}};
  lift.lora = {kNames};
  const Made made = map_it(map, factors, lift);
  CHECK(made.state.at("e.lora_B.weight") == Numbers{{2, 3}, {10, 0, 0, 0, 5, 7}});
  CHECK(made.state.at("e.lora_A.weight") == Numbers{{3, 1}, {1, 1, 1}});
  CHECK(*made.adapter->modules.front().alpha == 9);
  // 10/10 and 3/3, whose quotients are not exact.
  lift.plan.config = [](const std::string& word) {
    const std::map<std::string, double> numbers = {
        {"alpha_pattern", 2}, {"alpha_pattern.c", 10}, {"alpha_pattern.d", 3}};
    const auto found = numbers.find(word);
    return found == numbers.end() ? std::nullopt : std::optional(found->second);
  };
  const NumbersByName tens = {{"c.lora_A.weight", {{10, 1}, std::vector<double>(10, 1)}},
                              {"c.lora_B.weight", {{1, 10}, std::vector<double>(10, 1)}},
                              {"d.lora_A.weight", {{3, 1}, std::vector<double>(3, 1)}},
                              {"d.lora_B.weight", {{1, 3}, std::vector<double>(3, 1)}}};
  CHECK(*map_it(map, tens, lift).adapter->modules.front().alpha == 13);
  lift.plan.config = nullptr;
  lift.plan.numbers["use_rslora"] = 1;
  CHECK(problem(map, factors, lift) ==
        "map_not_invertible: rule 2: 'd.lora_B.weight' and 'c.lora_B.weight' are scaled by numbers "
        "whose ratio 1.4142135623730952 is no power of 2, so that no alpha is exact for "
        "'e.weight'; train them with one alpha/r, or merge the adapter into its base, and map "
        "that");
}

}  // namespace
}  // namespace espalier
