// The error for a file that no format takes.
#ifndef ESPALIER_FOREIGN_UNKNOWN_FORMAT_H_
#define ESPALIER_FOREIGN_UNKNOWN_FORMAT_H_

#include <string>
#include <string_view>

namespace espalier {

/// What to say of such a file: the formats that this program opens, and then `what` it is, or if
/// that is empty what its user can do.
std::string unknown_format(std::string_view what);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_UNKNOWN_FORMAT_H_
