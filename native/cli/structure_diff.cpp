#include "structure_diff.h"

#include <algorithm>
#include <bit>
#include <unordered_map>
#include <utility>

#include "node_paths.h"
#include "ties.h"

#include "espalier/format/digest.h"
#include "espalier/read/pattern_stepper.h"
#include "espalier/read/walker.h"

namespace espalier::cli {
namespace {

std::uint64_t bits(double value) { return std::bit_cast<std::uint64_t>(value); }

// Bit by bit, so that a NaN equals itself and -0.0 differs from 0.0.
bool same_scalar(const NodeRef& a, const NodeRef& b) {
  switch (a.kind()) {
    case Kind::kBool:
      return a.as_bool() == b.as_bool();
    case Kind::kInt64:
      return a.as_int64() == b.as_int64();
    case Kind::kBigInt:
      return a.as_bigint() == b.as_bigint();
    case Kind::kFloat64:
      return bits(*a.as_double()) == bits(*b.as_double());
    case Kind::kComplex128:
      return bits(a.as_complex()->real()) == bits(b.as_complex()->real()) &&
             bits(a.as_complex()->imag()) == bits(b.as_complex()->imag());
    case Kind::kString:
      return a.as_string() == b.as_string();
    case Kind::kBytes:
      return std::ranges::equal(*a.as_bytes(), *b.as_bytes());
    default:
      return true;
  }
}

// Whether hashes show that two tensors of the same dtype and shape hold the same bytes.
bool same_hashes(const TensorRef& a, const TensorRef& b) {
  if (!a.catalog().has_hashes() || !b.catalog().has_hashes()) return false;
  const auto chunks_a = a.catalog().tables().chunks.subspan(a.first_chunk(), a.chunk_count());
  const auto chunks_b = b.catalog().tables().chunks.subspan(b.first_chunk(), b.chunk_count());
  return std::ranges::equal(chunks_a, chunks_b, {}, &ChunkRecord::hash, &ChunkRecord::hash);
}

// What two tensors have in common; `data` as far as hashes tell.
struct Sameness {
  bool dtype = false;
  bool shape = false;
  bool axis_names = false;
  bool data = false;
};

Sameness sameness_of(const TensorRef& a, const TensorRef& b) {
  Sameness same;
  same.dtype = a.dtype() == b.dtype() && a.block() == b.block();
  same.shape = std::ranges::equal(a.shape(), b.shape());
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

  Result<std::vector<Difference>> run(const NodeRef& a, const NodeRef& b) {
    if (auto ok = compare(a, b, {0, PatternStepper::is_selected(patterns_.start())}); !ok)
      return propagate(ok);
    return std::move(differences_);
  }

 private:
  // Where a comparison is.
  struct Place {
    std::size_t depth;
    bool selected;
  };

  void report(Change change, const NodeRef& a, const NodeRef& b) {
    differences_.push_back({change, a.number(), b.number()});
  }

  // Calls `visit(place)` for child number `i` of `node`, which is at `place`, unless the patterns
  // leave the child out.
  template <class Visit>
  Result<void> descend(const Place& place, const NodeRef& node, std::uint32_t i, Visit visit) {
    const std::size_t depth = place.depth + 1;
    const auto verdict = patterns_.step(depth, node, i);
    if (verdict == PatternStepper::Verdict::kLeftOut) return {};
    return visit(Place{depth, PatternStepper::is_selected(verdict)});
  }

  // Reports what is selected of a subtree that only one side has.
  Result<void> report_one_sided(Change change, const NodeRef& node, const Place& place) {
    if (place.selected) {
      Difference difference{change};
      (change == Change::kOnlyInA ? difference.a : difference.b) = node.number();
      differences_.push_back(difference);
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
      // Also where the patterns mean something further down: what they mean is there on one side
      // only, or cannot be compared.
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
    if (!same.dtype) report(Change::kDType, a, b);
    if (!same.shape) report(Change::kShape, a, b);
    if (!same.axis_names) report(Change::kAxisNames, a, b);
    if (!options_.state_only && !have_same_tie(a, b)) report(Change::kTie, a, b);
    if (same.dtype && same.shape && !same.data) report(Change::kData, a, b);
  }

  // Tied tensors are compared once for each pair: their names and chunks may be many.
  Sameness sameness(const TensorRef& a, const TensorRef& b) {
    if (!ties_a_.is_tied(a) && !ties_b_.is_tied(b)) return sameness_of(a, b);
    const std::uint64_t pair = std::uint64_t{a.number()} << 32 | b.number();
    const auto [at, is_new] = known_.try_emplace(pair);
    if (is_new) at->second = sameness_of(a, b);
    return at->second;
  }

  // Whether two nodes at the same path are tied to the same ones.
  bool have_same_tie(const NodeRef& a, const NodeRef& b) const {
    if (!ties_a_.is_tied(*a.tensor()) && !ties_b_.is_tied(*b.tensor())) return true;
    return paths_a_.path(representatives_a_[a.tensor()->number()]) ==
           paths_b_.path(representatives_b_[b.tensor()->number()]);
  }

  Result<void> compare_keyed(const NodeRef& a, const NodeRef& b, const Place& place) {
    std::vector<std::uint32_t> common;  // places in B of the keys that both have, in A's order
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
    std::sort(others.begin(), others.end());
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

  // The digests of all nodes, worked out when the first set comes.
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
  std::vector<Difference> differences_;
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

Result<std::vector<Difference>> compare_structure(const Checkpoint& a, const Checkpoint& b,
                                                  std::span<const Pattern> patterns,
                                                  const DiffOptions& options) {
  // Once through both trees: the comparison leaves out what it need not look at, so that it cannot
  // tell whether a pattern matches anything.
  PatternStepper stepper(patterns);
  for (const Checkpoint* side : {&a, &b}) {
    if (patterns.empty()) break;
    for (Walker walk(side->state(), stepper); walk.next();) continue;
  }
  if (auto ok = stepper.check_all_matched(); !ok) return propagate(ok);
  return Comparison(a, b, stepper, options).run(a.state(), b.state());
}

Result<std::vector<Difference>> compare_metadata(const Checkpoint& a, const Checkpoint& b,
                                                 const DiffOptions& options) {
  PatternStepper everything({});
  return Comparison(a, b, everything, options).run(a.metadata(), b.metadata());
}

}  // namespace espalier::cli
