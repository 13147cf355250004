// Reads the input as leaves of a checkpoint and a key map, plans what the map makes of them in both
// directions, and copies by the plan. The leaves come first, a line each, "f32 4,2
// layers.0.weight", up to an empty line.
#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "fuzz.h"

#include "espalier/format/element_layout.h"
#include "espalier/key_map.h"
#include "espalier/map/lift.h"
#include "espalier/map/piece_copy.h"
#include "espalier/map/plan.h"

namespace {

using namespace espalier;

constexpr std::size_t kMaxLeaves = 200;
// Of one tensor, so that all of them fit in memory.
constexpr std::uint64_t kMaxElements = 4096;

std::string_view take_until(std::string_view& text, char end) {
  const std::size_t at = std::min(text.find(end), text.size());
  const std::string_view taken = text.substr(0, at);
  text.remove_prefix(std::min(at + 1, text.size()));
  return taken;
}

// The leaf of a line; nothing if its tensor would be too large.
std::optional<MapLeaf> leaf_of(std::string_view line) {
  MapLeaf leaf;
  const auto dtype = dtype_from_name(take_until(line, ' '));
  std::string_view shape = take_until(line, ' ');
  leaf.name = line;
  leaf.is_tensor = dtype && *dtype != DType::kOpaque;
  if (!leaf.is_tensor) return leaf;
  leaf.dtype = *dtype;
  std::uint64_t elements = 1;
  while (!shape.empty()) {
    const std::string_view digits = take_until(shape, ',');
    std::uint64_t length = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), length);
    if (length > kMaxElements || elements * length > kMaxElements) return std::nullopt;
    elements *= length;
    leaf.shape.push_back(length);
  }
  return leaf;
}

// Of a tensor that is not too large to be made here: `pad` makes tensors of any size.
std::optional<std::uint64_t> known_elements(std::span<const std::uint64_t> shape) {
  std::uint64_t elements = 1;
  for (const std::uint64_t length : shape) {
    if (length > kMaxElements * kMaxLeaves) return std::nullopt;
    elements *= length;
    if (elements > kMaxElements * kMaxLeaves) return std::nullopt;
  }
  return elements;
}

// Copies each piece between blocks of exactly the tensors' sizes.
void copy(const MapPlan& plan, const MapTarget& target) {
  const auto known = known_elements(target.shape);
  if (!known) return;
  const std::uint64_t elements = *known;
  std::vector<bool> is_made(static_cast<std::size_t>(elements));
  bool has_zeros_below = false;
  for (const MapPiece& piece : target.pieces) {
    // Others may lie in a first piece of zeros.
    if (&piece == &target.pieces.front() && piece.source == MapPiece::kZeros && piece.to == 0 &&
        piece.loops.size() == 1 && piece.loops.front().count == elements) {
      has_zeros_below = true;
      continue;
    }
    if (piece.source != MapPiece::kZeros && piece.steps.empty()) {
      const MapLeaf& leaf = plan.leaves()[piece.source];
      const MapUnit unit = unit_of(leaf);
      const auto bytes_of = [&](std::uint64_t n) {
        return static_cast<std::size_t>((n + unit.elements - 1) / unit.elements * unit.bytes);
      };
      const std::vector<std::byte> source(bytes_of(*known_elements(leaf.shape)));
      std::vector<std::byte> made(bytes_of(elements));
      const PieceCopy copied(piece, unit.elements, unit.bytes);
      fuzz::require(copied.source().end <= source.size() && copied.target().end <= made.size(),
                    "a piece is not within its tensors");
      copied.copy({0, source.size()}, source.data(), {0, made.size()}, made.data());
    }
    std::vector<std::uint64_t> at(piece.loops.size());
    const bool is_empty = std::any_of(piece.loops.begin(), piece.loops.end(),
                                      [](const MapLoop& loop) { return loop.count == 0; });
    for (bool more = !is_empty; more;) {
      std::int64_t to = piece.to;
      for (std::size_t i = 0; i < at.size(); ++i) {
        to += static_cast<std::int64_t>(at[i]) * piece.loops[i].to;
      }
      fuzz::require(to >= 0 && static_cast<std::uint64_t>(to) < elements,
                    "a piece is not within its target");
      fuzz::require(!is_made[static_cast<std::size_t>(to)], "an element is made twice");
      is_made[static_cast<std::size_t>(to)] = true;
      more = false;
      for (std::size_t i = at.size(); i > 0 && !more; --i) {
        more = ++at[i - 1] < piece.loops[i - 1].count;
        if (!more) at[i - 1] = 0;
      }
    }
  }
  fuzz::require(has_zeros_below ||
                    std::all_of(is_made.begin(), is_made.end(), [](bool made) { return made; }),
                "an element is not made");
}

void check(const MapPlan& plan) {
  std::unordered_set<std::string> names;
  for (const MapTarget& target : plan.targets()) {
    fuzz::require(names.insert(target.name).second, "two targets have one name");
    for (const std::string& name : target.tied) {
      fuzz::require(names.insert(name).second, "two targets have one name");
    }
    if (target.source != MapPiece::kZeros) {
      fuzz::require(target.source < plan.leaves().size(), "a target is no leaf's");
      fuzz::require(target.pieces.empty() && target.terms.empty(), "a rename has pieces");
    } else if (target.terms.empty()) {
      copy(plan, target);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<MapLeaf> leaves;
  std::unordered_set<std::string_view> names;
  std::map<std::string, double> numbers;
  for (;;) {
    std::string_view line = take_until(text, '\n');
    if (line.empty()) break;
    if (line.starts_with("= ")) {
      line.remove_prefix(2);
      const std::string word(take_until(line, ' '));
      std::from_chars(line.data(), line.data() + line.size(), numbers[word]);
      continue;
    }
    auto leaf = leaf_of(line);
    if (!leaf || leaves.size() == kMaxLeaves) return 0;
    // A checkpoint has no two leaves of one name.
    if (names.insert(line.substr(line.size() - leaf->name.size())).second) {
      leaves.push_back(std::move(*leaf));
    }
  }
  const auto map = KeyMap::parse(text);
  if (!map) return 0;
  const std::string canonical = map->canonical();
  const auto again = KeyMap::parse(canonical);
  fuzz::require(again.has_value(), "the canonical text is refused");
  fuzz::require(again->canonical() == canonical, "the canonical text changes");
  for (const bool reverse : {false, true}) {
    LiftOptions options;
    options.plan.reverse = reverse;
    options.plan.partial = true;
    options.plan.config = [&](const std::string& word) -> std::optional<double> {
      const auto found = numbers.find(word);
      return found == numbers.end() ? std::nullopt : std::optional(found->second);
    };
    if (!set_numbers(numbers, options.plan)) return 0;
    const auto plan = MapPlan::make(*map, leaves, options.plan);
    if (plan) check(*plan);
    options.scales_moments = true;
    const auto lifted = plan_with_state(*map, leaves, options);
    if (lifted) check(*lifted);
    for (const char* called : {"peft <-> torchtune", "{module}.{a|b} [i r] [r o] <-> mlx"}) {
      options.lora = {called};
      const auto adapter = plan_with_state(*map, leaves, options);
      if (adapter) check(*adapter);
    }
  }
  return 0;
}
