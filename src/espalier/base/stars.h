// Names that are like a pattern whose only wildcard is a star.
#ifndef ESPALIER_BASE_STARS_H_
#define ESPALIER_BASE_STARS_H_

#include <string_view>

namespace espalier {

/// Whether all of `name` is like `pattern`, in which a star stands for any text. Takes time
/// proportional to the product of their lengths at most.
bool matches_stars(std::string_view pattern, std::string_view name);

}  // namespace espalier

#endif  // ESPALIER_BASE_STARS_H_
