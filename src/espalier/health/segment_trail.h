// The segments of the paths of a walk, each looked at once.
#ifndef ESPALIER_HEALTH_SEGMENT_TRAIL_H_
#define ESPALIER_HEALTH_SEGMENT_TRAIL_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/health/names.h"

namespace espalier {

/// A part of a key path that '/' or '.' ends.
struct TrailSegment {
  /// Of the segments up to this one, for equality.
  std::uint64_t path = 0;
  Role role = Role::kPlain;
  bool names_optimizer = false;
  bool names_average = false;
  bool is_number = false;
};

/// Follows a walk from node to node. It looks at a container's name once, and not again for each
/// node below: a hostile file has many tensors below one long path.
class SegmentTrail {
 public:
  /// Segments that are looked at. A hostile path has thousands.
  static constexpr std::size_t kMost = 64;

  /// The walk comes to a node: `path` is its whole key path, as printed.
  void enter(std::size_t depth, std::string_view path);

  /// Those of the node's path, the first kMost.
  std::span<const TrailSegment> segments() const { return segments_; }
  /// Of all segments behind number `i` of segments(), for equality.
  std::uint64_t tail(std::size_t i) const;
  /// Of the first segment, for equality.
  std::uint64_t top() const { return segments_.empty() ? 0 : segments_.front().path; }
  bool has_several() const { return now().count > 1; }
  /// Whether a segment names the variance that a layer keeps.
  bool is_variance() const { return now().is_variance; }
  /// The node's own key, without escapes.
  std::string_view key() const { return key_; }

 private:
  // Facts about the path of a node.
  struct State {
    std::size_t path_size = 0;
    std::size_t kept = 0;   // of segments_
    std::size_t count = 0;  // of segments
    std::uint64_t hash = 0;
    bool is_variance = false;
  };

  const State& now() const { return states_.back(); }
  void add(std::string_view segment);

  std::vector<TrailSegment> segments_;
  std::vector<State> states_;  // by depth
  std::string key_;
};

}  // namespace espalier

#endif  // ESPALIER_HEALTH_SEGMENT_TRAIL_H_
