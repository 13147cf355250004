// Which tensors are of one kind, by their key paths.
#ifndef ESPALIER_HEALTH_KINDS_H_
#define ESPALIER_HEALTH_KINDS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace espalier {

/// Tensors of a kind that say what is usual.
inline constexpr std::size_t kSiblings = 4;

/// What the paths of a kind have in common: all but one number, all but their numbers, or all but
/// one segment. A path that is like no other is a kind of its own.
struct PathKind {
  std::uint64_t id = 0;
  /// Whether a segment is open. Such a kind may mix tensors of different purposes.
  bool is_by_word = false;
  /// Whether it is the last one: the tensors of a module, which are for different purposes.
  bool is_end_open = false;

  friend bool operator==(const PathKind&, const PathKind&) = default;
};

/// The kind of each path. Of the numbers of a path, the one is left open that makes the largest
/// kind: "layers/3/fc1" and "layers/3/fc2" must not be one. If no kind has kSiblings, all numbers
/// are; and if that is not enough, a whole segment. Segments end at '/' and '.'.
std::vector<PathKind> find_kinds(std::span<const std::string_view> paths);

}  // namespace espalier

#endif  // ESPALIER_HEALTH_KINDS_H_
