// What a key map makes of one checkpoint: every target, and the elements of the sources that it is
// made of. Made and proved before any tensor is read.
#ifndef ESPALIER_MAP_PLAN_H_
#define ESPALIER_MAP_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/dtype.h"
#include "espalier/error.h"
#include "espalier/key_map.h"
#include "espalier/key_path.h"
#include "espalier/map/axes.h"
#include "espalier/map/key_map_parts.h"

namespace espalier {

/// What a checkpoint has under one name: a tensor, or another value without children.
struct MapLeaf {
  /// As the map's side writes names; of a file with a label, "label::name".
  std::string name;
  bool is_tensor = false;
  /// Whether a tensor has no data.
  bool is_placeholder = false;
  DType dtype = DType::kF32;
  std::vector<std::uint64_t> shape = {};
  /// Of kOpaque: elements and bytes of a block, and its name.
  std::string block_name = {};
  std::uint32_t block_elements = 0;
  std::uint32_t block_bytes = 0;
};

/// What of a tensor cannot be divided: a block, or elements that fill whole bytes together.
struct MapUnit {
  std::uint64_t elements = 1;
  std::uint64_t bytes = 1;
};
MapUnit unit_of(const MapLeaf& leaf);

/// The elements of a tensor of a plan, whose shapes are proved.
std::uint64_t elements_of(std::span<const std::uint64_t> shape);

/// One axis of a piece: `count` steps, each of `from` elements in the source and of `to` elements
/// in the target.
struct MapLoop {
  std::uint64_t count = 0;
  std::int64_t from = 0;
  std::int64_t to = 0;

  friend bool operator==(const MapLoop&, const MapLoop&) = default;
};

/// Arithmetic with a number, in f32, or in f64 for f64.
struct MapStep {
  NumberStep::Kind kind = NumberStep::Kind::kAdd;
  double value = 0;

  friend bool operator==(const MapStep&, const MapStep&) = default;
};

/// Elements of a target that come from one source, or zeros.
struct MapPiece {
  static constexpr std::uint32_t kZeros = 0xFFFFFFFF;

  /// The number of the leaf, or kZeros.
  std::uint32_t source = kZeros;
  /// The first element in the source and in the target.
  std::int64_t from = 0;
  std::int64_t to = 0;
  /// The outermost loop of the target comes first. Loops are joined where source and target go on
  /// alike. A weight planned with MapParameters::kAdapted has one for each word of the rule that
  /// both sides have.
  std::vector<MapLoop> loops = {};
  /// Of such a weight: the axes of source and target that each loop goes along. Empty if source and
  /// target have the same shape.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> axes = {};
  /// Applied to each element, in order, before it is rounded to the target's dtype.
  std::vector<MapStep> steps = {};
};

/// A factor of a product of tensors: where its element for a step of each loop stands.
struct MapOperand {
  std::uint32_t source = 0;
  std::int64_t from = 0;
  /// Strides by loop of the term.
  std::vector<std::int64_t> strides = {};
};

/// A summand of a computed target: a number times the product of operands, summed over the loops
/// that the target lacks, which come last.
struct MapTerm {
  double factor = 1;
  std::vector<MapOperand> operands = {};
  /// Steps of each loop. The first ones are those of the target, outermost first.
  std::vector<std::uint64_t> counts = {};
  std::size_t target_loops = 0;
};

/// How hard it is to make a target; the worst of its pieces counts.
enum class MapWork : std::uint8_t {
  kRename,       // the source as it is
  kBlockGather,  // runs of 4 KiB or more
  kStrided,      // shorter runs: transposes, interleaved parts
  kArithmetic,   // numbers change
};

/// "rename", "block gather", "strided" or "arithmetic".
std::string_view work_name(MapWork work);

/// A tensor, or another value, that the map makes.
struct MapTarget {
  /// The name, and further ones that are tied to it.
  std::string name;
  std::vector<std::string> tied = {};
  /// The keys of these names in a tree where the name of a parameter is one key, such as that of
  /// {"model": {"layers.0.weight": ...}}; empty for what does not stand in or along parameters.
  std::vector<KeyPath> paths = {};
  /// The number of the rule, or kKept.
  std::uint32_t rule = 0;
  static constexpr std::uint32_t kKept = 0xFFFFFFFF;
  MapWork work = MapWork::kRename;
  /// Of a rename: the leaf, which may be no tensor. `pieces` and `terms` are empty.
  std::uint32_t source = MapPiece::kZeros;
  /// Whether it is a copy of its own of a source that other targets have, too, rather than tied to
  /// them.
  bool is_copy = false;
  DType dtype = DType::kF32;
  std::vector<std::uint64_t> shape = {};
  /// The words of the axes, where each axis is one word; for names of axes.
  std::vector<std::string> words = {};
  /// Together the whole target, and disjoint; but if the first one is zeros, others may lie in it.
  std::vector<MapPiece> pieces = {};
  /// In place of pieces, if the target is computed from several tensors. In the order of the
  /// target's loops.
  std::vector<MapTerm> terms = {};

  /// The leaves that it is made of, each once, in order.
  std::vector<std::uint32_t> sources() const;
};

/// Tensors that must be equal: a tie whose names are read, copies.
struct MapEqual {
  std::uint32_t rule = 0;
  std::uint32_t first = 0;
  std::uint32_t second = 0;
  /// How the second one lies in the first one; one piece, or none if they are stored alike.
  std::optional<MapPiece> piece = std::nullopt;
};

/// Elements that no target gets: `zeros` must be zero, and what `pad` loses is reported.
struct MapLost {
  std::uint32_t rule = 0;
  std::uint32_t source = 0;
  bool must_be_zero = false;
  /// The elements: `to` of the loops means nothing.
  MapPiece piece = {};
};

/// What one rule did.
struct MapRuleCount {
  std::uint64_t sources = 0;
  std::uint64_t targets = 0;
  MapWork work = MapWork::kRename;
};

/// Which parameters the leaves of a plan are.
enum class MapParameters : std::uint8_t {
  kAll,
  kSome,     // rules may be unused, and numbers in names may have gaps
  kAdapted,  // weights that an adapter changes: for plan_with_adapter()
};

/// A module whose weight an adapter changes, after a map.
struct MapAdapted {
  std::string module;
  std::uint64_t rank = 0;
  /// What the product of the factors is scaled by, times the rank, or its root; nothing if it is
  /// not known, and stays.
  std::optional<double> alpha = std::nullopt;
  /// Of the weight, by axis that no factors are stacked along: whether it is of columns.
  std::vector<bool> are_columns = {};
  /// Whether it is put together from several. The inverse makes factors of this rank for each of
  /// them, with the same product.
  bool is_joined = false;
};

/// The adapter that a map makes.
struct MapAdapter {
  /// Whether factors are scaled by alpha/sqrt(rank), and not by alpha/rank.
  bool is_rank_stabilized = false;
  /// Those of ties have an entry for each name.
  std::vector<MapAdapted> modules = {};
};

/// A proved plan. Immutable; const access is thread-safe.
class MapPlan {
 public:
  /// Plans what `map` makes of a checkpoint with these leaves, whose names are distinct. Errors,
  /// each with a sentence that names the rule, both names and the mend: kMapUnmatched,
  /// kMapAmbiguous, kMapIncomplete, kMapShape, kMapUndetermined, kMapNotInvertible; kNameCollision
  /// for two targets of one name. Takes time linear in the leaves for each rule.
  [[nodiscard]] static Result<MapPlan> make(const KeyMap& map, std::vector<MapLeaf> leaves,
                                            const MapPlanOptions& options = {});

  std::span<const MapLeaf> leaves() const { return leaves_; }
  /// In the order of the first sources.
  std::span<const MapTarget> targets() const { return targets_; }
  std::span<const MapEqual> equals() const { return equals_; }
  std::span<const MapLost> losses() const { return losses_; }
  std::span<const MapRuleCount> rules() const { return rules_; }
  /// The leaves that nothing is made of, and the rules that drop them, or MapTarget::kKept for
  /// those that "rest" drops.
  struct Dropped {
    std::uint32_t leaf = 0;
    std::uint32_t rule = 0;
  };
  std::span<const Dropped> dropped() const { return dropped_; }
  std::uint64_t kept() const { return kept_; }
  /// The parameters of each group of an optimizer, in the order of their new numbers; empty if
  /// LiftOptions::params is.
  const std::vector<std::vector<std::string>>& param_groups() const { return param_groups_; }
  /// Of plan_with_adapter().
  const std::optional<MapAdapter>& adapter() const { return adapter_; }
  /// Sentences on what could not be told.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  friend class MapPlanner;
  friend class MapLifter;
  friend class AdapterPlanner;
  friend Result<MapPlan> plan_with_state(const KeyMap& map, std::vector<MapLeaf> leaves,
                                         const LiftOptions& options);
  MapPlan() = default;
  // Of the plans of several sets of leaves: sorts the targets. kNameCollision.
  [[nodiscard]] static Result<MapPlan> merged(MapPlan plan);

  std::vector<MapLeaf> leaves_;
  std::vector<MapTarget> targets_;
  std::vector<MapEqual> equals_;
  std::vector<MapLost> losses_;
  std::vector<MapRuleCount> rules_;
  std::vector<Dropped> dropped_;
  std::uint64_t kept_ = 0;
  std::vector<std::vector<std::string>> param_groups_;
  std::optional<MapAdapter> adapter_;
  std::vector<std::string> notes_;
  // Of MapParameters::kAdapted: words that number tensors, and how many the adapter has, where
  // nothing else tells.
  std::map<std::string, std::uint64_t> guessed_;
};

/// Why a rule has no inverse, or is not exact; empty if it is. In the given direction of reading.
std::string inverse_problem(const Rule& rule, bool reverse);

}  // namespace espalier

#endif  // ESPALIER_MAP_PLAN_H_
