// Tells the role of a tensor by its name.
#ifndef ESPALIER_REPORT_NAME_ROLES_H_
#define ESPALIER_REPORT_NAME_ROLES_H_

#include <string>
#include <string_view>

namespace espalier {

/// The roles are those that names of PyTorch, JAX and their libraries tell apart.
enum class NameRole {
  kWeight,        // a parameter, or anything else
  kEmbedding,     // rows that nothing selects stay as they began
  kAdapterOut,    // the half of a low-rank adapter that begins as zeros
  kConstant,      // a table that is not trained: masks, frequencies, filter banks
  kRunning,       // averages of what a layer has seen
  kFirstMoment,   // an optimizer's average of gradients
  kSecondMoment,  // an optimizer's average of their squares
  kCounter,       // a number of steps
};

/// The role by the segments of a key path, which may hold dotted names.
NameRole role_of(std::string_view path);

/// Whether a tensor with that role is an optimizer's.
constexpr bool is_moment(NameRole role) {
  return role == NameRole::kFirstMoment || role == NameRole::kSecondMoment;
}

/// Whether a number whose path ends with this segment may be a number of steps.
bool is_counter_name(std::string_view segment);

/// The path with '*' for each run of digits: tensors of one kind, of different layers, have the
/// same.
std::string kind_of(std::string_view path);

/// Whether the rows stand for the words of a vocabulary.
bool is_vocabulary(std::string_view path);

/// The last segment.
std::string_view last_segment(std::string_view path);

}  // namespace espalier

#endif  // ESPALIER_REPORT_NAME_ROLES_H_
