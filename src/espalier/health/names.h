// What names add to what siblings say.
#ifndef ESPALIER_HEALTH_NAMES_H_
#define ESPALIER_HEALTH_NAMES_H_

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>

namespace espalier {

/// What a tensor is to an optimizer or a layer. Names and the relation of two tensors tell.
enum class Role : unsigned char {
  kPlain,    // a parameter, or anything else
  kFirst,    // an average of gradients
  kSquares,  // an average of squares: never negative
  kVariance  // the same, of a layer: its own mean alone belongs to it
};

/// The role that the segments of a key path give, as whole words. Segments end at '/' and '.'.
Role role_of(std::string_view path);

/// Whether it is what torch.nn.BatchNorm or Keras' BatchNormalization has beside a variance.
bool is_mean_name(std::string_view path);

/// Whether a number whose path ends so may be a number of steps.
bool is_step_name(std::string_view path);

/// Whether a tensor beside others scales them.
bool is_scale_name(std::string_view path);

/// The last segment.
std::string_view last_segment(std::string_view path);

/// Whether a segment is one of these words, which are in lower case; letters of ASCII match in
/// either case.
bool is_one_of(std::string_view segment, std::initializer_list<std::string_view> words);

/// "a/b" for "a~1b", as key paths escape a '/' in a key.
std::string unescaped(std::string_view path);

/// Calls `visit` with each segment.
void for_each_segment(std::string_view path, const std::function<void(std::string_view)>& visit);

}  // namespace espalier

#endif  // ESPALIER_HEALTH_NAMES_H_
