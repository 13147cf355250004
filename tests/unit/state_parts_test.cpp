#include "espalier/health/state_parts.h"

#include <string>
#include <utility>
#include <vector>

#include "../support/memory_file.h"
#include <doctest/doctest.h>

#include "espalier/health/segment_trail.h"
#include "espalier/walker.h"

namespace espalier {
namespace {

Value empty_tensor(DType dtype, std::vector<std::uint64_t> shape) {
  Tensor tensor;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  return Value::tensor(std::move(tensor));
}

Value weight(std::uint64_t rows = 4, std::uint64_t columns = 3) {
  return empty_tensor(DType::kF32, {rows, columns});
}

Value network() {
  return Value::dict({{"dense", Value::dict({{"kernel", weight()}, {"bias", weight(1)}})},
                      {"out", Value::dict({{"kernel", weight(9)}})}});
}

// The parts of paths, as "w", "o" or "r" in their order.
std::string parts_of(const Value& state, const std::vector<std::string>& paths) {
  const auto file = testing::write_file(state);
  REQUIRE(file);
  const auto checkpoint = testing::open_file(*file);
  REQUIRE(checkpoint);
  const auto parts = state_parts(*checkpoint);
  std::string text;
  for (const std::string& path : paths) {
    const auto node = checkpoint->state().at(path);
    REQUIRE_MESSAGE(node, path);
    text += state_part_name(parts[node->number()])[0];
  }
  return text;
}

std::string part_of_flat(const std::string& name, Value tensor) {
  const auto file = testing::write_file(Value::dict({{name, std::move(tensor)}}));
  REQUIRE(file);
  const auto checkpoint = testing::open_file(*file);
  REQUIRE(checkpoint);
  return std::string(
      state_part_name(state_parts(*checkpoint)[checkpoint->state().child(0).number()]));
}

TEST_CASE("Segments that name an optimizer, and no others") {
  for (const char* name :
       {"optimizer.state.0.exp_avg", "critic_optim.1.x", "opt_state.0.mu.w", "OPT.w", "gen_opt.w",
        "a/optimizers/0/w", "solver.state.0.exp_avg", "x.square_avg"}) {
    CHECK_MESSAGE(part_of_flat(name, weight()) == "optimizer", name);
  }
  for (const char* name : {"optics.w", "opt-125m.decoder.w", "model.opt_proj.w", "optimal.w",
                           "encoder.mu.w", "model.trace.w", "coptimizer.w"}) {
    CHECK_MESSAGE(part_of_flat(name, weight()) == "weights", name);
  }
}

TEST_CASE(
    "A trail says of a path what it says of it alone, and tails are equal where their texts are") {
  const Value same = Value::dict({{"b.c", weight()}, {"d", Value::list({weight(), weight()})}});
  Value deep = weight();
  for (int i = 0; i < 70; ++i) deep = Value::dict({{i % 2 == 0 ? "a.b" : "c", std::move(deep)}});
  const auto file =
      testing::write_file(Value::dict({{"opt", same},
                                       {"x/y", same},
                                       {"z", Value::dict({{"opt", same}, {"", same}})},
                                       {"deep", deep}}));
  REQUIRE(file);
  const auto checkpoint = testing::open_file(*file);
  REQUIRE(checkpoint);
  SegmentTrail trail;
  std::vector<std::uint64_t> tails;
  std::uint64_t other = 0;
  std::size_t visited = 0;
  for (Walker walk(checkpoint->state()); walk.next(); ++visited) {
    trail.enter(walk.depth(), walk.path());
    SegmentTrail alone;
    alone.enter(0, walk.path());
    const auto segments = trail.segments();
    REQUIRE(segments.size() == alone.segments().size());
    CHECK(segments.size() <= SegmentTrail::kMost);
    for (std::size_t i = 0; i < segments.size(); ++i) {
      CHECK(segments[i].path == alone.segments()[i].path);
      CHECK(trail.tail(i) == alone.tail(i));
    }
    const std::string path(walk.path());
    if (path == "opt/d/0") other = trail.tail(0);
    if (path == "opt/d/1") tails.push_back(trail.tail(0));
    if (path == "x~1y/d/1") tails.push_back(trail.tail(1));
    if (path == "z/opt/d/1") tails.push_back(trail.tail(1));
  }
  CHECK(visited == 93);
  REQUIRE(tails.size() == 3);
  CHECK(tails[0] == tails[1]);
  CHECK(tails[0] == tails[2]);
  CHECK(tails[0] != other);
}

TEST_CASE("What training does not learn") {
  CHECK(part_of_flat("bn.running_var", empty_tensor(DType::kF32, {3})) == "rest");
  CHECK(part_of_flat("bn.running_mean", empty_tensor(DType::kF32, {3})) == "rest");
  CHECK(part_of_flat("step", empty_tensor(DType::kF32, {})) == "rest");
  CHECK(part_of_flat("rng", empty_tensor(DType::kU8, {5056})) == "rest");
  CHECK(part_of_flat("mask", empty_tensor(DType::kBool, {8, 8})) == "rest");
  CHECK(part_of_flat("position_ids", empty_tensor(DType::kI64, {1, 77})) == "rest");
  // A quantised matrix, and a temperature.
  CHECK(part_of_flat("w", empty_tensor(DType::kI8, {8, 8})) == "weights");
  CHECK(part_of_flat("logit_scale", empty_tensor(DType::kF32, {})) == "weights");
  const Value state = Value::dict(
      {{"model", Value::dict({{"temperature", empty_tensor(DType::kF32, {})}, {"w", weight()}})},
       {"train", Value::dict({{"loss", empty_tensor(DType::kF32, {})}})}});
  CHECK(parts_of(state, {"model/temperature", "model/w", "train/loss"}) == "wwr");
}

TEST_CASE("What stands beside a name of optimizers belongs to one") {
  const Value state = Value::dict(
      {{"net", network()},
       {"solver", Value::dict({{"state", Value::dict({{"a", Value::dict({{"exp_avg", weight()},
                                                                         {"row", weight(1)}})}})},
                               {"x", weight()}})}});
  CHECK(parts_of(state, {"net/out/kernel", "solver/state/a/exp_avg", "solver/state/a/row",
                         "solver/x"}) == "woow");
}

TEST_CASE("Copies of all weights beside each other are averages of gradients") {
  const auto solver = [](Value one, Value other) {
    return Value::dict({{"net", network()},
                        {"solver", Value::dict({{"first", std::move(one)},
                                                {"second", std::move(other)},
                                                {"scale", weight(1)}})}});
  };
  const std::vector<std::string> paths = {"net/dense/kernel", "solver/first/dense/kernel",
                                          "solver/second/out/kernel", "solver/scale"};
  CHECK(parts_of(solver(network(), network()), paths) == "wooo");
  // One may be an average of the weights; and other shapes are another model.
  CHECK(parts_of(solver(network(), Value::dict({{"out", Value::dict({{"kernel", weight(8)}})}})),
                 paths) == "wwww");
}

TEST_CASE("Copies of a block are layers") {
  const Value state = Value::dict(
      {{"shared", network()}, {"stack", Value::list({network(), network(), network()})}});
  CHECK(parts_of(state, {"shared/out/kernel", "stack/0/out/kernel", "stack/2/out/kernel"}) ==
        "www");
}

TEST_CASE("Averages beside the weights are told by their names") {
  const Value state =
      Value::dict({{"params", network()}, {"m", network()}, {"v", network()}, {"ema", network()}});
  CHECK(parts_of(state, {"params/out/kernel", "m/out/kernel", "v/dense/bias", "ema/out/kernel"}) ==
        "woow");
  // A module of this name has some of the shapes.
  const Value module = Value::dict(
      {{"params", network()}, {"v", Value::dict({{"out", Value::dict({{"kernel", weight(9)}})}})}});
  CHECK(parts_of(module, {"params/out/kernel", "v/out/kernel"}) == "ww");
}

}  // namespace
}  // namespace espalier
