// Finds faults in the numbers of a checkpoint from the surveys of its tensors.
#ifndef ESPALIER_HEALTH_CHECK_H_
#define ESPALIER_HEALTH_CHECK_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/health/finding.h"
#include "espalier/health/layers.h"
#include "espalier/health/rules.h"
#include "espalier/health/tensor_survey.h"

namespace espalier {

/// Collects what is known of a checkpoint and finds what is wrong with it. Not thread-safe. Throws
/// std::bad_alloc.
class HealthCheck {
 public:
  /// Bytes of a path that are kept; a longer one is cut in the middle. A small hostile file may
  /// have many tensors with paths of 16 KiB.
  static constexpr std::size_t kMostPathBytes = 512;
  /// Anchors that are kept: 64 MiB of them. Of more, those with the lowest hashes are.
  static constexpr std::size_t kMostAnchors = std::size_t{1} << 22;
  /// Numbers of the tree that are kept: of those that are NaN, and of those that count steps. Of
  /// more, the first are.
  static constexpr std::size_t kMostNumbers = 10000;

  /// A path as findings have it: one of more bytes is cut in the middle, where a hash of it is.
  static std::string shown_path(std::string_view path);

  /// A tensor. `number` is its place among all, which may come in any order. Its name is the key
  /// path of its first node.
  void add(std::uint64_t number, std::string_view path, TensorSurvey survey);
  /// A tensor that could not be read, and why.
  void add_unreadable(std::string_view path, std::string reason);
  /// A number of the tree that is no tensor: looked at if it is NaN or a step.
  void add_number(std::string_view path, double value);
  /// A node that is not examined, and no container: another value, a further name of a tensor, one
  /// without elements, or one that was not chosen. So nothing that is there counts as missing.
  void add_present(std::string_view path);

  /// The findings, the worst first, then by rule, then in the order of the tensors. What follows
  /// from another finding of the same tensor is left out. Takes the tensors: call it once.
  std::vector<Finding> findings();
  /// After findings(): matrices without siblings, of which few rules tell anything.
  std::uint64_t alone() const { return alone_; }

 private:
  struct Tensor {
    std::uint64_t number = 0;
    Examinee examinee;
  };
  struct Unreadable {
    std::string path;
    std::string reason;
  };

  void thin_anchors();
  /// Puts the tensors in order, and their numbers of then into the parts of their paths.
  void sort_tensors();

  std::vector<Tensor> tensors_;
  std::vector<Unreadable> unreadable_;
  std::vector<Counter> counters_;
  std::vector<LayerPart> parts_;  // their tensors: in the order in which they were added
  std::vector<std::string> nan_numbers_;
  std::uint64_t further_nans_ = 0;
  std::set<std::string, std::less<>> scaled_;  // containers with scales beside what they scale
  std::uint64_t alone_ = 0;
  std::size_t anchors_ = 0;
  unsigned thinned_ = 0;  // bits of their hashes that are 0
};

}  // namespace espalier

#endif  // ESPALIER_HEALTH_CHECK_H_
