#include "support/mapped.h"

#include <cstring>
#include <numeric>

#include <doctest/doctest.h>

#include "espalier/map/piece_copy.h"

namespace espalier::testing {
namespace {

std::size_t count_of(const std::vector<std::uint64_t>& shape) {
  return static_cast<std::size_t>(
      std::accumulate(shape.begin(), shape.end(), std::uint64_t{1}, std::multiplies<>()));
}

}  // namespace

SmallTensor counting(std::vector<std::uint64_t> shape, std::uint16_t first) {
  SmallTensor tensor{std::move(shape), {}};
  tensor.elements.resize(count_of(tensor.shape));
  std::iota(tensor.elements.begin(), tensor.elements.end(), first);
  return tensor;
}

std::vector<MapLeaf> leaves_of(const SmallState& state) {
  std::vector<MapLeaf> leaves;
  for (const auto& [name, tensor] : state) {
    leaves.push_back(
        {.name = name, .is_tensor = true, .dtype = DType::kU16, .shape = tensor.shape});
  }
  return leaves;
}

KeyMap map_of(std::string_view rules, std::string_view more) {
  const std::string text =
      "{\"espalier_map\": 1, " + std::string(more) + " \"rules\": [" + std::string(rules) + "]}";
  auto map = KeyMap::parse(text);
  REQUIRE_MESSAGE(map, map.error().message);
  return std::move(*map);
}

SmallState made_by(const MapPlan& plan, const SmallState& state, std::uint64_t window) {
  SmallState made;
  const auto source_of = [&](std::uint32_t leaf) -> const SmallTensor& {
    return state.at(plan.leaves()[leaf].name);
  };
  for (const MapTarget& target : plan.targets()) {
    SmallTensor tensor{target.shape, std::vector<std::uint16_t>(count_of(target.shape))};
    if (target.source != MapPiece::kZeros) tensor.elements = source_of(target.source).elements;
    for (const MapPiece& piece : target.pieces) {
      if (piece.source == MapPiece::kZeros) continue;
      const SmallTensor& source = source_of(piece.source);
      const PieceCopy copy(piece, 1, 2);
      const auto* from = reinterpret_cast<const std::byte*>(source.elements.data());
      auto* to = reinterpret_cast<std::byte*>(tensor.elements.data());
      const std::uint64_t source_bytes = source.elements.size() * 2;
      const std::uint64_t target_bytes = tensor.elements.size() * 2;
      const std::uint64_t step = window == 0 ? std::max(source_bytes, target_bytes) : window;
      for (std::uint64_t t = 0; t < target_bytes; t += step) {
        for (std::uint64_t s = 0; s < source_bytes; s += step) {
          const PieceCopy::Window in{s, std::min(s + step, source_bytes)};
          const PieceCopy::Window out{t, std::min(t + step, target_bytes)};
          std::vector<std::uint16_t> before = tensor.elements;
          copy.copy(in, from + s, out, to + t);
          if (!copy.needs(in, out)) CHECK(before == tensor.elements);
        }
      }
    }
    for (const std::string& tied : target.tied) made[tied] = tensor;
    made[target.name] = std::move(tensor);
  }
  return made;
}

SmallState mapped(const KeyMap& map, const SmallState& state, const MapPlanOptions& options) {
  const auto plan = MapPlan::make(map, leaves_of(state), options);
  REQUIRE_MESSAGE(plan, plan.error().message);
  return made_by(*plan, state);
}

}  // namespace espalier::testing
