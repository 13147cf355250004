#include "espalier/report/structure_diff.h"

#include <algorithm>
#include <functional>
#include <span>
#include <unordered_map>
#include <utility>

#include "espalier/base/merge_sort.h"
#include "espalier/format/access.h"
#include "espalier/format/digest.h"
#include "espalier/read/pattern_stepper.h"
#include "espalier/report/node_paths.h"
#include "espalier/report/ties.h"
#include "espalier/walker.h"

namespace espalier {
namespace {

template <class T>
bool equal(std::span<T> a, std::span<T> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

// Compares values of two nodes of one kind bit by bit, so a NaN equals itself and -0.0 differs from
// 0.0.
bool same_scalar(const NodeRef& a, const NodeRef& b) {
  const Tables& t_a = a.catalog().tables();
  const Tables& t_b = b.catalog().tables();
  const NodeRecord& one = t_a.nodes[a.number()];
  const NodeRecord& other = t_b.nodes[b.number()];
  const auto same_words = [&](std::size_t count) {
    return equal(t_a.words.subspan(one.value, count), t_b.words.subspan(other.value, count));
  };
  switch (a.kind()) {
    case Kind::kBool:
      return one.value == other.value;
    case Kind::kInt64:
    case Kind::kFloat64:
      return same_words(1);
    case Kind::kComplex128:
      return same_words(2);
    case Kind::kString:
      return table_text(t_a, one.value) == table_text(t_b, other.value);
    case Kind::kBigInt:
    case Kind::kBytes:
      return equal(t_a.bytes.subspan(one.value, one.count),
                   t_b.bytes.subspan(other.value, other.count));
    default:
      return true;
  }
}

// Whether hashes show that two tensors of the same dtype and shape hold the same bytes.
bool same_hashes(const TensorRef& a, const TensorRef& b) {
  if (a.bytes() == 0) return true;
  if (!a.catalog().has_hashes() || !b.catalog().has_hashes()) return false;
  const auto chunks_a = a.catalog().tables().chunks.subspan(a.first_chunk(), a.chunk_count());
  const auto chunks_b = b.catalog().tables().chunks.subspan(b.first_chunk(), b.chunk_count());
  return std::equal(
      chunks_a.begin(), chunks_a.end(), chunks_b.begin(), chunks_b.end(),
      [](const ChunkRecord& one, const ChunkRecord& other) { return one.hash == other.hash; });
}

// The equal properties of two tensors; `data` as far as hashes show.
struct Sameness {
  bool dtype = false;
  bool shape = false;
  bool axis_names = false;
  bool data = false;
};

Sameness sameness_of(const TensorRef& a, const TensorRef& b) {
  Sameness same;
  same.dtype = a.dtype() == b.dtype() && a.block() == b.block();
  same.shape = equal(a.shape(), b.shape());
  same.axis_names = a.axis_names() == b.axis_names();
  same.data = same.dtype && same.shape && (a.is_placeholder() || same_hashes(a, b));
  return same;
}

using Digests = std::vector<Hash128>;

class Comparison {
 public:
  Comparison(const Checkpoint& a, const Checkpoint& b, PatternStepper& patterns,
             const DiffOptions& options)
      : a_(a),
        b_(b),
        patterns_(patterns),
        options_(options),
        ties_a_(a),
        ties_b_(b),
        paths_a_(a),
        paths_b_(b),
        representatives_a_(tie_representatives(a, paths_a_)),
        representatives_b_(tie_representatives(b, paths_b_)) {}

  Result<StructureDiff> run(const NodeRef& a, const NodeRef& b) {
    if (auto ok = compare(a, b, {0, PatternStepper::is_selected(patterns_.start())}); !ok)
      return propagate(ok);
    return std::move(diff_);
  }

 private:
  // The position of a comparison.
  struct Place {
    std::size_t depth;
    bool selected;
  };

  void report(Change change, const NodeRef& a, const NodeRef& b) {
    diff_.differences.push_back({change, a.number(), b.number()});
  }

  // Calls `visit(place)` for child number `i` of `node`, which is at `place`, unless the patterns
  // exclude the child.
  template <class Visit>
  Result<void> descend(const Place& place, const NodeRef& node, std::uint32_t i, Visit visit) {
    const std::size_t depth = place.depth + 1;
    const auto verdict = patterns_.step(depth, node, node.child(i));
    if (verdict == PatternStepper::Verdict::kLeftOut) return {};
    return visit(Place{depth, PatternStepper::is_selected(verdict)});
  }

  // Reports the selected part of a subtree that only one side has.
  Result<void> report_one_sided(Change change, const NodeRef& node, const Place& place) {
    if (place.selected) {
      Difference difference{change};
      (change == Change::kOnlyInA ? difference.a : difference.b) = node.number();
      diff_.differences.push_back(difference);
      return {};
    }
    for (std::uint32_t i = 0; i < node.size(); ++i) {
      auto ok = descend(place, node, i, [&](const Place& child) {
        return report_one_sided(change, node.child(i), child);
      });
      if (!ok) return ok;
    }
    return {};
  }

  Result<void> compare(const NodeRef& a, const NodeRef& b, const Place& place) {
    if (place.selected && a.label() != b.label()) report(Change::kLabel, a, b);
    if (a.kind() != b.kind()) {
      // Also if the patterns select something further down: it exists on one side only, or cannot
      // be compared.
      report(Change::kKind, a, b);
      return {};
    }
    if (a.kind() == Kind::kSet) return compare_sets(a, b, place);
    if (has_keys(a.kind())) return compare_keyed(a, b, place);
    if (is_container(a.kind())) return compare_positions(a, b, place);
    if (!place.selected) return {};
    if (a.tensor()) {
      compare_tensors(a, b);
    } else if (!same_scalar(a, b)) {
      report(Change::kValue, a, b);
    }
    return {};
  }

  void compare_tensors(const NodeRef& a, const NodeRef& b) {
    const Sameness same = sameness(*a.tensor(), *b.tensor());
    if (same.data) {
      ++diff_.equal_tensors;
      if (!a.tensor()->is_placeholder() && a.tensor()->bytes() > 0) ++diff_.equal_by_hashes;
    }
    if (!same.dtype) report(Change::kDType, a, b);
    if (!same.shape) report(Change::kShape, a, b);
    if (!same.axis_names) report(Change::kAxisNames, a, b);
    if (!options_.state_only && !have_same_tie(a, b)) report(Change::kTie, a, b);
    if (same.dtype && same.shape && !same.data) report(Change::kData, a, b);
  }

  // Tied tensors are compared once for each pair, because they may have many names and chunks.
  Sameness sameness(const TensorRef& a, const TensorRef& b) {
    if (!ties_a_.is_tied(a) && !ties_b_.is_tied(b)) return sameness_of(a, b);
    const std::uint64_t pair = std::uint64_t{a.number()} << 32 | b.number();
    const auto [at, is_new] = known_.try_emplace(pair);
    if (is_new) at->second = sameness_of(a, b);
    return at->second;
  }

  // Whether two nodes at the same path are tied to the same nodes.
  bool have_same_tie(const NodeRef& a, const NodeRef& b) const {
    if (!ties_a_.is_tied(*a.tensor()) && !ties_b_.is_tied(*b.tensor())) return true;
    return paths_a_.path(representatives_a_[a.tensor()->number()]) ==
           paths_b_.path(representatives_b_[b.tensor()->number()]);
  }

  Result<void> compare_keyed(const NodeRef& a, const NodeRef& b, const Place& place) {
    std::vector<std::uint32_t> common;  // positions in B of the common keys, in A's order
    for (std::uint32_t i = 0; i < a.size(); ++i) {
      const auto other = b.find(a.key(i));
      if (other) common.push_back(other->number());
      auto ok = descend(place, a, i, [&](const Place& child) {
        return other ? compare(a.child(i), *other, child)
                     : report_one_sided(Change::kOnlyInA, a.child(i), child);
      });
      if (!ok) return ok;
    }
    for (std::uint32_t i = 0; i < b.size(); ++i) {
      if (a.find(b.key(i))) continue;
      auto ok = descend(place, b, i, [&](const Place& child) {
        return report_one_sided(Change::kOnlyInB, b.child(i), child);
      });
      if (!ok) return ok;
    }
    const bool reordered = !std::is_sorted(common.begin(), common.end());
    if (reordered && place.selected && !options_.state_only) report(Change::kKeyOrder, a, b);
    return {};
  }

  Result<void> compare_positions(const NodeRef& a, const NodeRef& b, const Place& place) {
    const std::uint32_t common = std::min(a.size(), b.size());
    for (std::uint32_t i = 0; i < std::max(a.size(), b.size()); ++i) {
      const NodeRef& longer = i < a.size() ? a : b;
      auto ok = descend(place, longer, i, [&](const Place& child) {
        if (i < common) return compare(a.child(i), b.child(i), child);
        const Change change = i < a.size() ? Change::kOnlyInA : Change::kOnlyInB;
        return report_one_sided(change, longer.child(i), child);
      });
      if (!ok) return ok;
    }
    return {};
  }

  Result<void> compare_sets(const NodeRef& a, const NodeRef& b, const Place& place) {
    auto digests_a = digests_of(a_, memory_a_);
    if (!digests_a) return propagate(digests_a);
    auto digests_b = digests_of(b_, memory_b_);
    if (!digests_b) return propagate(digests_b);
    if (auto ok = report_missing(Change::kOnlyInA, a, **digests_a, b, **digests_b, place); !ok) {
      return ok;
    }
    return report_missing(Change::kOnlyInB, b, **digests_b, a, **digests_a, place);
  }

  // Reports the elements of the set `here` that `there` does not have.
  Result<void> report_missing(Change change, const NodeRef& here, const Digests& digests,
                              const NodeRef& there, const Digests& other_digests,
                              const Place& place) {
    using Pair = std::pair<std::uint64_t, std::uint64_t>;
    const auto sortable = [](const Hash128& hash) { return Pair(hash.low, hash.high); };
    std::vector<Pair> others;
    for (std::uint32_t i = 0; i < there.size(); ++i) {
      others.push_back(sortable(other_digests[there.child(i).number()]));
    }
    merge_sort_runs(others, std::less<>());
    for (std::uint32_t i = 0; i < here.size(); ++i) {
      const Pair wanted = sortable(digests[here.child(i).number()]);
      auto ok = descend(place, here, i, [&](const Place& child) -> Result<void> {
        if (std::binary_search(others.begin(), others.end(), wanted)) return {};
        return report_one_sided(change, here.child(i), child);
      });
      if (!ok) return ok;
    }
    return {};
  }

  // The digests of all nodes, computed at the first set.
  static Result<const Digests*> digests_of(const Checkpoint& checkpoint, Digests& memory) {
    if (memory.empty()) {
      auto digests = node_digests(checkpoint.catalog().tables());
      if (!digests) return propagate(digests);
      memory = std::move(*digests);
    }
    return &memory;
  }

  const Checkpoint& a_;
  const Checkpoint& b_;
  PatternStepper& patterns_;
  DiffOptions options_;
  Ties ties_a_;
  Ties ties_b_;
  NodePaths paths_a_;
  NodePaths paths_b_;
  std::vector<std::uint32_t> representatives_a_;  // by tensor
  std::vector<std::uint32_t> representatives_b_;
  std::unordered_map<std::uint64_t, Sameness> known_;  // by tensor in A and in B
  Digests memory_a_;
  Digests memory_b_;
  StructureDiff diff_;
};

}  // namespace

std::string_view change_name(Change change) {
  switch (change) {
    case Change::kOnlyInA:
      return "only_in_a";
    case Change::kOnlyInB:
      return "only_in_b";
    case Change::kKind:
      return "kind";
    case Change::kLabel:
      return "label";
    case Change::kValue:
      return "value";
    case Change::kDType:
      return "dtype";
    case Change::kShape:
      return "shape";
    case Change::kAxisNames:
      return "axis_names";
    case Change::kKeyOrder:
      return "key_order";
    case Change::kTie:
      return "tie";
    case Change::kData:
      return "data";
  }
  return "unknown";
}

Result<StructureDiff> compare_structure(const Checkpoint& a, const Checkpoint& b,
                                        std::span<const Pattern> patterns,
                                        const DiffOptions& options) {
  // Match the patterns against both trees first: the comparison skips subtrees, so it cannot tell
  // whether a pattern matches anything.
  PatternStepper stepper(patterns);
  for (const Checkpoint* side : {&a, &b}) {
    if (patterns.empty()) break;
    for (Walker walk(side->state(), stepper); walk.next();) continue;
  }
  if (auto ok = stepper.check_all_matched(); !ok) return propagate(ok);
  return Comparison(a, b, stepper, options).run(a.state(), b.state());
}

Result<StructureDiff> compare_metadata(const Checkpoint& a, const Checkpoint& b,
                                       const DiffOptions& options) {
  PatternStepper everything({});
  return Comparison(a, b, everything, options).run(a.metadata(), b.metadata());
}

}  // namespace espalier
