#include "espalier/health/state_parts.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "espalier/bytes.h"
#include "espalier/codec/hash.h"
#include "espalier/health/names.h"
#include "espalier/walker.h"

namespace espalier {
namespace {

// Averages of gradients below a common container. More such copies are a model's layers.
constexpr std::size_t kMostMirrors = 4;
// Segments of a path that are looked at. A hostile path has thousands.
constexpr std::size_t kMostSegments = 64;

// "optimizer", "Optimizer_0", "critic_optim", "opt_state", "gen_opt"; not "optics", nor "opt-125m",
// which is a model.
bool names_optimizer(std::string_view segment) {
  while (!segment.empty()) {
    const std::size_t end = std::min(segment.find('_'), segment.size());
    const std::string_view word = segment.substr(0, end);
    segment.remove_prefix(std::min(end + 1, segment.size()));
    if (is_one_of(word,
                  {"optimizer", "optimizers", "optimiser", "optimisers", "optim", "optims"})) {
      return true;
    }
    if (is_one_of(word, {"opt"}) && (segment.empty() || is_one_of(segment, {"state", "states"}))) {
      return true;
    }
  }
  return false;
}

// What people call the averages that they write themselves, beside the weights.
bool names_average(std::string_view segment) {
  return is_one_of(segment,
                   {"m", "v", "mu", "nu", "mom", "moment", "momentum", "moments", "velocity"});
}

bool is_number(std::string_view segment) {
  if (segment.substr(0, 2) == "~2") segment.remove_prefix(2);  // the text "3"
  return std::all_of(segment.begin(), segment.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// What training does not learn: statistics of layers, and integers that are no quantised matrix.
bool is_rest(std::string_view path, const TensorRef& tensor) {
  const DType dtype = tensor.dtype();
  if (is_mean_name(path) || role_of(path) == Role::kVariance) return true;
  if (tensor.elements() == 1 && is_step_name(path)) return true;
  if (dtype_is_floating(dtype) || dtype == DType::kOpaque || dtype == DType::kC64 ||
      dtype == DType::kC128) {
    return false;
  }
  return tensor.shape().size() < 2 || dtype == DType::kBool || dtype_bits(dtype) == 64;
}

struct Segment {
  std::size_t begin;
  std::size_t end;
};

std::vector<Segment> segments_of(std::string_view path) {
  std::vector<Segment> found;
  for_each_segment(path, [&](std::string_view segment) {
    const auto begin = static_cast<std::size_t>(segment.data() - path.data());
    if (found.size() < kMostSegments) found.push_back({begin, begin + segment.size()});
  });
  return found;
}

std::uint64_t hash_of(std::string_view text) { return hash64(as_bytes(text)); }

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
    for_each_tensor([&](std::string_view path, const NodeRef& node) {
      mark_by_names(path);
      if (node.tensor()->elements() > 1) larger_.insert(top_of(path));
    });
    if (optimizers_.empty()) mark_mirrors();
    for_each_tensor([&](std::string_view path, const NodeRef& node) {
      // "train/loss" is no weight: what lies beside it are single numbers, too. "logit_scale" is.
      const bool is_record = node.tensor()->elements() == 1 &&
                             path.find_first_of("/.") != std::string_view::npos &&
                             larger_.count(top_of(path)) == 0;
      parts_[node.number()] = is_of_optimizer(path)                        ? StatePart::kOptimizer
                              : is_record || is_rest(path, *node.tensor()) ? StatePart::kRest
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
    for (Walker walk(checkpoint_.state()); walk.next();) {
      const NodeRef node = walk.node();
      if (node.tensor()) visit(unescaped(walk.path()), node);
    }
  }

  void mark_by_names(std::string_view path) {
    std::size_t before = 0;  // the end of the segment before
    for (const auto& [begin, end] : segments_of(path)) {
      const std::string_view segment = path.substr(begin, end - begin);
      if (names_optimizer(segment)) optimizers_.insert(hash_of(path.substr(0, end)));
      // The word belongs to optimizers alone; so does what stands beside it, such as "step".
      const Role role = role_of(segment);
      if ((role == Role::kFirst || role == Role::kSquares) && before > 0) {
        optimizers_.insert(hash_of(path.substr(0, before)));
      }
      before = end;
    }
  }

  bool is_of_optimizer(std::string_view path) const {
    if (optimizers_.empty()) return false;
    const auto segments = segments_of(path);
    return std::any_of(segments.begin(), segments.end(), [&](const Segment& segment) {
      return optimizers_.count(hash_of(path.substr(0, segment.end))) > 0;
    });
  }

  static std::uint64_t top_of(std::string_view path) {
    return hash_of(path.substr(0, std::min(path.find_first_of("/."), path.size())));
  }

  static std::uint64_t tail_of(std::string_view path, std::size_t end, const TensorRef& tensor) {
    std::uint64_t hash = hash_of(path.substr(std::min(end + 1, path.size())));
    for (const std::uint64_t length : tensor.shape()) hash = combined(hash, length);
    return hash;
  }

  // Finds the copies of what lies below the first segment, which is "params" or "net".
  void mark_mirrors() {
    std::unordered_map<std::uint64_t, std::vector<std::uint64_t>> tops;  // of each tail
    std::unordered_map<std::uint64_t, std::size_t> tensors;              // below each top
    for_each_tensor([&](std::string_view path, const NodeRef& node) {
      const auto segments = segments_of(path);
      if (segments.size() < 2) return;
      const std::uint64_t top = hash_of(path.substr(0, segments[0].end));
      ++tensors[top];
      auto& same = tops[tail_of(path, segments[0].end, *node.tensor())];
      // More tops than a state has parts say nothing, and would take the square of their number.
      if (same.size() <= kMostMirrors) same.push_back(top);
    });
    std::unordered_map<std::uint64_t, std::pair<std::uint64_t, Mirror>> mirrors;
    for_each_tensor([&](std::string_view path, const NodeRef& node) {
      const auto segments = segments_of(path);
      for (std::size_t i = 0; i + 1 < segments.size(); ++i) {
        const std::string_view name =
            path.substr(segments[i].begin, segments[i].end - segments[i].begin);
        if (is_number(name)) continue;
        const auto same = tops.find(tail_of(path, segments[i].end, *node.tensor()));
        if (same == tops.end() || same->second.size() > kMostMirrors) continue;
        const std::uint64_t copy = hash_of(path.substr(0, segments[i].end));
        for (const std::uint64_t top : same->second) {
          if (top == hash_of(path.substr(0, segments[0].end))) continue;
          auto& [original, mirror] = mirrors[combined(copy, top)];
          original = top;
          mirror.parent = i == 0 ? copy : hash_of(path.substr(0, segments[i - 1].end));
          mirror.is_named = i == 0 && names_average(name);
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
