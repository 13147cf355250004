// The tensors of a checkpoint, each with those that it is judged by.
#ifndef ESPALIER_HEALTH_COHORT_H_
#define ESPALIER_HEALTH_COHORT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "espalier/health/kinds.h"
#include "espalier/health/names.h"
#include "espalier/health/tensor_survey.h"

namespace espalier {

/// What siblings have in common. A first that has enough of the same shape is used.
enum class SiblingLevel : std::uint8_t {
  kNone,    // too few
  kNumber,  // the path but for numbers
  kWord,    // the path but for a segment: it may mix purposes
  kShape,   // shape, dtype and role, anywhere in the file
};

/// A tensor that is judged.
struct Examinee {
  std::string path;
  /// The path without escapes, by which it has its kind: keys of flat files hold whole paths.
  std::string name;
  TensorSurvey survey;
  PathKind kind;
  Role role = Role::kPlain;
  /// Not negative, and most of it small: sums of squares, counts, histories.
  bool is_skew = false;
  /// Whether another tensor has the same dead rows, and they are no single run inside: those of a
  /// table that no step has used, which gradients and their averages have in common.
  bool has_unused_rows = false;
  /// The number of its group.
  std::uint32_t group = 0;
};

/// What siblings may have in common.
enum class Trait : std::uint8_t {
  kZero,      // all elements are zero
  kConstant,  // all are equal
  kRuns,
  kZeros,  // some elements are zero
  kDeadRows,
  kDeadColumns,
  kEqualRows,
};
inline constexpr std::size_t kTraits = 7;

struct SiblingGroup {
  SiblingLevel level = SiblingLevel::kNone;
  /// Numbers of tensors, in order; the tensor itself is one of them.
  std::vector<std::uint32_t> members;
  /// How many have each trait. Counted once: a hostile file has very many siblings.
  std::array<std::uint32_t, kTraits> counts{};
  /// The greatest norms of the rows and of the columns of those that are not constant, in medians
  /// and in order.
  std::vector<double> loudest_rows;
  std::vector<double> loudest_columns;
};

/// An average of gradients and that of their squares.
struct MomentPair {
  std::uint32_t squares = 0;
  std::uint32_t first = 0;
};

/// Finds kinds, roles and siblings of all tensors at once. Not thread-safe. Throws std::bad_alloc.
class Cohort {
 public:
  /// Members of a group of kShape.
  static constexpr std::size_t kLeastOfShape = 6;

  explicit Cohort(std::vector<Examinee> tensors);

  std::span<const Examinee> tensors() const { return tensors_; }
  const Examinee& operator[](std::uint32_t number) const { return tensors_[number]; }
  const SiblingGroup& siblings_of(const Examinee& tensor) const { return groups_[tensor.group]; }
  std::span<const SiblingGroup> groups() const { return groups_; }
  /// All tensors of each kind, whatever their shapes.
  const std::map<std::uint64_t, std::vector<std::uint32_t>>& kinds() const { return kinds_; }
  std::span<const std::uint32_t> kind_of(const Examinee& tensor) const {
    return kinds_.at(tensor.kind.id);
  }
  std::span<const MomentPair> moments() const { return moments_; }
  /// The share of its siblings, itself one of them, that have a trait.
  double share(const Examinee& tensor, Trait trait) const {
    const SiblingGroup& group = siblings_of(tensor);
    return static_cast<double>(group.counts[static_cast<std::size_t>(trait)]) /
           static_cast<double>(group.members.size());
  }
  bool has_siblings(const Examinee& tensor) const {
    return siblings_of(tensor).members.size() >= kSiblings;
  }

 private:
  void find_roles();
  void find_siblings();
  void count_traits();
  void find_unused_rows();

  std::vector<Examinee> tensors_;
  std::vector<SiblingGroup> groups_;
  std::map<std::uint64_t, std::vector<std::uint32_t>> kinds_;
  std::vector<MomentPair> moments_;
};

}  // namespace espalier

#endif  // ESPALIER_HEALTH_COHORT_H_
