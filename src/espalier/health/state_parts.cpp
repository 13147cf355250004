#include "espalier/health/state_parts.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "espalier/health/names.h"
#include "espalier/health/segment_trail.h"
#include "espalier/walker.h"

namespace espalier {
namespace {

// Averages of gradients below a common container. More such copies are a model's layers.
constexpr std::size_t kMostMirrors = 4;

// What training does not learn: statistics of layers, and integers that are no quantised matrix.
bool is_rest(const SegmentTrail& trail, const TensorRef& tensor) {
  const DType dtype = tensor.dtype();
  if (is_mean_name(trail.key()) || trail.is_variance()) return true;
  if (tensor.elements() == 1 && is_step_name(trail.key())) return true;
  if (dtype_is_floating(dtype) || dtype == DType::kOpaque || dtype == DType::kC64 ||
      dtype == DType::kC128) {
    return false;
  }
  return tensor.shape().size() < 2 || dtype == DType::kBool || dtype_bits(dtype) == 64;
}

std::uint64_t combined(std::uint64_t a, std::uint64_t b) {
  return (a ^ (b + 0x9e3779b97f4a7c15 + (a << 6) + (a >> 2)));
}

// The paths of the state's tensors, and the marks of containers by the hashes of their paths.
class Parts {
 public:
  explicit Parts(const Checkpoint& checkpoint)
      : checkpoint_(checkpoint),
        parts_(checkpoint.catalog().tables().nodes.size(), StatePart::kRest) {}

  std::vector<StatePart> find() {
    for_each_tensor([&](const SegmentTrail& trail, const NodeRef& node) {
      mark_by_names(trail.segments());
      if (node.tensor()->elements() > 1) larger_.insert(trail.top());
    });
    if (optimizers_.empty()) mark_mirrors();
    for_each_tensor([&](const SegmentTrail& trail, const NodeRef& node) {
      // "train/loss" is no weight: what lies beside it are single numbers, too. "logit_scale" is.
      const bool is_record =
          node.tensor()->elements() == 1 && trail.has_several() && larger_.count(trail.top()) == 0;
      parts_[node.number()] = is_of_optimizer(trail.segments())             ? StatePart::kOptimizer
                              : is_record || is_rest(trail, *node.tensor()) ? StatePart::kRest
                                                                            : StatePart::kWeights;
    });
    return std::move(parts_);
  }

 private:
  // A subtree that has tensors of the same paths and shapes as a part of the weights.
  struct Mirror {
    std::uint64_t parent = 0;
    std::size_t tensors = 0;
    bool is_named = false;  // it stands beside the weights, and its name says average
  };

  template <class Visit>
  void for_each_tensor(Visit visit) {
    SegmentTrail trail;
    for (Walker walk(checkpoint_.state()); walk.next();) {
      const NodeRef node = walk.node();
      trail.enter(walk.depth(), walk.path());
      if (node.tensor()) visit(trail, node);
    }
  }

  void mark_by_names(std::span<const TrailSegment> segments) {
    for (std::size_t i = 0; i < segments.size(); ++i) {
      const TrailSegment& segment = segments[i];
      if (segment.names_optimizer) optimizers_.insert(segment.path);
      // The word belongs to optimizers alone; so does what stands beside it, such as "step".
      if ((segment.role == Role::kFirst || segment.role == Role::kSquares) && i > 0) {
        optimizers_.insert(segments[i - 1].path);
      }
    }
  }

  bool is_of_optimizer(std::span<const TrailSegment> segments) const {
    return !optimizers_.empty() &&
           std::any_of(segments.begin(), segments.end(), [&](const TrailSegment& segment) {
             return optimizers_.count(segment.path) > 0;
           });
  }

  // What lies below segment `i`, and its shape.
  static std::uint64_t tail_of(const SegmentTrail& trail, std::size_t i, const TensorRef& tensor) {
    std::uint64_t hash = trail.tail(i);
    for (const std::uint64_t length : tensor.shape()) hash = combined(hash, length);
    return hash;
  }

  // Finds the copies of what lies below the first segment, which is "params" or "net".
  void mark_mirrors() {
    std::unordered_map<std::uint64_t, std::vector<std::uint64_t>> tops;  // of each tail
    std::unordered_map<std::uint64_t, std::size_t> tensors;              // below each top
    for_each_tensor([&](const SegmentTrail& trail, const NodeRef& node) {
      if (!trail.has_several()) return;
      ++tensors[trail.top()];
      auto& same = tops[tail_of(trail, 0, *node.tensor())];
      // More tops than a state has parts say nothing, and would take the square of their number.
      if (same.size() <= kMostMirrors) same.push_back(trail.top());
    });
    std::unordered_map<std::uint64_t, std::pair<std::uint64_t, Mirror>> mirrors;
    for_each_tensor([&](const SegmentTrail& trail, const NodeRef& node) {
      const auto segments = trail.segments();
      for (std::size_t i = 0; i + 1 < segments.size(); ++i) {
        if (segments[i].is_number) continue;
        const auto same = tops.find(tail_of(trail, i, *node.tensor()));
        if (same == tops.end() || same->second.size() > kMostMirrors) continue;
        const std::uint64_t copy = segments[i].path;
        for (const std::uint64_t top : same->second) {
          if (top == trail.top()) continue;
          auto& [original, mirror] = mirrors[combined(copy, top)];
          original = top;
          mirror.parent = i == 0 ? copy : segments[i - 1].path;
          mirror.is_named = i == 0 && segments[i].names_average;
          ++mirror.tensors;
        }
      }
    });
    std::unordered_map<std::uint64_t, std::size_t> beside;  // whole copies, by parent and original
    for (const auto& [unused, found] : mirrors) {
      const auto& [original, mirror] = found;
      if (mirror.tensors == tensors[original]) ++beside[combined(mirror.parent, original)];
    }
    for (const auto& [unused, found] : mirrors) {
      const auto& [original, mirror] = found;
      if (mirror.tensors != tensors[original]) continue;
      const std::size_t copies = beside[combined(mirror.parent, original)];
      if (mirror.is_named || (copies >= 2 && copies <= kMostMirrors)) {
        optimizers_.insert(mirror.parent);
      }
    }
  }

  const Checkpoint& checkpoint_;
  std::vector<StatePart> parts_;
  std::unordered_set<std::uint64_t> optimizers_;  // hashes of the paths of containers
  std::unordered_set<std::uint64_t> larger_;      // first segments above tensors of many elements
};

}  // namespace

std::string_view state_part_name(StatePart part) {
  switch (part) {
    case StatePart::kWeights:
      return "weights";
    case StatePart::kOptimizer:
      return "optimizer";
    default:
      return "rest";
  }
}

std::vector<StatePart> state_parts(const Checkpoint& checkpoint) {
  return Parts(checkpoint).find();
}

}  // namespace espalier
