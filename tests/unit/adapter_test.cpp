#include "espalier/map/adapter.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/random.h"
#include <doctest/doctest.h>

#include "espalier/map/plan.h"
#include "espalier/mapped_checkpoint.h"
#include "espalier/save.h"

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
  std::vector<std::string> notes;
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
  made.notes = mapped->plan().notes();
  for (const MapTarget& target : mapped->plan().targets()) {
    made.works.push_back(target.work);
    const auto view = file->slice(*file->state().find(KeyView::of(target.name))->tensor(), {});
    if (!view) return propagate(view);
    const auto bytes = view->bytes();
    Numbers numbers{view->shape, std::vector<double>(bytes.size() / sizeof(double))};
    std::memcpy(numbers.values.data(), bytes.data(), bytes.size());
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
  for (const auto& entry : wanted.state) {
    const auto& name = entry.first;
    const auto& after = entry.second;
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

// Each module of the weights has 3 times its rank.
AdapterSettings thrice_the_rank(const Weights& weights) {
  AdapterSettings settings;
  settings.alphas.emplace();
  for (const auto& [name, weight] : weights) {
    settings.alphas->emplace_back(module_named(name), static_cast<double>(3 * weight.rank));
  }
  return settings;
}

AdapterSettings settings(const std::string& json) {
  auto read = adapter_settings(json);
  REQUIRE(read);
  return std::move(*read);
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
  const KeyMap conv_map =
      parsed(R"("c.weight [n (q h)] <-> c.weight [n (h q)]")", R"("sizes": {"q": 3},)");
  LiftOptions conv = with_alpha(6);
  conv.lora = {std::string(kNames) + " [r i] [o r] [i o]"};
  check_product(conv_map, {{"c.weight", {"io", {4, 6}, 2}}}, {{"c.weight", "io"}}, conv);
  conv.lora = {"peft"};
  conv.adapter = settings(R"({"fan_in_fan_out": true})");
  const Made made = map_it(conv_map,
                           {{"base_model.model.c.lora_A.weight", {{1, 2}, {7, 8}}},
                            {"base_model.model.c.lora_B.weight", {{6, 1}, {0, 1, 2, 3, 4, 5}}}},
                           conv);
  CHECK(made.state.at("base_model.model.c.lora_A.weight") == Numbers{{1, 2}, {7, 8}});
  CHECK(made.state.at("base_model.model.c.lora_B.weight") == Numbers{{6, 1}, {0, 2, 4, 1, 3, 5}});
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
  lift.adapter = settings(R"({"alpha_pattern": {"c": 10, "d": 3}})");
  const NumbersByName tens = {{"c.lora_A.weight", {{10, 1}, std::vector<double>(10, 1)}},
                              {"c.lora_B.weight", {{1, 10}, std::vector<double>(10, 1)}},
                              {"d.lora_A.weight", {{3, 1}, std::vector<double>(3, 1)}},
                              {"d.lora_B.weight", {{1, 3}, std::vector<double>(3, 1)}}};
  CHECK(*map_it(map, tens, lift).adapter->modules.front().alpha == 13);
  lift.adapter = {};
  lift.plan.sizes["use_rslora"] = 1;
  CHECK(problem(map, factors, lift) ==
        "map_not_invertible: rule 2: 'd.lora_B.weight' and 'c.lora_B.weight' are scaled by numbers "
        "whose ratio 1.4142135623730952 is no power of 2, so that no alpha is exact for "
        "'e.weight'; train them with one alpha/r, or merge the adapter into its base, and map "
        "that");
}

Numbers zeros(std::vector<std::uint64_t> shape) {
  Numbers made{std::move(shape), {}};
  made.values.resize(count_of(made.shape));
  return made;
}

LiftOptions lora(std::string names, Sizes sizes = {}) {
  LiftOptions lift;
  lift.lora = {std::move(names)};
  lift.plan.sizes = std::move(sizes);
  return lift;
}

TEST_CASE("Frameworks lay factors out in their ways, and have names for more than factors") {
  const KeyMap map = parsed(
      R"("model.{i}.q.weight [(h 2 p) n] <-> layers.{i}.q.weight [(h p 2) n]", "? head.weight <-> output.weight", "? model.{i}.q.bias [n] <-> layers.{i}.q.bias [n]")",
      R"("sizes": {"p": 2},)");
  const std::string base = "base_model.model.";
  const NumbersByName peft = {{base + "model.0.q.lora_A.weight", {{1, 2}, {1, 2}}},
                              {base + "model.0.q.lora_B.weight", {{4, 1}, {1, 2, 3, 4}}},
                              {base + "model.0.q.lora_magnitude_vector", {{4}, {5, 6, 7, 8}}},
                              {base + "head.weight", {{1, 2}, {8, 9}}},
                              {base + "model.0.q.bias", {{4}, {1, 2, 3, 4}}}};
  const Made made = map_it(map, peft, lora("peft <-> torchtune"));
  CHECK(made.state == NumbersByName{{"layers.0.q.lora_a.weight", {{1, 2}, {1, 2}}},
                                    {"layers.0.q.lora_b.weight", {{4, 1}, {1, 3, 2, 4}}},
                                    {"layers.0.q.magnitude", {{4}, {5, 7, 6, 8}}},
                                    {"layers.0.q.bias", {{4}, {1, 2, 3, 4}}},
                                    {"output.weight", {{1, 2}, {8, 9}}}});
  LiftOptions back = lora("peft <-> torchtune");
  back.plan.reverse = true;
  CHECK(map_it(map, made.state, back).state == peft);
  const Made mlx =
      map_it(map,
             {{base + "model.0.q.lora_A.default.weight", {{2, 2}, {1, 2, 3, 4}}},
              {base + "model.0.q.lora_B.default.weight", {{4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}}}},
             lora("peft <-> mlx"));
  CHECK(mlx.state == NumbersByName{{"layers.0.q.lora_a", {{2, 2}, {1, 3, 2, 4}}},
                                   {"layers.0.q.lora_b", {{2, 4}, {1, 5, 3, 7, 2, 6, 4, 8}}}});
}

TEST_CASE("The factor A of an embedding has its rows") {
  const KeyMap map = parsed(R"("embed.weight [v n], pad [p n] <-> wte.embedding [v+p n]")",
                            R"("sizes": {"p": 1},)");
  const NumbersByName peft = {{"base_model.model.embed.lora_embedding_A", {{1, 3}, {1, 2, 3}}},
                              {"base_model.model.embed.lora_embedding_B", {{2, 1}, {4, 5}}}};
  const Made made = map_it(map, peft, lora("peft"));
  CHECK(made.state ==
        NumbersByName{{"base_model.model.wte.lora_embedding_A", {{1, 4}, {1, 2, 3, 0}}},
                      {"base_model.model.wte.lora_embedding_B", {{2, 1}, {4, 5}}}});
  CHECK(problem(map, peft, lora("peft <-> torchtune")) ==
        "map_unmatched: 'base_model.model.embed.lora_embedding_A' has no name on the other side as "
        "'peft <-> torchtune' says; give one with --lora");
}

TEST_CASE("A map may name the factors, labels and --at stand before them") {
  const KeyMap map =
      parsed(R"("rank{r}::w.weight [m n] <-> w.weight [m (r n)]")",
             R"("lora": {"left": ["{module}.lora_{A|B}"], "right": ["x.{module}.{down|up}"]},)");
  const NumbersByName factors = {{"rank0::w.lora_A", {{1, 1}, {3}}},
                                 {"rank0::w.lora_B", {{2, 1}, {1, 2}}},
                                 {"rank1::w.lora_A", {{1, 1}, {4}}},
                                 {"rank1::w.lora_B", {{2, 1}, {5, 6}}}};
  LiftOptions lift;
  lift.plan.sizes["lora_alpha"] = 2;
  CHECK(map_it(map, factors, lift).state ==
        NumbersByName{{"x.w.down", {{2, 2}, {3, 0, 0, 4}}}, {"x.w.up", {{2, 2}, {1, 5, 2, 6}}}});
  // Without factors, the map is one of weights.
  CHECK(map_it(map, {{"rank0::w.weight", {{1, 1}, {3}}}}, lift).state.count("w.weight") == 1);
  CHECK(parsed("\"a <-> b\"").canonical().find("lora") == std::string::npos);
  CHECK(map.canonical().find(R"("lora":{"left":["{module}.lora_{A|B}"])") != std::string::npos);
  for (const auto& [member, why] : std::vector<std::pair<std::string, std::string>>{
           {"\"lora\": 7,", "\"lora\" is no object"},
           {"\"lora\": {\"up\": \"peft\"},", "\"lora\" has left and right"},
           {"\"lora\": {\"left\": \"peft\"},", "1 names on the left and 0 on the right"}}) {
    const auto bad =
        KeyMap::parse("{\"espalier_map\": 1, " + member + " \"rules\": [\"a <-> b\"]}");
    REQUIRE_FALSE(bad);
    CHECK(bad.error().message.find(why) != std::string::npos);
  }
  const NumbersByName below = {
      {"adapter.w.a", {{1, 1}, {3}}}, {"adapter.w.b", {{2, 1}, {1, 2}}}, {"steps", {{1}, {7}}}};
  LiftOptions at = lora("{module}.{a|b}");
  at.at = "adapter";
  CHECK(map_it(parsed(R"("w.weight [o i] <-> v.weight [-o i]")"), below, at).state ==
        NumbersByName{{"adapter.v.a", {{1, 1}, {3}}},
                      {"adapter.v.b", {{2, 1}, {2, 1}}},
                      {"steps", {{1}, {7}}}});
}

TEST_CASE("What was trained without alpha is scaled by that of its pattern") {
  const KeyMap map = parsed(R"("a.{w:q|k}.weight <-> b.{w:q|k}.weight")");
  LiftOptions lift = lora(kNames);
  lift.adapter = settings(R"({"lora_alpha": 4, "alpha_pattern": {"k": 6}})");
  const NumbersByName factors = {{"a.q.lora_A.weight", zeros({2, 3})},
                                 {"a.q.lora_B.weight", zeros({4, 2})},
                                 {"a.k.lora_A.weight", zeros({1, 3})},
                                 {"a.k.lora_B.weight", zeros({4, 1})}};
  const Made made = map_it(map, factors, lift);
  CHECK(
      adapter_config(*made.adapter) ==
      R"({"r":1,"lora_alpha":6,"use_rslora":false,"rank_pattern":{"b.q":2},"alpha_pattern":{"b.q":4},"target_modules":["b.k","b.q"]})");
  // A layer that the adapter lacks is no reason to forget the others.
  lift.adapter = settings(R"({"lora_alpha": 4, "alpha_pattern": {"k": 6, "v": 7}})");
  const Made other = map_it(map, factors, lift);
  CHECK(adapter_config(*other.adapter) == adapter_config(*made.adapter));
  CHECK(other.notes ==
        std::vector<std::string>{"'v' in \"alpha_pattern\" is the end of no module's name"});
  // A pattern that is no name would be another alpha for what it fits.
  lift.adapter = settings(R"({"lora_alpha": 4, "alpha_pattern": {"k": 6, "[qk]": 7}})");
  const Made none = map_it(map, factors, lift);
  CHECK_FALSE(none.adapter->modules.front().alpha);
  REQUIRE(none.notes.size() == 1);
  CHECK(none.notes.front().starts_with("no alpha is known: '[qk]' in \"alpha_pattern\" is "));
}

TEST_CASE("Errors of adapters name the rule, the tensors and what to do") {
  const NumbersByName q = {{"q.lora_A.weight", zeros({2, 3})}, {"q.lora_B.weight", zeros({4, 2})}};
  const auto says = [](const std::string& rules, const NumbersByName& state,
                       const LiftOptions& lift = lora(kNames), const std::string& more = "") {
    return problem(parsed(rules, more), state, lift);
  };
  const auto with = [&](NumbersByName more) {
    more.insert(q.begin(), q.end());
    return more;
  };
  CHECK(says("\"x.weight <-> y.weight\"", q) ==
        "map_unmatched: no rule takes 'q.weight', the weight of 'q.lora_A.weight'; add a rule, or "
        "\"rest\": \"keep\" or \"drop\"");
  CHECK(says("\"q.weight <-> y.weight\"", {{"q.weight", zeros({2, 2})}}) ==
        "map_unmatched: nothing is called as '{module}.lora_{A|B}.weight' says; check the names, "
        "and --at if they stand below another one");
  CHECK(says("\"q.weight <-> y.weight\"", {{"q.lora_A.weight", zeros({2, 3})}}) ==
        "map_incomplete: found 'q.lora_A.weight' but not 'q.lora_B.weight'");
  CHECK(says("\"q.weight <-> y.weight\"", with({{"q.lora_C", zeros({2})}})) ==
        "map_unmatched: 'q.lora_C' belongs to the adapter, and is no factor as "
        "'{module}.lora_{A|B}.weight' says; name it with --lora, too");
  CHECK(says("\"q.weight <-> y.weight\"", with({{"q.alpha", zeros({})}})) ==
        "map_unmatched: what is no factor of the adapter: no rule takes 'q.alpha'; add a rule, or "
        "\"rest\": \"keep\" or \"drop\"");
  CHECK(says("\"q.weight [o i] <-> y [(o i)]\"", q) ==
        "map_not_invertible: rule 1: axis 0 of 'y' [12] has rows and columns of the weight of "
        "'q.lora_A.weight' and 'q.lora_B.weight', which no factors have; merge the adapter into "
        "its base, and map that");
  CHECK(says("\"q.weight [o i] + k.weight [o i] -> y [o i]\"", q) ==
        "map_not_invertible: weights that the adapter changes: rule 1: it computes a tensor from "
        "'q.weight' and others, and factors have no such sum; merge the adapter into its base, and "
        "map that");
  CHECK(
      says("\"q.weight [a n], k.weight [b n] <-> y [a+b n]\"", q) ==
      "map_undetermined: weights that the adapter changes: rule 1: the size of 'b' cannot be told "
      "from 'k.weight' [b n], which the adapter lacks; give it: --set b=...");
  CHECK(says("\"q.weight [a n], k.weight [b n] <-> y [a+b n]\"",
             with({{"k.lora_A.weight", zeros({2, 3})}, {"k.lora_B.weight", zeros({1, 2})}})) ==
        "map_undetermined: rule 1: the factors of 'y' are joined from 'q.lora_B.weight' and "
        "'k.lora_B.weight', and their alpha follows from those of the parts, which are not known; "
        "pass adapter_config.json as --config, or --set lora_alpha=..., so that the product stays");
  CHECK(says("\"q.weight <-> y.weight\"",
             {{"q.lora_A.weight", zeros({2, 3})}, {"q.lora_B.weight", zeros({4, 3})}}) ==
        "map_shape: rule 1: 'q.lora_A.weight' [2 3] and 'q.lora_B.weight' [4 3] have different "
        "ranks");
  CHECK(says("\"q.weight [o i h w] <-> y.weight [h w i o]\"", q) ==
        "map_shape: rule 1: 'q.lora_A.weight' [2 3] and 'q.lora_B.weight' [4 2] are factors of a "
        "weight of 2 axes, and [o i h w] are 4");
  CHECK(says("\"e.{x}.weight [o i] <-> y [x o i]\"", {{"e.0.lora_A.weight", zeros({2, 3})},
                                                      {"e.0.lora_B.weight", zeros({4, 2})},
                                                      {"e.1.lora_A.weight", zeros({1, 3})},
                                                      {"e.1.lora_B.weight", zeros({4, 1})}}) ==
        "map_shape: rule 1: 'e.0.lora_A.weight' [2 3] and 'e.1.lora_A.weight' [1 3] have different "
        "ranks, and 'y' stacks them; stacked factors have one rank");
  LiftOptions dora = lora("peft", {{"lora_alpha", 1}});
  const std::string base = "base_model.model.";
  const NumbersByName shards = {{base + "w.0.lora_A.weight", zeros({1, 2})},
                                {base + "w.0.lora_B.weight", zeros({3, 1})},
                                {base + "w.0.lora_magnitude_vector", zeros({3})},
                                {base + "w.1.lora_A.weight", zeros({1, 2})},
                                {base + "w.1.lora_B.weight", zeros({3, 1})},
                                {base + "w.1.lora_magnitude_vector", zeros({3})}};
  CHECK(says("\"w.{r}.weight [m n] <-> y.weight [m (r n)]\"", shards, dora) ==
        "map_not_invertible: rule 1: 'base_model.model.w.1.lora_magnitude_vector' has the length "
        "of each row of its weight, and rows of 'y.weight' are put together from several, or taken "
        "apart, or have none; merge the adapter into its base, and map that");
  LiftOptions along = lora(kNames);
  along.along = {"opt.{param}"};
  CHECK(says("\"q.weight <-> y.weight\"", q, along).starts_with("map_invalid: \"along\": "));
  for (const auto& [names, why] : std::vector<std::pair<std::string, std::string>>{
           {"lorax", "is neither a pair of names with {module} nor a framework"},
           {"{module}.{a|b} [r r] [o r]", "has other axes than"},
           {"{module}.{a|b} [r i]", "has axes of the factor A, and none of B"},
           {"{module}.{a|b}.{i}", "is no name with {module} and {A|B} alone"},
           {"{module}.{a|b} <-> {module}.c", "has {A|B} on one side only"}}) {
    CHECK(says("\"q.weight <-> y.weight\"", q, lora(names)).find(why) != std::string::npos);
  }
}

TEST_CASE("Ranks and shapes of a stranger's adapter do not overflow") {
  const auto plan = [](const std::string& rules, std::vector<MapLeaf> leaves, Sizes sizes = {}) {
    LiftOptions lift = lora(kNames, std::move(sizes));
    lift.plan.sizes["lora_alpha"] = 1;
    const auto made = plan_with_adapter(parsed(rules), std::move(leaves), lift);
    return made ? std::string("made") : std::string(to_string(made.error().code));
  };
  const auto tensor = [](const std::string& name, std::vector<std::uint64_t> shape) {
    return MapLeaf{.name = name, .is_tensor = true, .shape = std::move(shape)};
  };
  const std::uint64_t huge = std::uint64_t{1} << 62;
  CHECK(plan("\"q.weight [o i] <-> y.weight [i o]\"",
             {tensor("q.lora_A.weight", {1, huge}), tensor("q.lora_B.weight", {huge, 1})}) ==
        "map_shape");
  CHECK(plan("\"q.weight [o i] <-> y.weight [i o]\"",
             {tensor("q.lora_A.weight", {0, huge}), tensor("q.lora_B.weight", {huge, 0})}) ==
        "map_shape");
  CHECK(plan("\"q.weight [o i], k.weight [p i] <-> y.weight [o+p i]\"",
             {tensor("q.lora_A.weight", {1, 2}), tensor("q.lora_B.weight", {2, 1})},
             {{"p", huge}}) == "map_shape");
  CHECK(plan("\"q.weight [o i], k.weight [p i] <-> y.weight [o+p i]\"",
             {tensor("q.lora_A.weight", {1, 2}), tensor("q.lora_B.weight", {2, 1})},
             {{"p", std::uint64_t{1} << 40}}) == "limit_exceeded");
  std::vector<MapLeaf> experts;
  for (int x = 0; x < 10000; ++x) {
    const std::string name = "e." + std::to_string(x) + ".lora_";
    experts.push_back(tensor(name + "A.weight", {1, 1}));
    experts.push_back(tensor(name + "B.weight", {1, 1}));
  }
  CHECK(plan("\"e.{x}.weight [n f] <-> y.weight [(x n) f]\"", experts) == "limit_exceeded");
  experts.resize(2000);
  CHECK(plan("\"e.{x}.weight [n f] <-> y.weight [(x n) f]\"", experts) == "made");
  // A rank is as large as the file says.
  CHECK(plan("\"q.weight [o i] <-> y.weight [i o]\"",
             {tensor("q.lora_A.weight", {80000, 2}), tensor("q.lora_B.weight", {2, 80000})}) ==
        "made");
}

TEST_CASE("Copies and ties have the same factors under all names, and lost parts are compared") {
  const KeyMap map = parsed(
      R"("? r{r=}.w.weight [o i] <-> w.weight [o i]", "? a.weight [o i] = b.weight [o i] <-> c.weight [o i]", "? d.weight [o i], zeros [p i] <-> e.weight [o+p i]", "? f.weight [o i], zeros [o p] <-> g.weight [o i+p]")");
  const auto factors = [](NumbersByName& state, const std::string& module, double first) {
    state[module + ".lora_A.weight"] = {{1, 2}, {first, 2}};
    state[module + ".lora_B.weight"] = {{3, 1}, {first, 0, 5}};
  };
  NumbersByName state;
  for (const char* module : {"r0.w", "r1.w", "a", "b", "d", "f"}) factors(state, module, 3);
  const LiftOptions lift = lora(kNames, {{"p", 1}, {"r", 2}});
  const Made made = map_it(map, state, lift);
  CHECK(made.state.at("w.lora_B.weight") == Numbers{{3, 1}, {3, 0, 5}});
  CHECK(made.state.at("e.lora_B.weight") == Numbers{{4, 1}, {3, 0, 5, 0}});
  CHECK(made.state.at("g.lora_A.weight") == Numbers{{1, 3}, {3, 2, 0}});
  Made back = map_it(map, made.state, reversed(lift));
  // Further names of one tensor are ties.
  CHECK(back.state.count("r0.w.lora_A.weight") == 1);
  CHECK(back.state.at("d.lora_B.weight") == state.at("d.lora_B.weight"));
  CHECK(back.state.at("f.lora_A.weight") == state.at("f.lora_A.weight"));
  NumbersByName lost = made.state;
  lost["e.lora_B.weight"].values.back() = 1;
  CHECK(problem(map, lost, reversed(lift)).find("'e.lora_B.weight' has a number other than 0") !=
        std::string::npos);
  lost = made.state;
  lost["g.lora_A.weight"].values.back() = 1;
  CHECK(problem(map, lost, reversed(lift)).find("'g.lora_A.weight' has a number other than 0") !=
        std::string::npos);
  factors(state, "b", 4);
  CHECK(problem(map, state, lift).starts_with("map_data: "));
  state["b.lora_A.weight"] = zeros({2, 2});
  state["b.lora_B.weight"] = zeros({3, 2});
  CHECK(problem(map, state, lift) ==
        "map_shape: rule 2: 'a.lora_B.weight' and 'b.lora_B.weight' are of one weight under two "
        "names, and their modules' factors are not alike; leave the factors of one of them");
}

TEST_CASE("Magnitudes follow rows, and are lengths") {
  const KeyMap map = parsed(R"("a.weight [x n] * 2, b.weight [y n] <-> c.weight [y+x n]")");
  NumbersByName state = {{"a.lora_a.weight", zeros({1, 2})}, {"a.lora_b.weight", {{2, 1}, {1, 1}}},
                         {"a.magnitude", {{2}, {3, 4}}},     {"b.lora_a.weight", zeros({1, 2})},
                         {"b.lora_b.weight", zeros({1, 1})}, {"b.magnitude", {{1}, {5}}}};
  const LiftOptions lift = lora("torchtune", {{"lora_alpha", 1}, {"y", 1}});
  const Made made = map_it(map, state, lift);
  CHECK(made.state.at("c.magnitude") == Numbers{{3}, {5, 6, 8}});
  CHECK(made.state.at("c.lora_b.weight") == Numbers{{3, 2}, {0, 0, 2, 0, 2, 0}});
  CHECK(map_it(map, made.state, reversed(lift)).state.at("a.magnitude") == state.at("a.magnitude"));
  state.erase("b.magnitude");
  CHECK(problem(map, state, lift) ==
        "map_incomplete: rule 1: found 'a.magnitude', but no such vector beside 'b.lora_b.weight', "
        "and 'c.weight' joins them");
  state.erase("b.lora_a.weight");
  state.erase("b.lora_b.weight");
  CHECK(problem(map, state, lift).starts_with("map_not_invertible: rule 1: 'a.magnitude' has "));
}

TEST_CASE("With rsLoRA alpha grows with the root of the rank") {
  const KeyMap map = parsed(R"("a.weight [f n], b.weight [f n] <-> c.weight [f+f n]")");
  LiftOptions lift = with_alpha(6);
  lift.lora = {kNames};
  lift.plan.sizes["use_rslora"] = 1;
  const Made made = map_it(map,
                           {{"a.lora_A.weight", zeros({2, 3})},
                            {"a.lora_B.weight", zeros({4, 2})},
                            {"b.lora_A.weight", zeros({2, 3})},
                            {"b.lora_B.weight", zeros({4, 2})}},
                           lift);
  REQUIRE(made.adapter->modules.size() == 1);
  CHECK(made.adapter->is_rank_stabilized);
  CHECK(*made.adapter->modules.front().alpha / 2 == doctest::Approx(6 / std::sqrt(2.0)));
}

TEST_CASE("Axes that are neither rows nor columns have no factors") {
  for (const char* rule :
       {"\"q.weight [o i] <-> y.weight [o i 1]\"", "\"q.weight [o 1] <-> y.weight [o]\""}) {
    const NumbersByName state = {{"q.lora_A.weight", zeros({1, 1})},
                                 {"q.lora_B.weight", zeros({4, 1})}};
    CHECK(problem(parsed(rule), state, lora(kNames))
              .starts_with("map_not_invertible: rule 1: 'y.weight' ["));
  }
}

// A random rule of weights whose rows and columns do not mix: words of rows, words of columns, and
// parts that differ by a word of one of the two.
struct RandomWeights {
  std::string rule;
  Weights sides[2];
  std::map<std::string, std::string> roles[2];
  Sizes sizes;
};

RandomWeights random_weights(std::uint64_t seed) {
  Random random(seed);
  RandomWeights made;
  std::string words[2];  // of rows and of columns
  for (int k = 0; k < 2; ++k) {
    for (std::uint64_t n = random.below(3); n > 0; --n)
      words[k] += static_cast<char>((k == 0 ? 'a' : 'k') + static_cast<int>(words[k].size()));
  }
  const std::size_t parts = 1 + static_cast<std::size_t>(random.below(3));
  const int along = random.one_in(2) ? 0 : 1;
  if (words[1 - along].empty()) words[1 - along] = along == 0 ? "k" : "a";
  for (const std::string& all : words) {
    for (const char word : all) made.sizes[std::string(1, word)] = 1 + random.below(3);
  }
  for (std::size_t part = 0; part < parts; ++part) {
    made.sizes["p" + std::to_string(part)] = 1 + random.below(3);
  }
  for (int side = 0; side < 2; ++side) {
    const bool is_apart = parts > 1 && (random.one_in(2) || side == 1);
    // Two apart sides would be a map for each part.
    const bool is_separate =
        side == 0 ? is_apart : is_apart && made.sides[0].size() == 1 && random.one_in(2);
    const std::size_t tensors = is_separate ? parts : 1;
    for (std::size_t t = 0; t < tensors; ++t) {
      std::vector<std::pair<char, std::vector<std::string>>> axes;
      for (int k = 0; k < 2; ++k) {
        std::vector<std::string> factors;
        for (const char word : words[k]) factors.push_back(std::string(1, word));
        if (k == along) {
          std::string sum;
          for (std::size_t part = 0; part < parts; ++part)
            sum += (part > 0 ? "+p" : "p") + std::to_string(part);
          factors.push_back(is_separate ? "p" + std::to_string(t)
                            : parts > 1 ? '(' + sum + ')'
                                        : sum);
        }
        random.shuffle(factors);
        // The side that is read has its rows first, in as many axes as it likes.
        for (const std::string& factor : factors) {
          if (axes.empty() || axes.back().first != "oi"[k] || random.one_in(3)) {
            axes.push_back({"oi" [k], {}});
          }
          axes.back().second.push_back(factor);
        }
      }
      if (side == 1) random.shuffle(axes);
      const std::string name =
          std::string(side == 0 ? "left" : "right") + std::to_string(t) + ".weight";
      std::string& text = made.rule;
      text += t > 0 ? ", " : side == 1 ? " <-> " : "";
      text += name + " [";
      Weight weight;
      for (const auto& [role, factors] : axes) {
        if (text.back() != '[') text += ' ';
        text += '(';
        std::uint64_t size = 1;
        for (const std::string& factor : factors) {
          if (text.back() != '(') text += ' ';
          text += factor;
          std::uint64_t own = 0;
          if (factor.front() == '(') {
            for (std::size_t part = 0; part < parts; ++part)
              own += made.sizes.at("p" + std::to_string(part));
          } else {
            own = made.sizes.at(factor);
          }
          size *= own;
        }
        text += ')';
        weight.axes += role;
        weight.shape.push_back(size);
      }
      text += ']';
      weight.rank = 1 + random.below(2);
      made.roles[side][name] = weight.axes;
      made.sides[side][name] = weight;
    }
  }
  return made;
}

TEST_CASE("Random rules keep the product") {
  std::size_t joined = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    RandomWeights random = random_weights(seed);
    CAPTURE(seed);
    CAPTURE(random.rule);
    const KeyMap map = parsed('"' + random.rule + '"');
    // One alpha/r for all.
    LiftOptions lift = with_alpha(1, random.sizes);
    lift.adapter = thrice_the_rank(random.sides[0]);
    const auto modules = check_product(map, random.sides[0], random.roles[1], lift);
    joined += random.sides[0].size() > 1 && modules.size() == 1 ? 1 : 0;
    // Rows come first only on the left, so the other way round just what has rows first is read.
    const bool has_rows_first = std::all_of(
        random.sides[1].begin(), random.sides[1].end(),
        [](const auto& each) { return each.second.axes.find("io") == std::string::npos; });
    if (!has_rows_first) continue;
    lift.adapter = thrice_the_rank(random.sides[1]);
    check_product(map, random.sides[1], random.roles[0], reversed(lift));
  }
  CHECK(joined > 40);
}

}  // namespace
}  // namespace espalier
